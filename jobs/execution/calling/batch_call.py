"""One call of a batch handler, shared by jobs that start together.

Each job has a run of its own, up to the call of its handler and from the call's end on: its claim,
its events, what its app opens around it, its outcome and its settlement. Where another job's
handler would be called, it joins the call of its batch, which begins once each has joined or left.

    joined       a job's own call waits for the shared one
    interrupted  the shared call goes on for the others, and ends without a result for this one; if
                 all are interrupted it is cancelled. The job waits for the end in any case: until
                 then the handler may work on its item, for which its limits have to count
    ended        each gets what the handler returned, or reported, for it; else the handler's error.
                 One that the handler has seen to be cancelled, and says nothing of, was left out
    stopped      if the error is the `Stopped` of one that was to end, it is no fault of the others,
                 which are given back and run again without it
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from contextvars import Context, copy_context
from datetime import timedelta
from functools import cached_property, partial
from types import TracebackType
from typing import Any

from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.handlers.batch_context import BatchContext
from headgate.jobs.definitions.handlers.context import has_seen_stop
from headgate.jobs.definitions.handlers.injection import Shared
from headgate.jobs.definitions.handlers.resources import Layers
from headgate.jobs.errors import ConfigurationError, Stopped
from headgate.jobs.execution.calling.call import HandlerCall, is_stop
from headgate.jobs.execution.calling.invoking import in_loop, in_thread
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.calling.surroundings import Bounds, surrounded, surrounded_in_thread
from headgate.jobs.execution.calling.time_limits import TimeLimit
from headgate.jobs.execution.delivery import Job
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.redaction import secrets_of

_STOPPED_WITH_ANOTHER = "its call stopped with another job, which was to end"


def company_of(job: Job, queue: QueueSpec, *, unread: bool = False) -> Hashable | None:
    """Return what a job has in common with those that may run in one call with it.

    None if it runs alone: its handler takes one job; it has been tried before, since what made it
    fail, or killed its process, might do so to others; or its payload has not been read.

    Args:
        job: the job.
        queue: the queue that it came from.
        unread: take a job whose payload is read once it starts, unless that decides who joins it.
    """
    batch, attempt = job.handler.batch, job.attempt
    if batch is None or batch.size == 1 or queue.fifo:
        return None
    if attempt.number > 1 or attempt.crashes or attempt.suspicions:
        return None
    if job.lacks_payload and (batch.reads_payloads or not unread):
        return None
    try:
        group = batch.group_of(job.payload, job.envelope.tenant)
    except Exception:  # noqa: BLE001 - the user's code; its own call raises it again, and fails
        return None
    return queue.name, job.type.name, job.timeout_s, group


def seat_of(job: Job, given: Seat | None, means: Means) -> Seat | None:
    """Return a job's place in the call of a batch handler: the given one, or one of its own.

    None if its handler takes single jobs.
    """
    if given is not None or job.handler.batch is None:
        return given
    return BatchCall(means, 1).seats[0]


@light_dataclass(frozen=True, slots=True)
class _Ending:
    """The end of one job's part of a call."""

    result: Any = None
    error: BaseException | None = None
    traceback: TracebackType | None = None
    """As it was where the error was caught: each job that raises it adds its own to it."""

    def taken(self) -> Any:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error.with_traceback(self.traceback)
        return self.result


class Seat:
    """A job's place in a call; made by `BatchCall`, and given to the job's run before it starts."""

    def __init__(self, call: BatchCall) -> None:
        self._call = call
        self._woken: asyncio.Future[None] | None = None
        self.own: HandlerCall | None = None
        """The job's own call, once it has joined."""
        self.context: Context | None = None
        """The context in which it joined."""
        self.ending: _Ending | None = None
        """The end of its part of the call, once it is known."""
        self.is_taken = False
        """True once the call has begun with it."""
        self.is_interrupted = False
        self.has_left = False

    @property
    def jobs(self) -> int:
        """The number of jobs that started together."""
        return len(self._call.seats)

    def secrets(self) -> frozenset[str]:
        """Return the secrets of all jobs in the call, any of which an error may quote."""
        return self._call.secrets if self._call.has_begun else frozenset()

    async def result(self, call: HandlerCall) -> Any:
        """Join the call; return, or raise, what it has for this job."""
        if (batch := call.job.handler.batch) is not None:
            batch.group_of(call.job.payload, call.job.envelope.tenant)  # a fault is this job's own
        self.own, self.context = call, copy_context()
        self._woken = asyncio.get_running_loop().create_future()
        self._call.decided()
        try:
            await self._woken
        except asyncio.CancelledError:
            self.interrupt()
            if self.is_taken:
                await self._call_ended()
            if self.ending is None:
                raise
        return None if self.ending is None else self.ending.taken()

    async def _call_ended(self) -> None:
        """Wait for the call's end; cancelled once more, no longer, if the job's part is decided."""
        try:
            await self._call.ended()
        except asyncio.CancelledError:
            if self.ending is None:
                raise

    def interrupt(self) -> None:
        """Note that the job's own call is about to be cancelled."""
        if not self.is_interrupted:
            self.is_interrupted = True
            self._call.interrupted(self)

    def leave(self) -> bool:
        """Note that the job has ended, or won't come; return True if no other is left."""
        self.has_left = True
        if self.own is None:
            self._call.decided()
        return self._call.has_emptied()

    def wake(self) -> None:
        """Let the job's own call go on."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


class BatchCall:
    """One call of a batch handler; the host of its context.

    Args:
        means: the means of calling it.
        jobs: the number of jobs that start together. Each has to take its seat, or leave it.
    """

    def __init__(self, means: Means, jobs: int) -> None:
        self._means = means
        self._context = copy_context()
        self._undecided = jobs
        """Number of jobs that have neither joined nor left."""
        self._left = 0
        """Number of jobs that have left."""
        self._going = 0
        """Number of jobs in the call that have not been interrupted."""
        self._taken: list[Seat] = []
        self._calls: list[HandlerCall] = []
        """The jobs that are in the call, once it has begun: their seats, and their own calls."""
        self._task: asyncio.Task[None] | None = None
        self.seats = [Seat(self) for _ in range(jobs)]

    @property
    def has_begun(self) -> bool:
        """True once it is known which jobs are in the call."""
        return self._task is not None

    @cached_property
    def secrets(self) -> frozenset[str]:
        """The secrets in the payloads of all jobs in the call, once it has begun."""
        return secrets_of([call.job.payload for call in self._calls])

    def decided(self) -> None:
        """Note that one more job has joined, or won't come; begin once that is known of all."""
        self._undecided -= 1
        if self._undecided:
            return
        for seat in self.seats:
            if seat.own is not None and not (seat.has_left or seat.is_interrupted):
                seat.is_taken = True
                self._taken.append(seat)
                self._calls.append(seat.own)
        if self._taken:
            self._going = len(self._taken)
            alone = self._taken[0].context if self._going == 1 else None
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name="headgate-batch", context=alone or self._context
            )

    def has_emptied(self) -> bool:
        """Note that a job has left; return True if it was the last."""
        self._left += 1
        return self._left == len(self.seats)

    def interrupted(self, seat: Seat) -> None:
        """Note that a job is interrupted; cancel the call if all others are."""
        if self._task is not None and seat.is_taken:
            self._going -= 1
            if not self._going:
                self._task.cancel()

    async def ended(self) -> None:
        """Return once the call has ended, if it has begun."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    # --- the host of the handler's context -------------------------------------------------------

    def end(self, place: int, result: Any, error: BaseException | None) -> None:
        """Note how the attempt of the job at that place ends; the last call counts."""
        traceback = None if error is None else error.__traceback__
        self._taken[place].ending = _Ending(result, error, traceback)

    def has_ended(self, place: int) -> bool:
        """Return True if that is known."""
        return self._taken[place].ending is not None

    # --- the call --------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            self._spread(await self._called())
        except GeneratorExit:
            raise  # this coroutine is being closed
        except BaseException as error:  # noqa: BLE001 - each job raises it in its own call
            self._end_open(error)
        for seat in self._taken:
            seat.wake()

    async def _called(self) -> Any:
        """Call the handler within the resources that it wants."""
        job, resources = self._calls[0].job, self._means.resources
        ctx = self._context_of(job)
        ends_at = asyncio.get_running_loop().time() + job.timeout_s
        layers = resources.call_layers(job.handler)
        handle = partial(self._handle, job, ctx, layers, ends_at)
        if not layers.any:
            return await handle(resources.shared)
        bounds = Bounds(job.type.name, job.timeout_s, ends_at)
        return await surrounded(handle, layers, resources.shared, ctx, bounds)

    def _context_of(self, job: Job) -> BatchContext:
        return BatchContext(
            type=job.type.name,
            queue=self._calls[0].ctx.queue,
            jobs=tuple(call.ctx for call in self._calls),
            deadline=self._means.clock.now() + timedelta(seconds=job.timeout_s),
            _items=tuple(call.job.payload for call in self._calls),
            _host=self,
        )

    async def _handle(
        self, job: Job, ctx: BatchContext, layers: Layers, ends_at: float, opened: Shared
    ) -> Any:
        items = [call.job.payload for call in self._calls]
        if job.handler.is_async:
            if (task := asyncio.current_task()) is None:
                raise RuntimeError("a handler has to be called in a task, which can be cancelled")
            limit = TimeLimit(self._means.time_limits, ends_at, task)
            return await in_loop(job, job.handler.call(items, ctx, opened), limit)
        call = partial(surrounded_in_thread, job.handler, items, ctx, opened, layers)
        self._set_in_thread(in_thread=True)
        try:
            return await in_thread(self._means.call_blocking, call, ends_at, self._overrun)
        finally:
            self._set_in_thread(in_thread=False)

    def _set_in_thread(self, *, in_thread: bool) -> None:
        for call in self._calls:
            call.in_thread = in_thread

    def _overrun(self) -> None:
        for call in self._calls:
            call.overrun()

    def _spread(self, returned: Any) -> None:
        """Give each job its part of what the handler has returned, unless it has ended before.

        Raises:
            ConfigurationError: there is not one for each.
        """
        for place, result in enumerate(self._results_in(returned)):
            if self.has_ended(place) or self._goes_on_without(place):
                continue
            if isinstance(result, BaseException):
                self.end(place, None, result)
            elif result is None and has_seen_stop(self._calls[place].ctx):
                self.end(place, None, Stopped())  # it was left out, so it is not done
            else:
                self.end(place, result, None)

    def _goes_on_without(self, place: int) -> bool:
        """Return True if the job at that place is interrupted, and not all others are."""
        return self._going > 0 and self._taken[place].is_interrupted

    def _results_in(self, returned: Any) -> Sequence[Any]:
        if returned is None:
            return [None] * len(self._calls)
        name = self._calls[0].job.handler.name
        if not isinstance(returned, list | tuple):
            raise ConfigurationError(
                f"the handler {name} runs batches, so it returns None, or a list with the result "
                f"of each item; it returned an object of type {type(returned).__name__}"
            )
        if len(returned) != len(self._calls):
            raise ConfigurationError(
                f"the handler {name} returned {len(returned)} results for {len(self._calls)} "
                "items: return the result of each, in their order, or None"
            )
        return returned

    def _end_open(self, error: BaseException) -> None:
        """End the jobs of which nothing was said with the handler's error.

        Those that were not asked to end are given back if the handler has ended for one that was.
        """
        is_for_one = is_stop(error) and any(has_seen_stop(call.ctx) for call in self._calls)
        for place, call in enumerate(self._calls):
            if not (self.has_ended(place) or self._goes_on_without(place)):
                if is_for_one:
                    call.give_back(_STOPPED_WITH_ANOTHER)
                self.end(place, None, error)
