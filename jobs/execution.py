"""One delivery from message to verdict: read, run, decide. Shared by worker, Lambda and tests.

    load      body → Job, or why not
    call      Job → Outcome (the handler, its timeout, its signals; in `jobs.calling`)
    settle    Outcome → Action (pure, in `jobs.settlement`)

The host carries the action out, and then emits `Verdict.aftermath`, since only the host knows when
SQS has confirmed it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from jobs import reporting
from jobs.calling import Call, Means
from jobs.dead_letters import dead_letter
from jobs.delivery import UNRUNNABLE, Delivery, Job, legible, load
from jobs.errors import TransportError
from jobs.events import Event
from jobs.fetching import deferred, fetched
from jobs.foreign import UNNAMED
from jobs.once import OnceCall
from jobs.outcome import (
    Attempt,
    Cancelled,
    Crashed,
    Deferred,
    Discarded,
    Failed,
    Interrupted,
    Outcome,
    Reason,
    Unrunnable,
)
from jobs.ports import OutgoingMessage
from jobs.replacing import replaced_by
from jobs.settlement import Action, DeadLetter, Quarantine, settle
from jobs.texts import text_of

Backlog = Callable[[str], Awaitable[int]]
"""How many messages are visible in a queue, by its physical name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What has to happen to a message now, and what to say once it has."""

    outcome: Outcome
    action: Action
    attempt: Attempt
    job_type: str
    ran_s: float = 0.0
    """How long its handler ran; 0 where it was not called."""
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


_CANCELLABLE = (Interrupted, Failed, Deferred, Crashed)
"""How an attempt of a cancelled job may end without having completed it."""


async def _no_backlog(_queue: str) -> int:
    return 0


class Executor:
    """Makes runs for an app.

    Args:
        means: the app, and what calls of its handlers need.
        backlog: answers adaptive backoffs; without it they see an empty queue.
    """

    def __init__(self, means: Means, *, backlog: Backlog = _no_backlog) -> None:
        self.means = means
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
        self._hindrance: Deferred | None = None
        """Why it can't run now."""
        self._names: dict[str, Any] = {}
        self._call: Call | OnceCall | None = None
        self._interruption: str | None = None
        self._cancellation: str | None = None
        try:
            self._take(load(executor.means.app, delivery))
        except tuple(UNRUNNABLE) as error:
            self._refuse(error)
        if delivery.message.receive_count >= delivery.queue.max_receive_count:
            # SQS's own redrive would be next, and it gives no reason.
            self._crash = Crashed(
                detail=f"delivered {delivery.message.receive_count} times, without an outcome that "
                "ended it: it may kill the process that runs it"
            )

    @property
    def running(self) -> bool:
        """Whether the handler has been called and has not ended."""
        return self._call is not None and self._call.running

    @property
    def cancellable(self) -> bool:
        """Whether its handler can be ended from outside: it is async, or in a child process."""
        return self.job is not None and self._executor.means.can_cancel(self.job)

    @property
    def lacks_payload(self) -> bool:
        """Whether `fetch` has something to do."""
        return self.job is not None and self.job.lacks_payload and self._hindrance is None

    async def fetch(self) -> None:
        """Read a payload that is in the object store; what hinders that is in the verdict."""
        if (job := self.job) is None or not self.lacks_payload:
            return
        means = self._executor.means
        try:
            whole = await fetched(job, means.store, means.call_blocking)
        except TransportError as error:
            self._hindrance = deferred(job, error)
        except tuple(UNRUNNABLE) as error:
            self._refuse(error)
        else:
            self._take(whole)

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
            at = self._executor.means.clock.now()
            self._executor.means.events.emit(reporting.crashed(self._names, crash, crashes, at))
            if crashes >= attempt.crash_limit:
                self._crash = crash

    async def verdict(self) -> Verdict:
        """Run the job to its end. A handler's failure is an outcome, never raised."""
        if self.lacks_payload and self._interruption is None:
            await self.fetch()
        if (job := self.job) is None:
            return self._unrunnable(self._unfit)
        outcome = await self._outcome(job)
        attempt = await self._attempt(job, outcome)
        return Verdict(
            outcome=outcome,
            action=settle(outcome, attempt, job.type.retry),
            attempt=attempt,
            job_type=job.type.name,
            ran_s=self._call.ran_s if self._call is not None else 0.0,
            tell=partial(reporting.aftermath, self._names, outcome),
        )

    def interrupt(self, reason: str, *, abandon: bool = False) -> None:
        """Ask the attempt to end early.

        An async handler is cancelled, and a child process ended. A plain function only sees
        ``ctx.cancelled``; with ``abandon`` the run ends without it, while its thread goes on.
        """
        if self._interruption is not None and not abandon:
            return  # it has been asked, and must not be disturbed while it cleans up
        self._interruption = self._interruption or reason
        if self._call is not None:
            self._call.interrupt(reason, abandon=abandon)

    def cancel(self, reason: str) -> None:
        """End the job for good: `interrupt`, and nothing but its completion counts any more."""
        if self._cancellation is None:
            self._cancellation = reason
            self.interrupt("it was cancelled")

    async def _outcome(self, job: Job) -> Outcome:
        outcome = await self._uncancelled(job)
        if self._cancellation is not None and isinstance(outcome, _CANCELLABLE):
            return Cancelled(reason=self._cancellation)
        return outcome

    async def _uncancelled(self, job: Job) -> Outcome:
        if self._crash is not None:
            return self._crash
        if (later := await replaced_by(self._executor.means, job, self.delivery)) is not None:
            return Discarded(reason=f"replaced by the job {later}")
        if self._interruption is not None:
            return Interrupted(reason=self._interruption)
        if self._hindrance is not None:
            return self._hindrance
        self._call = self._called(job)
        return await self._call.outcome()

    def _called(self, job: Job) -> Call | OnceCall:
        means = self._executor.means
        make = OnceCall if job.type.once else Call
        return make(means, job, self.delivery, self._names)

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

    def _refuse(self, error: Exception) -> None:
        self.job = None
        self._unfit = Unrunnable(reason=UNRUNNABLE[type(error)], detail=text_of(error))

    # --- messages that are no job here -----------------------------------------------------------

    def _unrunnable(self, outcome: Unrunnable) -> Verdict:
        message = self.delivery.message
        envelope = legible(self._executor.means.app, self.delivery)
        attempt = Attempt(
            job_id=str(envelope.id) if envelope else message.message_id,
            number=message.receive_count,
            max_attempts=self._executor.means.app.parking.attempts,
            receives=message.receive_count,
        )
        return Verdict(
            outcome=outcome,
            action=settle(outcome, attempt, self._executor.means.app.parking),
            attempt=attempt,
            job_type=envelope.type if envelope else message.attributes.get("JobType", UNNAMED),
            tell=partial(reporting.unrunnable, self.delivery, envelope, outcome),
        )
