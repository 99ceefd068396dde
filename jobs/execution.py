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
from jobs.errors import (
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
    Deferred,
    Discarded,
    Done,
    Failed,
    Interrupted,
    Outcome,
    Unrunnable,
)
from jobs.ports import OutgoingMessage
from jobs.settlement import Action, DeadLetter, Quarantine, settle

CallBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a plain function off the event loop, and returns what it returned or raises."""

Backlog = Callable[[str], Awaitable[int]]
"""How many messages are visible in a queue, by its physical name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What has to happen to a message now, and what to say once it has."""

    outcome: Outcome
    action: Action
    attempt: Attempt
    job_type: str
    aftermath: Callable[[datetime], Event | None]
    """The event to emit when SQS has confirmed the action; takes the time of that."""


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
        fifo=delivery.queue.fifo,
    )
    return (delivery.queue.dlq_name if isinstance(action, DeadLetter) else quarantine), letter


async def _no_backlog(_queue: str) -> int:
    return 0


class Executor:
    """Makes runs for an app.

    Args:
        app: whose job types are run.
        clock: tells the time.
        events: hears of every step.
        call_blocking: runs plain functions; threads by default.
        backlog: answers adaptive backoffs; without it they see an empty queue.
    """

    def __init__(
        self,
        app: App,
        *,
        clock: Clock,
        events: Events,
        call_blocking: CallBlocking = asyncio.to_thread,
        backlog: Backlog = _no_backlog,
    ) -> None:
        self.app = app
        self.clock = clock
        self.events = events
        self.call_blocking = call_blocking
        self.backlog = backlog

    def begin(self, delivery: Delivery) -> Run:
        """A run of this delivery; nothing happens until its `Run.verdict` is awaited."""
        return Run(self, delivery)


class Run:
    """One delivery on its way to a verdict."""

    def __init__(self, executor: Executor, delivery: Delivery) -> None:
        self._executor = executor
        self.delivery = delivery
        self.job: Job | None = None
        """Known once the message has been read."""
        self._names: dict[str, Any] = {}
        self._ctx: JobContext | None = None
        self._task: asyncio.Task[Any] | None = None
        self._interruption: str | None = None
        self._overran = False

    @property
    def running(self) -> bool:
        """Whether the handler has been called and has not ended."""
        return self._task is not None

    @property
    def is_async(self) -> bool:
        """Whether its handler is a coroutine function, so that it can be cancelled."""
        return self.job is not None and self.job.handler.is_async

    async def verdict(self) -> Verdict:
        """Run the job to its end. A handler's failure is an outcome, never raised."""
        try:
            self.job = job = load(self._executor.app, self.delivery)
        except (MessageUnreadable, MessageTypeUnknown, MessageSchemaNewer, PayloadInvalid) as error:
            return self._unrunnable(error)
        self._names = reporting.names_of(job, self.delivery)
        outcome = await self._call(job)
        attempt = await self._with_backlog(job, outcome)
        action = settle(outcome, attempt, job.type.retry)
        return Verdict(
            outcome=outcome,
            action=action,
            attempt=attempt,
            job_type=job.type.name,
            aftermath=partial(reporting.aftermath, self._names, outcome, action),
        )

    def interrupt(self, reason: str, *, abandon: bool = False) -> None:
        """Ask the attempt to end early.

        An async handler is cancelled. A plain function only sees ``ctx.cancelled``; with
        ``abandon`` the run ends without it, while its thread goes on.
        """
        self._interruption = self._interruption or reason
        if self._ctx is not None:
            self._ctx.request_stop()
        if self._task is not None and (abandon or self.is_async):
            self._task.cancel(reason)

    async def _call(self, job: Job) -> Outcome:
        if self._interruption is not None:
            return Interrupted(reason=self._interruption)
        self._ctx = ctx = self._context(job)
        clock = self._executor.clock
        self._emit(reporting.started(job, self._names, clock.now()))
        started = clock.monotonic()
        outcome = await self._outcome(job, ctx)
        ran_s = clock.monotonic() - started
        if event := reporting.ended(outcome, self._names, ran_s, clock.now()):
            self._emit(event)
        return outcome

    async def _outcome(self, job: Job, ctx: JobContext) -> Outcome:
        self._task = task = asyncio.current_task()
        try:
            return Done(result=await self._handle(job, ctx))
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
        if not job.handler.is_async:
            return await self._handle_in_thread(job, ctx)
        scope = asyncio.timeout(job.timeout_s)
        try:
            async with scope:
                return await job.handler.call(job.payload, ctx)
        except TimeoutError as error:
            if scope.expired():
                raise JobTimeout(job.type.name, job.timeout_s) from error
            raise

    async def _handle_in_thread(self, job: Job, ctx: JobContext) -> Any:
        # A thread can't be stopped. Settling the job while its thread still runs would run it
        # twice, so an overrun is reported and its late result counts.
        overrun = asyncio.get_running_loop().call_later(job.timeout_s, self._overrun, job, ctx)
        try:
            return await self._executor.call_blocking(partial(_call_plain, job, ctx))
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
            case _:
                return self._failed(error)

    def _failed(self, error: BaseException) -> Failed:
        return Failed(
            error=error, at=self._executor.clock.now(), traceback=reporting.trimmed(error)
        )

    async def _with_backlog(self, job: Job, outcome: Outcome) -> Attempt:
        if isinstance(outcome, Failed) and job.type.retry.backoff.needs_backlog:
            backlog = await self._executor.backlog(self.delivery.queue.name)
            return replace(job.attempt, backlog=backlog)
        return job.attempt

    def _context(self, job: Job) -> JobContext:
        return JobContext(
            id=job.attempt.job_id,
            type=job.type.name,
            queue=job.type.queue,
            attempt=job.attempt.number,
            max_attempts=job.attempt.max_attempts,
            tenant=job.envelope.tenant,
            deadline=self._executor.clock.now() + timedelta(seconds=job.timeout_s),
        )

    # --- messages that are no job here -----------------------------------------------------------

    def _unrunnable(self, error: Exception) -> Verdict:
        message = self.delivery.message
        envelope = legible(message.body)
        outcome = Unrunnable(reason=UNRUNNABLE[type(error)], detail=str(error))
        attempt = Attempt(
            job_id=str(envelope.id) if envelope else message.message_id,
            number=message.receive_count,
            max_attempts=self._executor.app.parking.attempts,
            receives=message.receive_count,
        )
        action = settle(outcome, attempt, self._executor.app.parking)
        return Verdict(
            outcome=outcome,
            action=action,
            attempt=attempt,
            job_type=envelope.type if envelope else message.attributes.get("JobType", "unknown"),
            aftermath=partial(reporting.unrunnable, self.delivery, envelope, outcome, action),
        )

    def _emit(self, event: Event) -> None:
        self._executor.events.emit(event)


def _call_plain(job: Job, ctx: JobContext) -> Any:
    try:
        return job.handler.call(job.payload, ctx)
    except StopIteration as error:
        # No future can carry it, so whoever awaits the thread would wait for ever. What PEP 479
        # makes of it in a coroutine.
        raise RuntimeError("the handler raised StopIteration") from error
