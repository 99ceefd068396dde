"""The events of one delivery, as values, to be emitted by its host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headgate.jobs.core.events import (
    Event,
    JobAlreadyDone,
    JobCancelled,
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobDiscarded,
    JobDropped,
    JobFailed,
    JobInterrupted,
    JobProgress,
    JobQuarantined,
    JobRetryScheduled,
    JobStalled,
    JobStarted,
    MessageUnrunnable,
    SettlementFailed,
)
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.delivery import Delivery, Job
from headgate.jobs.execution.outcome import (
    Attempt,
    Cancelled,
    Crashed,
    Deferred,
    Discarded,
    Done,
    Dropped,
    Failed,
    Interrupted,
    Outcome,
    Unrunnable,
    Unstarted,
)
from headgate.jobs.execution.settling.actions import (
    Ack,
    Action,
    DeadLetter,
    Quarantine,
    Release,
    RetryAfter,
)
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.values.texts import legible, type_of


def names_of(job: Job, delivery: Delivery) -> dict[str, Any]:
    """Return the fields that every event of a job carries."""
    return {
        "job_id": job.attempt.job_id,
        "job_type": job.type.name,
        "queue": delivery.queue.group,
        "priority": delivery.queue.priority,
        "tenant": job.envelope.tenant,
        "attempt": job.attempt.number,
        "max_attempts": job.attempt.max_attempts,
    }


def started(job: Job, names: dict[str, Any], at: datetime) -> JobStarted:
    """Return the event of a handler that is about to be called."""
    due = job.envelope.not_before or job.envelope.submitted_at
    is_first = not job.attempt.begun
    waited_s = max(0.0, (at - due).total_seconds()) if is_first else 0.0
    return JobStarted(at=at, is_first=is_first, waited_s=waited_s, **names)


def progress(
    names: Mapping[str, Any], percent: float, note: str, data: Mapping[str, Any], at: datetime
) -> JobProgress:
    """Return the event of a handler's progress."""
    return JobProgress(at=at, percent=percent, note=legible(note), data=data, **names)


def stalled(job: Job, names: dict[str, Any], at: datetime) -> JobStalled:
    """Return the event of a synchronous handler that runs past its timeout."""
    return JobStalled(at=at, timeout_s=job.timeout_s, **names)


def ended(
    outcome: Outcome, job: Job, names: dict[str, Any], ran_s: float, at: datetime
) -> Event | None:
    """Return the event of a handler's end, or None if only the action that follows is reported."""
    match outcome:
        case Crashed():
            return crashed(names, outcome, job.attempt.crashes + 1, at)
        case Done():
            return JobCompleted(at=at, ran_s=ran_s, **names)
        case Discarded(reason=reason):
            return JobDiscarded(at=at, reason=reason, **names)
        case Failed(error=error, message=message, traceback=text):
            return JobFailed(
                at=at,
                ran_s=ran_s,
                error_type=type_of(error),
                error_message=message,
                traceback=text,
                **names,
            )
        case _:
            return None


def already_done(names: dict[str, Any], at: datetime) -> JobAlreadyDone:
    """Return the event of a job that an earlier delivery has completed."""
    return JobAlreadyDone(at=at, **names)


def dropped(names: dict[str, Any], outcome: Dropped, at: datetime) -> JobDropped:
    """Return the event of a job that ends without a run."""
    return JobDropped(at=at, kind=outcome.kind, reason=outcome.reason, **names)


def crashed(names: dict[str, Any], outcome: Crashed, crashes: int, at: datetime) -> JobCrashed:
    """Return the event of a process that died, now or in an earlier delivery."""
    return JobCrashed(at=at, detail=outcome.detail, crashes=crashes, **names)


def aftermath(
    names: dict[str, Any], outcome: Outcome, action: Action, at: datetime
) -> Sequence[Event]:
    """Return the events to emit once SQS has confirmed an action: one, or none."""
    event = _after(names, outcome, action, at)
    return () if event is None else (event,)


def _after(names: dict[str, Any], outcome: Outcome, action: Action, at: datetime) -> Event | None:
    match action:
        case Ack():
            if isinstance(outcome, Cancelled):
                return JobCancelled(at=at, reason=outcome.reason, **names)
            return None  # already reported when the handler ended
        case RetryAfter(delay_s=delay_s, note=note, backoff_fault=fault):
            return JobRetryScheduled(
                at=at, delay_s=delay_s, note=note, backoff_fault=fault, **names
            )
        case DeadLetter(reason=why, error_type=error_type, error_message=message):
            return JobDeadLettered(
                at=at, reason=why, error_type=error_type, error_message=message, **names
            )
        case Quarantine(detail=detail):
            return JobQuarantined(at=at, detail=detail, **names)
        case Release(delay_s=delay_s):
            if isinstance(outcome, Deferred):
                return JobDeferred(at=at, delay_s=delay_s, reason=outcome.reason, **names)
            if isinstance(outcome, Unstarted):
                return None
            reason = outcome.reason if isinstance(outcome, Interrupted) else ""
            return JobInterrupted(at=at, reason=reason, **names)


def unrunnable(
    delivery: Delivery,
    envelope: Envelope | None,
    outcome: Unrunnable,
    action: Action,
    at: datetime,
) -> Sequence[Event]:
    """Return the event of a message that was backed off or parked; none if it was released."""
    if isinstance(action, Release):
        return ()
    message = delivery.message
    told = MessageUnrunnable(
        at=at,
        queue=delivery.queue.name,
        message_id=message.message_id,
        job_id=str(envelope.id) if envelope else None,
        job_type=envelope.type if envelope else None,
        reason=outcome.reason,
        detail=outcome.detail,
        receives=message.receive_count,
        retry_in_s=action.delay_s if isinstance(action, RetryAfter) else None,
    )
    return (told,)


def unrunnable_job(
    delivery: Delivery,
    envelope: Envelope,
    outcome: Unrunnable,
    attempt: Attempt,
    action: Action,
    at: datetime,
) -> Sequence[Event]:
    """Return the events of a message that is a job of the app's: parked, the job is dead."""
    told = unrunnable(delivery, envelope, outcome, action, at)
    if not isinstance(action, DeadLetter):
        return told
    dead = JobDeadLettered(
        at=at,
        job_id=attempt.job_id,
        job_type=envelope.type,
        queue=delivery.queue.group,
        priority=delivery.queue.priority,
        tenant=envelope.tenant,
        attempt=attempt.number,
        max_attempts=attempt.max_attempts,
        reason=action.reason,
        error_type=action.error_type,
        error_message=action.error_message,
    )
    return (*told, dead)


def settlement_failed(
    delivery: Delivery, job_id: str, action: str, error: TransportError, at: datetime
) -> SettlementFailed:
    """Return the event of a request that should have settled a delivery, and failed."""
    return SettlementFailed(
        at=at,
        queue=delivery.queue.name,
        message_id=delivery.message.message_id,
        job_id=job_id,
        action=action,
        error=str(error),
    )
