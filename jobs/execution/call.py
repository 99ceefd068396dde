"""One call of a handler: in the event loop, a thread or a process; it ends in one outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.context import JobContext, current_job
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports import ObjectStore
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.resources import Shared
from headgate.jobs.errors import ChildDied, Discard, JobTimeout, RetryLater, Stopped
from headgate.jobs.execution import job_events
from headgate.jobs.execution.claims import Claims
from headgate.jobs.execution.delivery import Delivery, Job
from headgate.jobs.execution.handler_host import Desk, Send
from headgate.jobs.execution.outcome import (
    Crashed,
    Deferred,
    Discarded,
    Done,
    Failed,
    Interrupted,
    Outcome,
)
from headgate.jobs.values.texts import legible, text_of

CallBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a plain function off the event loop, and returns what it returned or raises."""

CallIsolated = Callable[[Job, str, JobContext], Awaitable[Any]]
"""Runs a handler, given its message's body, in a process of its own, and returns what it returned.
Raises its signal, `Stopped`, `JobTimeout`, `ChildFailed` or `ChildDied`; cancelled, it ends the
process."""

Around = Callable[[Job, Delivery], AbstractContextManager[None]]
"""Entered around each call of a handler, in the context that the handler sees."""

Settled = Callable[[Outcome], Awaitable[Outcome]]
"""Makes how a handler ended durable, and returns what that counts as."""


def nothing_around(_job: Job, _delivery: Delivery) -> AbstractContextManager[None]:
    """Nothing around a call."""
    return nullcontext()


@dataclass(slots=True, kw_only=True)
class Means:
    """What calls of an app's handlers need from their host."""

    app: App
    clock: Clock
    events: Events
    """Hears of every step."""
    call_blocking: CallBlocking = asyncio.to_thread
    call_isolated: CallIsolated | None = None
    """For ``isolation="process"``; without it such handlers run as others do."""
    around: Around = nothing_around
    send: Send | None = None
    """Sends what handlers submit; without it they can't."""
    store: ObjectStore | None = None
    """Holds the payloads that are too large for messages; without it these are deferred."""
    shared: Shared = field(default_factory=dict)
    """The app's open resources."""
    heeds_ctrl_c: bool = True
    """A KeyboardInterrupt in the event loop ends this process; else it is the handler's own, and a
    failure like others, as it is in a thread, where no Ctrl-C is ever raised."""
    claims: Claims | None = None
    """For types with ``once=True``, which an app can't have without."""

    def isolates(self, job: Job) -> bool:
        """Whether a job's handler runs in a process of its own."""
        return job.type.isolation == "process" and self.call_isolated is not None

    def in_loop(self, job: Job) -> bool:
        """Whether its handler runs in this event loop, where it may ignore being cancelled."""
        return job.handler.is_async and not self.isolates(job)

    def can_cancel(self, job: Job) -> bool:
        """Whether its handler can be ended from outside: it is async, or in a child process."""
        return job.handler.is_async or self.isolates(job)


class Call:
    """One call of a job's handler, and how it may be ended early."""

    def __init__(self, means: Means, job: Job, delivery: Delivery, names: dict[str, Any]) -> None:
        self._means = means
        self._job = job
        self._delivery = delivery
        self._names = names
        self._desk = Desk(
            means.app, job, names, clock=means.clock, events=means.events, send=means.send
        )
        self._ctx = self._context()
        self._task: asyncio.Task[Any] | None = None
        self._interruption: str | None = None
        self._cancels = 0
        """How often its task has been cancelled from here."""
        self._returned = False
        """The handler has returned, so only what it submitted is waited for."""
        self._overran = False
        self._began_at = 0.0
        """On the clock's monotonic time."""
        self.ran_s = 0.0
        """How long the handler ran, once it has ended."""

    @property
    def running(self) -> bool:
        """Whether the handler has been called and has not ended."""
        return self._task is not None

    def interrupt(self, reason: str, *, abandon: bool) -> None:
        """Ask it to end early; see `jobs.execution.run.Run.interrupt`."""
        self._interruption = self._interruption or reason
        self._ctx.request_stop()
        may_cancel = self._means.can_cancel(self._job) and not self._returned
        if self._task is not None and (abandon or may_cancel):
            self._cancels += 1
            self._task.cancel(reason)

    async def outcome(self, settled: Settled | None = None) -> Outcome:
        """Call the handler, tell of it, and return how it ended; its failure is never raised.

        ``settled`` says what that counts as, before it is told.
        """
        clock, job = self._means.clock, self._job
        self._means.events.emit(job_events.started(job, self._names, clock.now()))
        self._began_at = clock.monotonic()
        outcome = await self._bounded()
        self.ran_s = clock.monotonic() - self._began_at
        if settled is not None:
            outcome = await settled(outcome)
        self._tell(outcome)
        return outcome

    def given_up(self) -> Failed:
        """Tell of a handler that goes on though it was cancelled, and return what that counts as.

        It had the time that its host had for it.
        """
        self.ran_s = self._means.clock.monotonic() - self._began_at
        detail = ", and ignored being cancelled"
        outcome = self._failed(JobTimeout(self._job.type.name, round(self.ran_s), detail=detail))
        self._tell(outcome)
        return outcome

    def _tell(self, outcome: Outcome) -> None:
        at = self._means.clock.now()
        if event := job_events.ended(outcome, self._job, self._names, self.ran_s, at):
            self._means.events.emit(event)

    async def _bounded(self) -> Outcome:
        self._task = task = asyncio.current_task()
        here = current_job.set(self._ctx)
        try:
            with self._means.around(self._job, self._delivery):
                result = await self._handle()
            self._returned = True
            await self._desk.all_taken()
            return Done(result=result)
        except asyncio.CancelledError as error:
            if self._interruption is not None:
                return Interrupted(reason=self._interruption)
            if task is not None and task.cancelling():
                raise  # somebody ended this task: the message will be delivered again
            return self._failed(error)
        except GeneratorExit:
            raise  # this coroutine is being ended
        except KeyboardInterrupt as error:
            if self._means.heeds_ctrl_c and self._means.in_loop(self._job):
                raise  # and so is the process
            return self._failed(error)
        except BaseException as error:  # noqa: BLE001 - the job's boundary; SystemExit included
            return self._outcome_of(error)
        finally:
            current_job.reset(here)
            self._task = None
            while self._cancels and task is not None:
                self._cancels -= 1
                task.uncancel()  # it has been dealt with; settling goes on

    async def _handle(self) -> Any:
        job, ctx = self._job, self._ctx
        if (isolated := self._means.call_isolated) and self._means.isolates(job):
            body = self._delivery.message.body
            if job.rewritten:
                body = await self._means.call_blocking(job.envelope.to_body)
            return await isolated(job, body, ctx)
        if not job.handler.is_async:
            return await self._handle_in_thread()
        scope = asyncio.timeout(job.timeout_s)
        try:
            async with scope:
                return await job.handler.call(job.payload, ctx, self._means.shared)
        except TimeoutError as error:
            if scope.expired():
                raise JobTimeout(job.type.name, job.timeout_s) from error
            raise

    async def _handle_in_thread(self) -> Any:
        # A thread can't be stopped. Settling the job while its thread still runs would run it
        # twice, so an overrun is reported and its late result counts.
        overrun = asyncio.get_running_loop().call_later(self._job.timeout_s, self._overrun)
        ended: Future[Any] = Future()
        call = partial(_call_plain, self._job, self._ctx, self._means.shared)
        try:
            return await self._means.call_blocking(partial(_call_into, ended, call))
        except asyncio.CancelledError:
            if ended.done():  # in the thread, and the loop has only not heard of it
                return ended.result()
            raise
        finally:
            overrun.cancel()

    def _overrun(self) -> None:
        self._overran = True
        self._ctx.request_stop()
        at = self._means.clock.now()
        self._means.events.emit(job_events.stalled(self._job, self._names, at))

    def _outcome_of(self, error: BaseException) -> Outcome:
        match error:
            case Stopped() if self._overran:
                return self._failed(JobTimeout(self._job.type.name, self._job.timeout_s))
            case Stopped() if self._interruption is not None:
                return Interrupted(reason=self._interruption)
            case RetryLater(after=after, reason=reason):
                return Deferred(after_s=after.total_seconds(), reason=legible(reason))
            case Discard(reason=reason):
                return Discarded(reason=legible(reason))
            case ChildDied():
                return Crashed(detail=text_of(error))
            case _:
                return self._failed(error)

    def _failed(self, error: BaseException) -> Failed:
        return Failed(error=error, at=self._means.clock.now(), traceback=job_events.trimmed(error))

    def _context(self) -> JobContext:
        job = self._job
        return JobContext(
            id=job.attempt.job_id,
            type=job.type.name,
            queue=self._delivery.queue.group,
            attempt=job.attempt.number,
            max_attempts=job.attempt.max_attempts,
            tenant=job.envelope.tenant,
            deadline=self._means.clock.now() + timedelta(seconds=job.timeout_s),
            _host=self._desk,
        )


def _call_into(ended: Future[Any], call: Callable[[], Any]) -> Any:
    """Call a function, and have a future know how that ended as soon as it has."""
    try:
        ended.set_result(call())
    except BaseException as error:  # noqa: BLE001 - handed on below
        ended.set_exception(error)
    return ended.result()


def _call_plain(job: Job, ctx: JobContext, shared: Shared) -> Any:
    try:
        return job.handler.call(job.payload, ctx, shared)
    except StopIteration as error:
        # No future can carry it, so whoever awaits the thread would wait for ever. What PEP 479
        # makes of it in a coroutine.
        raise RuntimeError("the handler raised StopIteration") from error
