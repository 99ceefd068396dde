"""Jobs that must not run at all, because of their past.

    the job's past                                               outcome
    a crash for which it was to be quarantined                   Crashed
    as many recent crashes as the limit                          Crashed
    its attempts are used up, with as many crashes as the limit  Crashed
    its attempts are used up by failures, or one end was final   Spent
    as many unexplained deliveries as the bound                  Spent
    crashes and suspicions that add up to the limit              Deferred, until that is known
    not known, and by deliveries its attempts are used up        Deferred, until that is known
    the last delivery that SQS grants                            Spent
    it has never begun, and the time for that is over            Dropped
    likewise, but its last worker may have died of it             Deferred, until that is known

If records can't be read (``Attempt.known``), no final outcome rests on the count of deliveries: an
attempt that would be one too many is deferred.
"""

from __future__ import annotations

from datetime import datetime

from headgate.jobs.execution.outcome import (
    Attempt,
    Crashed,
    Deferred,
    DropKind,
    Dropped,
    Outcome,
    Reason,
    Spent,
)
from headgate.jobs.execution.settling.settlement import blind_s

MOST_UNEXPLAINED = 100
"""Most unexplained deliveries of one message. Interrupted polls, and workers killed while they hold
the message, cause a few, an outage of the table many; beyond this bound there must be an unseen
fault, and SQS's own limit is near."""

_UNTIL_JUDGED_S = 10.0
"""Redelivery delay, in seconds, of a job that may have killed its worker. About one beat of
`jobs.records.lives`, after which that is mostly known."""


def foregone(attempt: Attempt) -> Outcome | None:
    """Return the outcome of a delivery that the job's past forbids to run; None if it may run."""
    if attempt.backstop and attempt.receives >= attempt.backstop:
        return Crashed(
            detail=f"delivered {attempt.receives} times without a final outcome: it may kill the "
            "process that runs it"
        )
    if attempt.fatal_crash is not None:
        return Crashed(detail=attempt.fatal_crash)
    if _has_crashed_enough(attempt):
        return Crashed(detail=f"{attempt.crashes_ever} of its attempts ended with their worker")
    if attempt.known and (spent := _spent(attempt)) is not None:
        return spent
    if attempt.crashes + attempt.suspicions >= attempt.crash_limit:
        return Deferred(after_s=_UNTIL_JUDGED_S, reason="it may have killed its last worker")
    if not attempt.known and attempt.number > attempt.max_attempts:
        return Deferred(after_s=blind_s(attempt), reason="its records can't be read")
    if attempt.receives >= attempt.receive_limit:
        return Spent(
            reason=Reason.RECEIVED_TOO_OFTEN,
            error_message=f"delivered {attempt.receives} times, SQS's maximum",
        )
    return None


def expired(attempt: Attempt, now: datetime) -> Dropped | Deferred | None:
    """Return the outcome of a job that comes too late for its first start; None of any other.

    A job that has begun no longer expires: its retries are due whenever they come.
    """
    if attempt.begun or attempt.expires_at is None or now < attempt.expires_at:
        return None
    if attempt.suspicions:
        return Deferred(after_s=_UNTIL_JUDGED_S, reason="its last worker may have begun it")
    by = attempt.expires_at.isoformat(timespec="seconds")
    return Dropped(kind=DropKind.EXPIRED, reason=f"it had not started by {by}")


def _has_crashed_enough(attempt: Attempt) -> bool:
    if attempt.crashes >= attempt.crash_limit:
        return True
    used_up = attempt.failures + attempt.crashes_ever >= attempt.max_attempts
    return used_up and attempt.crashes_ever >= attempt.crash_limit


def _spent(attempt: Attempt) -> Spent | None:
    if (last := attempt.last_failure) is not None:
        exhausted = attempt.failures >= attempt.max_attempts
        reason = last.final or (Reason.ATTEMPTS_EXHAUSTED if exhausted else None)
        if reason is not None:
            return Spent(
                reason=reason, error_type=last.error_type, error_message=last.error_message
            )
    if attempt.unexplained >= MOST_UNEXPLAINED:
        return Spent(
            reason=Reason.RECEIVED_TOO_OFTEN,
            error_message=f"{attempt.unexplained} of its {attempt.receives} deliveries are "
            "unexplained",
        )
    return None
