"""One delivery from message to verdict: read, run, decide. Shared by worker, Lambda and tests.

    load      body → Job, or why not
    call      Job → Outcome (the handler, its timeout, its signals)
    settle    Outcome → Action (pure, in `jobs.settlement`)

The host carries the action out, and then emits `Verdict.aftermath`, since only the host knows when
SQS has confirmed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from jobs import reporting
from jobs.app import App
from jobs.clock import Clock
from jobs.context import JobContext
from jobs.dead_letters import dead_letter
from jobs.delivery import UNRUNNABLE, Delivery, Job, legible, load
from jobs.desk import Desk, Send
from jobs.errors import (
    ChildDied,
    Discard,
    JobTimeout,
    MessageSchemaNewer,
    MessageTypeUnknown,
    MessageUnreadable,
    PayloadInvalid,
    RetryLater,
    Stopped,
)
from jobs.events import Event, Events
from jobs.outcome import (
    Attempt,
    Crashed,
    Deferred,
    Discarded,
    Done,
    Failed,
    Interrupted,
    Outcome,
    Reason,
    Unrunnable,
)
from jobs.ports import OutgoingMessage
from jobs.resources import NOTHING, Shared
from jobs.settlement import Action, DeadLetter, Quarantine, settle

CallBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a plain function off the event loop, and returns what it returned or raises."""

CallIsolated = Callable[[Job, str, JobContext], Awaitable[Any]]
"""Runs a handler, given its message's body, in a process of its own, and returns what it returned.
Raises its signal, `JobTimeout`, `ChildFailed` or `ChildDied`; cancelled, it ends the process."""

Around = Callable[[Job, Delivery], AbstractContextManager[None]]
"""Entered around each call of a handler, in the context that the handler sees."""

Backlog = Callable[[str], Awaitable[int]]
"""How many messages are visible in a queue, by its physical name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What has to happen to a message now, and what to say once it has."""

    outcome: Outcome
    action: Action
    attempt: Attempt
    job_type: str
    tell: Callable[[Action, datetime], Event | None]

    def aftermath(self, at: datetime) -> Event | None:
        """The event to emit when SQS has confirmed the action, at that time."""
        return self.tell(self.action, at)


def parked(
    delivery: Delivery,
    verdict: Verdict,
    action: DeadLetter | Quarantine,
    *,
    quarantine: str,
    at: datetime,
) -> tuple[str, OutgoingMessage]:
    """Where a message goes that will not run again, by the queue's physical name, and as what."""
    letter = dead_letter(
        delivery.message,
        action,
        verdict.attempt,
        verdict.job_type,
        at,
        fifo=delivery.queue.fifo and isinstance(action, DeadLetter),  # the quarantine is standard
    )
    return (delivery.queue.dlq_name if isinstance(action, DeadLetter) else quarantine), letter


async def _no_backlog(_queue: str) -> int:
    return 0


def _nothing_around(_job: Job, _delivery: Delivery) -> AbstractContextManager[None]:
    return nullcontext()


class Executor:
    """Makes runs for an app.

    Args:
        app: whose job types are run.
        clock: tells the time.
        events: hears of every step.
        call_blocking: runs plain functions; threads by default.
        call_isolated: runs handlers of ``isolation="process"``; without it they run as others do.
        around: entered around each call of a handler.
        send: sends what handlers submit; without it they can't.
        shared: the app's open resources.
        backlog: answers adaptive backoffs; without it they see an empty queue.
    """

    def __init__(
        self,
        app: App,
        *,
        clock: Clock,
        events: Events,
        call_blocking: CallBlocking = asyncio.to_thread,
        call_isolated: CallIsolated | None = None,
        around: Around = _nothing_around,
        send: Send | None = None,
        shared: Shared = NOTHING,
        backlog: Backlog = _no_backlog,
    ) -> None:
        self.app = app
        self.clock = clock
        self.events = events
        self.call_blocking = call_blocking
        self.call_isolated = call_isolated
        self.around = around
        self.send = send
        self.shared = shared
        self.backlog = backlog

    def begin(self, delivery: Delivery) -> Run:
        """A run of this delivery, read; its handler is called by `Run.verdict`."""
        return Run(self, delivery)


class Run:
    """One delivery on its way to a verdict."""

    def __init__(self, executor: Executor, delivery: Delivery) -> None:
        self._executor = executor
        self.delivery = delivery
        self.job: Job | None = None
        """None if the message is no job here."""
        self._unfit = Unrunnable(reason=Reason.UNREADABLE, detail="")
        """Why it is none."""
        self._crash: Crashed | None = None
        self._names: dict[str, Any] = {}
        self._ctx: JobContext | None = None
        self._task: asyncio.Task[Any] | None = None
        self._interruption: str | None = None
        self._overran = False
        try:
            self._take(load(executor.app, delivery))
        except (MessageUnreadable, MessageTypeUnknown, MessageSchemaNewer, PayloadInvalid) as error:
            self._unfit = Unrunnable(reason=UNRUNNABLE[type(error)], detail=str(error))
        if delivery.message.receive_count >= delivery.queue.max_receive_count:
            # SQS's own redrive would be next, and it gives no reason.
            self._crash = Crashed(
                detail=f"delivered {delivery.message.receive_count} times, without an outcome that "
                "ended it: it may kill the process that runs it"
            )

    @property
    def running(self) -> bool:
        """Whether the handler has been called and has not ended."""
        return self._task is not None

    @property
    def cancellable(self) -> bool:
        """Whether its handler can be ended from outside: it is async, or in a child process."""
        return self.job is not None and (self.job.handler.is_async or self._isolated(self.job))

    def recall(self, *, number: int, crashes: int, crash: Crashed | None) -> None:
        """Take in what records tell of earlier deliveries, before the verdict is asked for.

        Args:
            number: of the attempt that this delivery would make, from 1.
            crashes: of this job, lately.
            crash: the delivery before this one ended with its process, which was not known.
        """
        if self.job is None:
            return
        attempt = replace(self.job.attempt, number=number, crashes=crashes)
        self._take(replace(self.job, attempt=attempt))
        if crash is not None:
            self._emit(reporting.crashed(self._names, crash, crashes, self._executor.clock.now()))
            if crashes >= attempt.crash_limit:
                self._crash = crash

    async def verdict(self) -> Verdict:
        """Run the job to its end. A handler's failure is an outcome, never raised."""
        if (job := self.job) is None:
            return self._unrunnable(self._unfit)
        outcome = self._crash or await self._call(job)
        attempt = await self._attempt(job, outcome)
        return Verdict(
            outcome=outcome,
            action=settle(outcome, attempt, job.type.retry),
            attempt=attempt,
            job_type=job.type.name,
            tell=partial(reporting.aftermath, self._names, outcome),
        )

    def interrupt(self, reason: str, *, abandon: bool = False) -> None:
        """Ask the attempt to end early.

        An async handler is cancelled, and a child process ended. A plain function only sees
        ``ctx.cancelled``; with ``abandon`` the run ends without it, while its thread goes on.
        """
        self._interruption = self._interruption or reason
        if self._ctx is not None:
            self._ctx.request_stop()
        if self._task is not None and (abandon or self.cancellable):
            self._task.cancel(reason)

    async def _call(self, job: Job) -> Outcome:
        if self._interruption is not None:
            return Interrupted(reason=self._interruption)
        executor, clock = self._executor, self._executor.clock
        desk = Desk(
            executor.app,
            job,
            self._names,
            clock=clock,
            events=executor.events,
            send=executor.send,
        )
        self._ctx = ctx = self._context(job, desk)
        self._emit(reporting.started(job, self._names, clock.now()))
        started = clock.monotonic()
        outcome = await self._outcome(job, ctx, desk)
        ran_s = clock.monotonic() - started
        if isinstance(outcome, Crashed):
            crashes = job.attempt.crashes + 1
            self._emit(reporting.crashed(self._names, outcome, crashes, clock.now()))
        elif event := reporting.ended(outcome, self._names, ran_s, clock.now()):
            self._emit(event)
        return outcome

    async def _outcome(self, job: Job, ctx: JobContext, desk: Desk) -> Outcome:
        self._task = task = asyncio.current_task()
        try:
            with self._executor.around(job, self.delivery):
                result = await self._handle(job, ctx)
            await desk.all_taken()
            return Done(result=result)
        except asyncio.CancelledError as error:
            if self._interruption is not None:
                return Interrupted(reason=self._interruption)
            if task is not None and task.cancelling():
                raise  # somebody ended this task: the message will be delivered again
            return self._failed(error)
        except (KeyboardInterrupt, GeneratorExit):
            raise  # the process, or this coroutine, is being ended
        except BaseException as error:  # noqa: BLE001 - the job's boundary; SystemExit included
            return self._outcome_of(job, error)
        finally:
            self._task = None
            if self._interruption is not None and task is not None:
                task.uncancel()  # it has been dealt with; settling goes on

    async def _handle(self, job: Job, ctx: JobContext) -> Any:
        if (isolated := self._executor.call_isolated) and self._isolated(job):
            return await isolated(job, self.delivery.message.body, ctx)
        if not job.handler.is_async:
            return await self._handle_in_thread(job, ctx)
        scope = asyncio.timeout(job.timeout_s)
        try:
            async with scope:
                return await job.handler.call(job.payload, ctx, self._executor.shared)
        except TimeoutError as error:
            if scope.expired():
                raise JobTimeout(job.type.name, job.timeout_s) from error
            raise

    async def _handle_in_thread(self, job: Job, ctx: JobContext) -> Any:
        # A thread can't be stopped. Settling the job while its thread still runs would run it
        # twice, so an overrun is reported and its late result counts.
        overrun = asyncio.get_running_loop().call_later(job.timeout_s, self._overrun, job, ctx)
        try:
            return await self._executor.call_blocking(
                partial(_call_plain, job, ctx, self._executor.shared)
            )
        finally:
            overrun.cancel()

    def _overrun(self, job: Job, ctx: JobContext) -> None:
        self._overran = True
        ctx.request_stop()
        self._emit(reporting.stalled(job, self._names, self._executor.clock.now()))

    def _outcome_of(self, job: Job, error: BaseException) -> Outcome:
        match error:
            case Stopped() if self._overran:
                return self._failed(JobTimeout(job.type.name, job.timeout_s))
            case Stopped() if self._interruption is not None:
                return Interrupted(reason=self._interruption)
            case RetryLater(after=after, reason=reason):
                return Deferred(after_s=after.total_seconds(), reason=reason)
            case Discard(reason=reason):
                return Discarded(reason=reason)
            case ChildDied():
                return Crashed(detail=str(error))
            case _:
                return self._failed(error)

    def _failed(self, error: BaseException) -> Failed:
        return Failed(
            error=error, at=self._executor.clock.now(), traceback=reporting.trimmed(error)
        )

    async def _attempt(self, job: Job, outcome: Outcome) -> Attempt:
        """The attempt as the verdict has to know it."""
        if self._crash is not None:  # it was not called
            crashes = max(job.attempt.crashes, job.attempt.crash_limit)
            return replace(job.attempt, crashes=crashes)
        if isinstance(outcome, Crashed):
            return replace(job.attempt, crashes=job.attempt.crashes + 1)
        if isinstance(outcome, Failed) and job.type.retry.backoff.needs_backlog:
            backlog = await self._executor.backlog(self.delivery.queue.name)
            return replace(job.attempt, backlog=backlog)
        return job.attempt

    def _take(self, job: Job) -> None:
        self.job = job
        self._names = reporting.names_of(job, self.delivery)

    def _isolated(self, job: Job) -> bool:
        return job.type.isolation == "process" and self._executor.call_isolated is not None

    def _context(self, job: Job, desk: Desk) -> JobContext:
        return JobContext(
            id=job.attempt.job_id,
            type=job.type.name,
            queue=job.type.queue,
            attempt=job.attempt.number,
            max_attempts=job.attempt.max_attempts,
            tenant=job.envelope.tenant,
            deadline=self._executor.clock.now() + timedelta(seconds=job.timeout_s),
            _host=desk,
        )

    # --- messages that are no job here -----------------------------------------------------------

    def _unrunnable(self, outcome: Unrunnable) -> Verdict:
        message = self.delivery.message
        envelope = legible(message.body)
        attempt = Attempt(
            job_id=str(envelope.id) if envelope else message.message_id,
            number=message.receive_count,
            max_attempts=self._executor.app.parking.attempts,
            receives=message.receive_count,
        )
        return Verdict(
            outcome=outcome,
            action=settle(outcome, attempt, self._executor.app.parking),
            attempt=attempt,
            job_type=envelope.type if envelope else message.attributes.get("JobType", "unknown"),
            tell=partial(reporting.unrunnable, self.delivery, envelope, outcome),
        )

    def _emit(self, event: Event) -> None:
        self._executor.events.emit(event)


def _call_plain(job: Job, ctx: JobContext, shared: Shared) -> Any:
    try:
        return job.handler.call(job.payload, ctx, shared)
    except StopIteration as error:
        # No future can carry it, so whoever awaits the thread would wait for ever. What PEP 479
        # makes of it in a coroutine.
        raise RuntimeError("the handler raised StopIteration") from error
