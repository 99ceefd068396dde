"""One call of a handler, in the event loop, a thread or a process, with exactly one outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from headgate.jobs.core.event_log import current_job
from headgate.jobs.core.events import JobCompleted, JobStarted
from headgate.jobs.definitions.handlers.context import JobContext, request_stop
from headgate.jobs.definitions.handlers.injection import Shared
from headgate.jobs.definitions.handlers.resources import NO_LAYERS, Layers
from headgate.jobs.definitions.policies import keeps_results
from headgate.jobs.errors import ChildDied, JobTimeout, Stopped
from headgate.jobs.execution import job_events
from headgate.jobs.execution.calling.handler_host import Desk
from headgate.jobs.execution.calling.invoking import in_loop, in_thread
from headgate.jobs.execution.calling.means import CallIsolated, Means
from headgate.jobs.execution.calling.surroundings import Bounds, surrounded, surrounded_in_thread
from headgate.jobs.execution.calling.time_limits import TimeLimit
from headgate.jobs.execution.delivery import Delivery, Job
from headgate.jobs.execution.outcome import (
    Crashed,
    Deferred,
    Discarded,
    Done,
    Failed,
    Interrupted,
    Outcome,
)
from headgate.jobs.records.results import dumped
from headgate.jobs.retry.signals import Discard, RetryLater
from headgate.jobs.values.redaction import secrets_of
from headgate.jobs.values.texts import text_of
from headgate.jobs.values.yielding import written

Settled = Callable[[Outcome], Awaitable[Outcome]]
"""Makes a handler's outcome durable, and returns the outcome that counts."""


def is_stop(error: BaseException) -> bool:
    """Return True for a `Stopped`, and for a group of nothing else, as task groups raise it."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(Stopped)[1] is None
    return isinstance(error, Stopped)


class BatchSeat(Protocol):
    """A job's place in the call of a batch handler: a `jobs.execution.calling.batch_call.Seat`."""

    def secrets(self) -> frozenset[str]:
        """Return the secrets of all jobs in the call, any of which an error may quote."""
        ...

    async def result(self, call: HandlerCall) -> Any:
        """Join the call of the batch's handler; return, or raise, what it has for this job."""
        ...

    def interrupt(self) -> None:
        """Note that the job's own call is about to be cancelled."""
        ...


class HandlerCall:
    """One job's call of its handler, which can be ended early.

    Args:
        means: the app, and the means of calling its handlers.
        job: the job.
        delivery: its delivery.
        names: the fields that each of its events carries.
        seat: its place in the call of a batch handler; None if its handler takes single jobs.
    """

    def __init__(
        self,
        means: Means,
        job: Job,
        delivery: Delivery,
        names: dict[str, Any],
        seat: BatchSeat | None = None,
    ) -> None:
        self._means = means
        self.job = job
        self._seat = seat
        self._delivery = delivery
        self._names = names
        self._desk: Desk | None = None
        self._ctx: JobContext | None = None
        self._task: asyncio.Task[Any] | None = None
        self._interruption: str | None = None
        self._cancels = 0
        """Number of times that this object has cancelled the task."""
        self.in_thread = False
        """True while a thread runs the handler, which can't be ended then."""
        self._returned = False
        """True once the handler has returned: what is left is waited for, and not cancelled."""
        self._out_of_time: JobTimeout | None = None
        """Its failure, once its time is up, unless the handler ends otherwise."""
        self.began = False
        """True once the handler has been called."""
        self.began_at = 0.0
        """Time at which the handler was called, on the monotonic clock; 0 before."""
        self.ran_s = 0.0
        """Seconds that the handler ran, set once it has ended."""

    @property
    def id(self) -> str:
        """The job's id, as its log lines name it."""
        return self.job.attempt.job_id

    @property
    def type(self) -> str:
        """Likewise its type's name."""
        return self.job.type.name

    @property
    def attempt(self) -> int:
        """Likewise the number of this attempt."""
        return self.job.attempt.number

    @property
    def ctx(self) -> JobContext:
        """The job's context, made when it is first asked for, in the event loop: many handlers
        take none."""
        if self._ctx is None:
            self._ctx = self._context()
        return self._ctx

    @property
    def running(self) -> bool:
        """True while the handler runs."""
        return self._task is not None

    def interrupt(self, reason: str, *, abandon: bool, spent: bool = False) -> None:
        """Ask the handler to end early; see `jobs.execution.run.Run.interrupt`."""
        if spent and self.running:
            ran_s = self._means.clock.monotonic() - self.began_at
            self._is_late(round(ran_s), detail=f": {reason}")
        self._interruption = self._interruption or reason
        request_stop(self.ctx)
        may_cancel = not self.in_thread and not self._returned
        if self._task is not None and (abandon or may_cancel):
            if self._seat is not None:
                self._seat.interrupt()
            self._cancels += 1
            self._task.cancel(reason)

    def give_back(self, reason: str) -> None:
        """Note that a `Stopped` of the handler is no fault of this job, which runs again."""
        self._interruption = self._interruption or reason

    async def outcome(self, settled: Settled | None = None) -> Outcome:
        """Call the handler, emit its events, and return its outcome; its failure is never raised.

        ``settled`` maps the outcome to the one that counts, before the event is emitted.
        """
        clock, events = self._means.clock, self._means.events
        if events.has_listeners(JobStarted):
            events.emit(job_events.started(self.job, self._names, clock.now()))
        self.began, self.began_at = True, clock.monotonic()
        outcome = await self._bounded()
        await _undo_cancellations(self._means)
        self.ran_s = clock.monotonic() - self.began_at
        if settled is not None:
            outcome = await settled(outcome)
        self._tell(outcome)
        return outcome

    def given_up(self) -> Failed:
        """Report a handler that still runs although it was cancelled; return the failure.

        The host has waited for as long as it could.
        """
        self.ran_s = self._means.clock.monotonic() - self.began_at
        detail = ", and ignored being cancelled"
        outcome = self._failed(JobTimeout(self.job.type.name, round(self.ran_s), detail=detail))
        self._tell(outcome)
        return outcome

    def _tell(self, outcome: Outcome) -> None:
        events = self._means.events
        if isinstance(outcome, Done) and not events.has_listeners(JobCompleted):
            return  # most jobs end so, and most workers have nobody who wants to know
        at = self._means.clock.now()
        if event := job_events.ended(outcome, self.job, self._names, self.ran_s, at):
            events.emit(event)

    async def _bounded(self) -> Outcome:
        if (task := asyncio.current_task()) is None:
            raise RuntimeError("a handler has to be called in a task, which can be cancelled")
        self._task = task
        here = current_job.set(self)
        try:
            with self._means.open_span(self.job, self._delivery, self._secrets):
                result = await self._surrounded(task)
                return Done() if result is None else await self._done(result)
        except asyncio.CancelledError as error:
            if (outcome := self._cut_short()) is not None:
                return outcome
            if task.cancelling() and self._means.is_cancelled():
                raise  # with its host: the message will be delivered again
            return self._failed(error)  # the handler has raised it, or has cancelled its own task
        except GeneratorExit:
            raise  # this coroutine is being closed
        except KeyboardInterrupt as error:
            if self._means.heeds_ctrl_c and self._means.in_loop(self.job):
                raise  # the process is ending
            return self._failed(error)
        except BaseException as error:  # noqa: BLE001 - the job's boundary; SystemExit included
            return self._outcome_of(error)
        finally:
            current_job.reset(here)
            self._task = None
            while self._cancels:
                self._cancels -= 1
                task.uncancel()  # the cancellation has been handled; settling goes on

    async def _done(self, result: Any) -> Done:
        """Return the outcome of a handler that has returned something.

        Raises:
            ResultNotSerializable: it is kept, and JSON can't hold it.
        """
        if not keeps_results(self._means.app, self.job.type):
            return Done(result=result)
        # Of a child it comes as JSON values, as the child has written it by its type.
        write = written if self._means.isolates(self.job) else self.job.type.write_result
        return Done(result=result, written=await dumped(result, write))

    async def _surrounded(self, task: asyncio.Task[Any]) -> Any:
        """Run the handler within what the app opens around it; a child process does so itself."""
        job, resources = self.job, self._means.resources
        ends_at = asyncio.get_running_loop().time() + job.timeout_s
        limit = TimeLimit(self._means.time_limits, ends_at, task)
        layers = NO_LAYERS if self._means.isolates(job) else resources.layers(job.handler)
        try:
            if not layers.any:
                return await self._handle(resources.shared, layers, limit)
            result = await surrounded(
                lambda opened: self._handle(opened, layers, limit),
                layers,
                resources.shared,
                self.ctx,
                Bounds(job.type.name, job.timeout_s, ends_at),
            )
        except Discard:
            await self._all_taken()  # the job does not run again, and so would lose them
            raise
        await self._all_taken()  # jobs that were submitted around the handler
        return result

    async def _handle(self, opened: Shared, layers: Layers, limit: TimeLimit) -> Any:
        job = self.job
        if (isolated := self._means.call_isolated) and self._means.isolates(job):
            result = await self._handle_in_child(isolated)
        elif self._seat is not None:
            result = await self._seat.result(self)
        elif job.handler.is_async:
            ctx = self.ctx if job.handler.takes_context else None
            result = await in_loop(job, job.handler.call(job.payload, ctx, opened), limit)
        else:
            result = await self._handle_in_thread(opened, layers, limit.at)
        await self._all_taken()
        return result

    async def _all_taken(self) -> None:
        """Return once SQS has what the handler has submitted, which has ended the job.

        Raises:
            HeadgateError: the error of the first submission that failed.
        """
        self._returned = True
        if self._desk is not None:
            await self._desk.all_taken()

    async def _handle_in_child(self, isolated: CallIsolated) -> Any:
        body = self._delivery.message.body
        if self.job.rewritten:
            body = await self._means.call_blocking(self.job.envelope.to_body)
        return await isolated(self.job, body, self.ctx)

    async def _handle_in_thread(self, opened: Shared, layers: Layers, ends_at: float) -> Any:
        job = self.job
        call = partial(surrounded_in_thread, job.handler, job.payload, self.ctx, opened, layers)
        self.in_thread = True
        try:
            return await in_thread(self._means.call_blocking, call, ends_at, self.overrun)
        finally:
            self.in_thread = False

    def overrun(self) -> None:
        """Note that the handler, which a thread runs, has taken longer than its timeout."""
        self._is_late(self.job.timeout_s)
        request_stop(self.ctx)
        at = self._means.clock.now()
        self._means.events.emit(job_events.stalled(self.job, self._names, at))

    def _cut_short(self) -> Failed | Interrupted | None:
        """Return the outcome of a handler that ended because it was to; None if it was not to."""
        if self._out_of_time is not None:
            return self._failed(self._out_of_time)
        if self._interruption is not None:
            return Interrupted(reason=self._interruption)
        return None

    def _is_late(self, timeout_s: float, detail: str = "") -> None:
        if self._out_of_time is None:
            self._out_of_time = JobTimeout(self.job.type.name, timeout_s, detail=detail)

    def _outcome_of(self, error: BaseException) -> Outcome:
        if is_stop(error) and (outcome := self._cut_short()) is not None:
            return outcome
        match error:
            case RetryLater(after=after, reason=reason):
                return Deferred(after_s=after.total_seconds(), reason=self._told(reason))
            case Discard(reason=reason):
                return Discarded(reason=self._told(reason))
            case ChildDied():
                return Crashed(detail=text_of(error))
            case _:
                return self._failed(error)

    def _failed(self, error: BaseException) -> Failed:
        redaction, secrets = self._means.app.redaction, self._secrets()
        return Failed(
            error=error,
            at=self._means.clock.now(),
            message=redaction.text(error, secrets),
            traceback=redaction.traceback(error, secrets),
        )

    def _told(self, reason: str) -> str:
        return self._means.app.redaction.text(reason, self._secrets())

    def _secrets(self) -> frozenset[str]:
        own = secrets_of(self.job.payload)
        return own if self._seat is None else own | self._seat.secrets()

    def _context(self) -> JobContext:
        job, means = self.job, self._means
        self._desk = Desk(
            means.app,
            job,
            self._names,
            clock=means.clock,
            events=means.events,
            send=means.send,
            handles=means.handles,
        )
        ran_s = means.clock.monotonic() - self.began_at if self.began else 0.0
        return JobContext(
            id=job.attempt.job_id,
            type=job.type.name,
            queue=self._delivery.queue.group,
            attempt=job.attempt.number,
            max_attempts=job.attempt.max_attempts,
            tenant=job.envelope.tenant,
            deadline=means.clock.now() + timedelta(seconds=job.timeout_s - ran_s),
            _host=self._desk,
        )


async def _undo_cancellations(means: Means) -> None:
    """Undo what a handler has left of cancellations of its own task; settling goes on."""
    task = asyncio.current_task()
    if task is None or not task.cancelling() or means.is_cancelled():
        return
    while task.cancelling():
        task.uncancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)  # before Python 3.13 one that is not raised yet stays due
