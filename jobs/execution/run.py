"""One delivery from message to verdict: read, run, decide. Shared by worker, Lambda and tests.

    load      body → Job, or the reason why it is none
    call      Job → Outcome (the handler, its timeout, its signals; `jobs.execution.calling.call`)
    settle    Outcome → Action (pure; `jobs.execution.settling.settlement`)

The host carries out the action, and then emits `Verdict.aftermath`, since only the host knows when
SQS has confirmed the action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from headgate.jobs.core.topology import MAX_DELAY
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import records_of
from headgate.jobs.errors import TransportError
from headgate.jobs.execution import job_events
from headgate.jobs.execution.calling.batch_call import Seat, seat_of
from headgate.jobs.execution.calling.call import HandlerCall
from headgate.jobs.execution.calling.claimed_call import OnceCall, call_of
from headgate.jobs.execution.calling.payload import deferred, fetched
from headgate.jobs.execution.calling.unique_claims import drop, replaced_by
from headgate.jobs.execution.delivery import UNRUNNABLE, Delivery, Job, legible, load
from headgate.jobs.execution.earlier_deliveries import History
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.failure import failure_of
from headgate.jobs.execution.foregone import expired, foregone
from headgate.jobs.execution.outcome import (
    STRANGERS,
    Attempt,
    Cancelled,
    Crashed,
    Deferred,
    Done,
    Dropped,
    Failed,
    Interrupted,
    Outcome,
    Reason,
    Spent,
    Unrunnable,
    Unstarted,
)
from headgate.jobs.execution.settling.delayed_retry import room_of
from headgate.jobs.execution.settling.settlement import WHOLE_ROOM, Room
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.execution.unrunnable import checked_late, refusal, verdict_on
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.messages.keyring import KeyUnknown

_EARLY_S = 60.0
"""Seconds by which a job may run before it is due, since clocks may differ by as much."""

_UNREAD = Unrunnable(reason=Reason.UNREADABLE, detail="")
"""The outcome of a message until it is read."""

_CANCELLABLE = (Interrupted, Failed, Deferred, Crashed, Spent)
"""The outcomes that are replaced by `Cancelled` once the job is cancelled: none completed it."""


class Run:
    """One delivery on its way to a verdict. It is read at once; `verdict` calls the handler.

    Args:
        executor: the host, and the means of calling its handlers.
        delivery: the message, as SQS has given it out.
    """

    def __init__(self, executor: Executor, delivery: Delivery) -> None:
        self._executor = executor
        self.delivery = delivery
        self.job: Job | None = None
        """The job; None if the message can't be run as a job here."""
        self.foregone: Outcome | None = None
        """The outcome, if the job's past already decides that its handler must not be called."""
        self._unfit = _UNREAD
        """The outcome of a message that can't be run as a job here."""
        self._tries: int | None = None
        """Earlier deliveries that could not be run either; None if only deliveries are counted."""
        self.known = True
        """False once records of earlier deliveries could not be read."""
        self._hindrance: Deferred | None = None
        """The outcome of a job that can't run now; None if it can."""
        self._names: dict[str, Any] = {}
        self._call: HandlerCall | OnceCall | None = None
        self._interruption: str | None = None
        self._cancellation: str | None = None
        self._unread = False
        """True while there are records of earlier deliveries that have not been read."""
        self.seat: Seat | None = None
        """Its place in the call of a batch handler; if it is alone there, from its start on."""
        self.beats: Mapping[str, int] = {}
        """Beats of the silent workers that began the job, as seen after its receipt."""
        try:
            means = executor.means
            job = load(means.app, delivery, means.keyring, received=executor.received)
            self._take(self._counted(job))
        except KeyUnknown as error:
            self._unfit = Unrunnable(reason=Reason.WAIT_TOO_LONG, detail=str(error))
        except tuple(UNRUNNABLE) as error:
            self._refuse(error)

    @property
    def running(self) -> bool:
        """True while the handler runs."""
        return self._call is not None and self._call.running

    @property
    def began(self) -> bool:
        """True if the handler has been called in this delivery, whether it has ended or not."""
        return self._call is not None and self._call.began

    @property
    def began_at(self) -> float:
        """Time at which its handler was called, on the monotonic clock; 0 before."""
        return self._call.began_at if self._call is not None else 0.0

    @property
    def in_loop(self) -> bool:
        """True if the handler runs in this event loop, where it may ignore cancellation."""
        return self.job is not None and self._executor.means.in_loop(self.job)

    @property
    def in_child(self) -> bool:
        """True if the handler runs in a process of its own."""
        return self.job is not None and self._executor.means.isolates(self.job)

    @property
    def cancellable(self) -> bool:
        """True if the handler can be ended from outside: it is async, or in a child process."""
        return self.job is not None and self._executor.means.can_cancel(self.job)

    @property
    def envelope(self) -> Envelope | None:
        """The job's envelope; None if the message has none, or is a stranger's."""
        if (job := self.job) is not None:
            return job.envelope
        if self._unfit.reason in STRANGERS:
            return None  # its sender must not affect the jobs that it names
        return legible(self._executor.means.app, self.delivery)

    @property
    def lacks_payload(self) -> bool:
        """True if `fetch` has a payload to read."""
        if self.job is None or not self.job.lacks_payload:
            return False
        return self._hindrance is None and self.foregone is None

    async def fetch(self) -> None:
        """Read a payload that is large or in the object store; a failure shows in the verdict."""
        if (job := self.job) is None or not self.lacks_payload:
            return
        means = self._executor.means
        try:
            whole = await fetched(job, means.store, means.call_blocking, means.seals)
        except TransportError as error:
            self._hindrance = deferred(job, error)
        except tuple(UNRUNNABLE) as error:
            self._refuse(error)
        else:
            self._take(whole)

    def tried(self, times: int) -> None:
        """Set the number of earlier deliveries that could not become a job."""
        self._tries = times

    def recall(self, past: History, *, beats: Mapping[str, int], crash: Crashed) -> None:
        """Apply the records of earlier deliveries; to be called before `verdict`.

        Args:
            past: the summary of the records.
            beats: the beats of the silent workers that began the job.
            crash: the outcome to report if crashes are found only now.
        """
        if (job := self.job) is None:
            return
        attempt = past.applied_to(job.attempt, used=job.envelope.attempts_used)
        self.beats = beats
        self._unread = False
        self._take(replace(job, attempt=attempt))
        if past.found:
            means = self._executor.means
            told = job_events.crashed(self._names, crash, past.recent_crashes, means.clock.now())
            means.events.emit(told)

    def forget(self) -> None:
        """Count attempts by deliveries, since the records could not be read."""
        self.known = False
        if (job := self.job) is not None:
            self._take(replace(job, attempt=replace(job.attempt, known=False)))

    async def verdict(self) -> Verdict:
        """Run the job to its end. A handler's failure is an outcome, never raised."""
        if self.lacks_payload and self._interruption is None:
            await self.fetch()
        if (job := self.job) is None:
            return self._unrunnable(await self._unfitness())
        outcome = self._unless_cancelled(await self._uncancelled(job))
        if isinstance(outcome, Unrunnable):
            self._unfit = outcome
            return self._unrunnable(outcome)
        attempt = job.attempt if isinstance(outcome, Done) else await self._attempt(job, outcome)
        return self._settled(job, outcome, attempt)

    async def _unfitness(self) -> Unrunnable | Unstarted:
        """Return the outcome of a message that can't be run as a job here."""
        keyring = self._executor.means.keyring
        outcome = await checked_late(self._unfit, self.delivery, keyring)
        if isinstance(outcome, Unrunnable) and outcome is not self._unfit:
            self._unfit, self._tries = outcome, None  # recalled as the job that it says it is
        return outcome

    def unstarted(self, delay_s: float = 0.0) -> Verdict:
        """Return the verdict on a job that is released without being run, after that delay."""
        outcome = Unstarted(after_s=delay_s, reason="it was not started")
        if (job := self.job) is None:
            return self._unrunnable(outcome)
        attempt = replace(job.attempt, known=job.attempt.known and not self._unread)
        if due_in_s := self.due_in_s:
            outcome, attempt = not_due(self._executor.means.app, job, outcome, attempt, due_in_s)
        return self._settled(job, outcome, attempt)

    @property
    def due_in_s(self) -> float:
        """Seconds until the job may run; 0 if it may run now.

        Jobs delayed by SQS or a schedule come in time, give or take the difference between clocks.
        A job that waits for longer than its message can comes earlier, and is released again.
        """
        if self.job is None or (not_before := self.job.envelope.not_before) is None:
            return 0.0
        early_s = (not_before - self._executor.means.clock.now()).total_seconds()
        return early_s if early_s > _EARLY_S else 0.0

    def given_up(self) -> Verdict | None:
        """Return the verdict on a handler that runs on after its cancellation: a failed attempt.

        None if the handler has ended. The host must ignore the verdict that the handler's run still
        comes to.
        """
        if (job := self.job) is None or self._call is None or not self.running:
            return None
        return self._settled(job, self._unless_cancelled(self._call.given_up()), job.attempt)

    def interrupt(self, reason: str, *, abandon: bool = False, spent: bool = False) -> None:
        """Ask the attempt to end early.

        An async handler is cancelled, and a child process ended. A synchronous handler only sees
        ``ctx.cancelled``; with ``abandon`` the run ends without it, while its thread goes on. With
        ``spent`` it has had all the time that the host has for any, and fails as at a timeout.
        """
        if self._interruption is not None and not abandon:
            return  # already asked: it must not be disturbed while it cleans up
        self._interruption = self._interruption or reason
        if self._call is not None:
            self._call.interrupt(reason, abandon=abandon, spent=spent)

    def cancel(self, reason: str) -> None:
        """End the job for good: interrupt it, and accept no outcome but its completion."""
        if self._cancellation is None:
            self._cancellation = reason
            self.interrupt("it was cancelled")

    def _unless_cancelled(self, outcome: Outcome) -> Outcome:
        if self._cancellation is not None and isinstance(outcome, _CANCELLABLE):
            return Cancelled(reason=self._cancellation)
        return outcome

    async def _uncancelled(self, job: Job) -> Outcome:
        means = self._executor.means
        if job.attempt.expires_at is not None:
            self._take(job)  # it may have expired since it was received
        known = self.foregone or await replaced_by(means, job, self.delivery)
        if known is not None:
            if isinstance(known, Dropped):
                await drop(means, job, self.delivery, known, self._names)
            return known
        if self._interruption is not None:
            return Interrupted(reason=self._interruption)
        if self._hindrance is not None:
            return self._hindrance
        self.seat = seat_of(job, self.seat, means)
        self._call = call_of(means, job, self.delivery, self._names, self.seat)
        return await self._call.outcome()

    async def _attempt(self, job: Job, outcome: Outcome) -> Attempt:
        """Return the attempt, with the facts that the verdict on this outcome depends on."""
        if self.foregone is not None and not isinstance(outcome, Deferred):
            # The handler was not called: the attempt is the last one made.
            return replace(job.attempt, number=max(1, job.attempt.number - 1))
        if isinstance(outcome, Crashed):
            return replace(job.attempt, crashes=job.attempt.crashes + 1)
        if isinstance(outcome, Failed) and job.retry.backoff.needs_backlog:
            backlog = await self._executor.backlog(self.delivery.queue.name)
            return replace(job.attempt, backlog=backlog)
        return job.attempt

    def _counted(self, job: Job) -> Job:
        """Return the job, without its backstop if deliveries don't count its attempts."""
        if job.attempt.receives == 1:
            return job
        executor = self._executor
        self._unread = executor.records and records_of(executor.means.app, job.type) != "off"
        if job.attempt.backstop and (self._unread or not executor.backstop):
            return replace(job, attempt=replace(job.attempt, backstop=0))
        return job

    def _settled(self, job: Job, outcome: Outcome, attempt: Attempt) -> Verdict:
        room, tell = WHOLE_ROOM, None
        if not isinstance(outcome, Done):  # the message of a completed job needs no more time
            begun = attempt.begun or self.began
            attempt = replace(attempt, lives_s=self._lives_s(job.kept_free_s), begun=begun)
            if isinstance(outcome, Deferred):
                attempt = sent_anew(self._executor.means.app, job, attempt)
            if job.retry.backoff.needs_context:
                attempt = replace(attempt, failed=failure_of(job, outcome, attempt))
            names = self._names | {"attempt": attempt.number}
            room, tell = self._room, partial(job_events.aftermath, names, outcome)
        return Verdict(
            outcome=outcome,
            attempt=attempt,
            policy=job.retry,
            room=room,
            job_type=job.type.name,
            ran_s=self._call.ran_s if self._call is not None else 0.0,
            tell=tell,
        )

    def _lives_s(self, run_s: float = 0.0) -> float:
        return self.delivery.lives_s(self._executor.means.clock.now(), run_s)

    @property
    def _room(self) -> Room:
        return room_of(self.delivery, self._executor.means, scheduled=self._executor.scheduled)

    def _take(self, job: Job) -> None:
        self.job = job
        if self.delivery.message.receive_count > 1:
            self.foregone = foregone(job.attempt)
        if job.attempt.expires_at is not None and self.foregone is None:
            self.foregone = expired(job.attempt, self._executor.means.clock.now())
        self._names = job_events.names_of(job, self.delivery)

    def _refuse(self, error: Exception) -> None:
        self.job = self.foregone = None
        self._unfit = refusal(error)

    # --- messages that are no job here -----------------------------------------------------------

    def _unrunnable(self, outcome: Unrunnable | Unstarted) -> Verdict:
        return verdict_on(
            outcome,
            self.delivery,
            self._executor.means.app,
            unfit=self._unfit,
            tries=self._tries,
            known=self.known,
            lives_s=self._lives_s(),
            room=self._room,
        )


def sent_anew(app: App, job: Job, attempt: Attempt) -> Attempt:
    """Return the attempt such that a job without records waits in a new message.

    Each delivery of a message counts as its attempt, and many as crashes; a new message takes the
    number of attempts along. A foreign message, and one of a FIFO queue, still waits in its place.
    """
    return attempt if records_of(app, job.type) != "off" else replace(attempt, worn_at=0)


def not_due(
    app: App, job: Job, outcome: Unstarted, attempt: Attempt, due_in_s: float
) -> tuple[Unstarted, Attempt]:
    """Return how a job goes back that is due later, and its attempt.

    One without records comes due in a message that has not been delivered before. To make it anew
    at each of SQS's longest delays would cost much, so in between its message is hidden for hours.
    """
    attempt = replace(attempt, known=False)  # none of its message's deliveries has run it
    anew = sent_anew(app, job, attempt)
    early_s = due_in_s - MAX_DELAY.total_seconds()
    if anew is attempt or not attempt.renewable or early_s <= 0 or attempt.receives > 1:
        return outcome, anew
    return replace(outcome, after_s=min(outcome.after_s, early_s)), attempt
