"""Settlement: a pure function from a delivery's outcome to the action on its message.

    outcome        attempts left, or the policy says so     otherwise
    Done           Ack
    Discarded      Ack
    Cancelled      Ack
    Failed         Retry(delay)                             DeadLetter(reason)
    Deferred       Release(delay)                           DeadLetter(reason)
    Interrupted    Release(0)
    Unstarted      Release(delay)
    Crashed        Retry(delay)                             Quarantine
    Unrunnable     Retry(delay)                             DeadLetter(reason)
    Spent          DeadLetter(reason)                       DeadLetter(reason)

Worker, Lambda and test kit all settle through it, so this table is the whole retry policy. Jobs
that must not run at all, because of their past, get their outcome from `foregone`:

    the job's past                                               outcome
    a crash for which it was to be quarantined                   Crashed
    as many recent crashes as the limit                          Crashed
    its attempts are used up, with as many crashes as the limit  Crashed
    its attempts are used up by failures, or one end was final   Spent
    as many unexplained deliveries as the bound                  Spent
    crashes and suspicions that add up to the limit              Deferred, until that is known
    not known, and by deliveries its attempts are used up        Deferred, until that is known
    the last delivery that SQS grants                            Spent

If records can't be read (``Attempt.known``), no final outcome rests on the count of deliveries: an
attempt that would be one too many is deferred.

A job whose message SQS would delete before it shows again, or move away for its many deliveries,
goes on in another message (`jobs.execution.delayed_retry`). If it can't, Retry and Release become
DeadLetter (`lasting`); but a job that was not started is released sooner, if it can be in time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.execution.outcome import (
    Attempt,
    Cancelled,
    Crashed,
    Deferred,
    Discarded,
    Done,
    Failed,
    Interrupted,
    Outcome,
    Reason,
    Spent,
    Unrunnable,
    Unstarted,
)
from headgate.jobs.retry.backoff import Backoff, job_rng
from headgate.jobs.retry.classification import LONGEST_WAIT_S, retry_after_s
from headgate.jobs.retry.policy import DEFAULT_RETRY, Retry, retry_delay_s
from headgate.jobs.retry.signals import DoNotRetry
from headgate.jobs.values.texts import text_of, type_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Delete the message: the outcome is final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAfter:
    """Hide the message for a while, then deliver it again; the attempt counts."""

    delay_s: int
    note: str = ""
    """The fault of a policy that could not be followed exactly; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Release the message: it has not failed."""

    delay_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Send the message to its queue's dead-letter queue with the reason, then delete it."""

    reason: Reason
    error_type: str
    error_message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Send the message to a queue that no worker reads: it kills the process that runs it."""

    detail: str


Action = Ack | RetryAfter | Release | DeadLetter | Quarantine

MOST_UNEXPLAINED = 100
"""Most unexplained deliveries of one message. Interrupted polls, and workers killed while they hold
the message, cause a few, an outage of the table many; beyond this bound there must be an unseen
fault, and SQS's own limit is near."""

_BLIND = Backoff.exponential(base=5, factor=2, cap=300, jitter="equal")
"""Backoff of a job whose attempts are used up if each of its deliveries was one."""

_BLIND_STEPS = 10  # by then the backoff has long reached its cap

_UNTIL_JUDGED_S = 10.0
"""Redelivery delay, in seconds, of a job that may have killed its worker. About one beat of
`jobs.records.lives`, after which that is mostly known."""


def foregone(attempt: Attempt) -> Outcome | None:
    """Return the outcome of a delivery that the job's past forbids to run; None if it may run."""
    if attempt.backstop and attempt.receives >= attempt.backstop:
        return Crashed(
            detail=f"delivered {attempt.receives} times, without an outcome that ended it: it may "
            "kill the process that runs it"
        )
    if attempt.fatal_crash is not None:
        return Crashed(detail=attempt.fatal_crash)
    if _has_crashed_enough(attempt):
        return Crashed(detail=f"{attempt.crashes_ever} of its attempts ended with their worker")
    if attempt.known and (spent := _spent(attempt)) is not None:
        return spent
    if attempt.crashes + attempt.suspicions >= attempt.crash_limit:
        return Deferred(after_s=_UNTIL_JUDGED_S, reason="its last worker may have died of it")
    if not attempt.known and attempt.number > attempt.max_attempts:
        return Deferred(after_s=_blind_s(attempt), reason="its records can't be read")
    if attempt.receives >= attempt.receive_limit:
        return Spent(
            reason=Reason.RECEIVED_TOO_OFTEN,
            error_message=f"delivered {attempt.receives} times, as often as SQS does",
        )
    return None


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
            error_message=f"nothing explains {attempt.unexplained} of its {attempt.receives} "
            "deliveries",
        )
    return None


def _blind_s(attempt: Attempt) -> float:
    return _BLIND.delay_s(min(attempt.receives, _BLIND_STEPS), job_rng(attempt.job_id))


def settle(outcome: Outcome, attempt: Attempt, policy: Retry) -> Action:
    """Decide what becomes of a message.

    Args:
        outcome: how the delivery ended.
        attempt: the attempt's number, its limits and the job's past.
        policy: the type's retry policy; for `Unrunnable`, the app's parking policy.
    """
    return lasting(_decided(outcome, attempt, policy), outcome, attempt)


def lasting(action: Action, outcome: Outcome, attempt: Attempt) -> Action:
    """Return the action, or a dead letter if the message can't last until the job could run again.

    A job that was not started may be redelivered at any time, so it is released sooner if that lets
    its message last.
    """
    if attempt.renewable or not isinstance(action, RetryAfter | Release):
        return action
    if isinstance(outcome, Interrupted | Unstarted) and _is_worn_out(attempt):
        return DeadLetter(
            reason=Reason.RECEIVED_TOO_OFTEN, error_type="", error_message=outcome.reason
        )
    if min(action.delay_s, MAX_VISIBILITY.total_seconds()) <= attempt.lives_s:
        return action
    match outcome:
        case Unstarted() if attempt.lives_s >= 1:
            return Release(delay_s=math.floor(attempt.lives_s))
        case Failed(error=error):
            return _overdue(type_of(error), text_of(error))
        case Deferred(reason=why) | Interrupted(reason=why) | Unstarted(reason=why):
            return _overdue("", why)
        case Crashed(detail=detail):
            return _overdue("", detail)
        case Unrunnable(reason=reason, detail=detail):
            return DeadLetter(reason=reason, error_type="", error_message=detail)
        case _:
            return action


def _is_worn_out(attempt: Attempt) -> bool:
    """Return True if the next delivery would no longer be run. The one after that would be SQS's
    own redrive, which gives no reason, so the message is parked before."""
    return attempt.receives >= attempt.receive_limit - 1


def _overdue(error_type: str, error_message: str) -> DeadLetter:
    return DeadLetter(
        reason=Reason.WAIT_TOO_LONG, error_type=error_type, error_message=error_message
    )


def _decided(outcome: Outcome, attempt: Attempt, policy: Retry) -> Action:
    match outcome:
        case Done() | Discarded() | Cancelled():
            return Ack()
        case Failed():
            return _after_failure(outcome, attempt, policy)
        case Deferred() | Unstarted():
            return _put_off(outcome, attempt)
        case Interrupted():
            return Release()
        case Crashed(detail=detail):
            if _is_fatal(attempt) or _is_last(attempt):
                return Quarantine(detail=detail)
            return _backed_off(policy, attempt.number, attempt)
        case Spent(reason=reason, error_type=error_type, error_message=message):
            return DeadLetter(reason=reason, error_type=error_type, error_message=message)
        case Unrunnable(reason=reason, detail=detail):
            tried_enough = attempt.known and attempt.number >= policy.max_attempts
            if tried_enough or _is_worn_out(attempt):
                return DeadLetter(reason=reason, error_type="", error_message=detail)
            return _backed_off(policy, attempt.number, attempt)
        case _:
            assert_never(outcome)


def _put_off(outcome: Deferred | Unstarted, attempt: Attempt) -> Action:
    if not outcome.after_s <= LONGEST_WAIT_S:  # NaN included
        asked = f"it asked to run again in {outcome.after_s:,.0f} s, which is over a year"
        return _overdue("", ": ".join(filter(None, (asked, outcome.reason))))
    if isinstance(outcome, Deferred) and _is_worn_out(attempt):
        return DeadLetter(
            reason=Reason.DEFERRED_TOO_OFTEN, error_type="", error_message=outcome.reason
        )
    return Release(delay_s=math.ceil(max(0.0, outcome.after_s)))


def _after_failure(failed: Failed, attempt: Attempt, policy: Retry) -> Action:
    if reason := _final(failed.error, attempt, policy):
        return DeadLetter(
            reason=reason,
            error_type=type_of(failed.error),
            error_message=text_of(failed.error),
        )
    return _backed_off(policy, attempt.number, attempt, failed)


def _final(error: BaseException, attempt: Attempt, policy: Retry) -> Reason | None:
    if isinstance(error, DoNotRetry):
        return Reason.DO_NOT_RETRY
    if not policy.should_retry(error):
        return Reason.PERMANENT_ERROR
    if _is_last(attempt):
        return Reason.ATTEMPTS_EXHAUSTED
    return None


def _is_fatal(attempt: Attempt) -> bool:
    return attempt.fatal_crash is not None or attempt.crashes >= attempt.crash_limit


def _is_last(attempt: Attempt) -> bool:
    return attempt.known and attempt.number >= attempt.max_attempts


def _backed_off(
    policy: Retry, number: int, attempt: Attempt, failed: Failed | None = None
) -> RetryAfter:
    note = ""
    try:
        delay_s = _delay_s(policy, number, attempt, failed)
    except SettingsInvalid as error:
        # A custom backoff is the user's code. Its fault must not prevent the settlement.
        delay_s, note = _delay_s(DEFAULT_RETRY, number, attempt, failed), str(error)
    if not attempt.known and attempt.number >= attempt.max_attempts:
        delay_s = max(delay_s, round(_blind_s(attempt)))
    return RetryAfter(delay_s=delay_s, note=note)


def _delay_s(policy: Retry, number: int, attempt: Attempt, failed: Failed | None) -> int:
    rng = job_rng(attempt.job_id)
    if failed is not None and retry_after_s(failed.error, failed.at):
        # Rounded up: never sooner than the server asked.
        return math.ceil(retry_delay_s(policy, failed.error, number, rng, failed.at))
    return round(policy.backoff.delay_s(number, rng, attempt.backlog))
