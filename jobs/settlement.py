"""The verdict on one delivery: one pure function from how it ended to what becomes of the message.

    outcome        attempts left, or the policy says so     otherwise
    Done           Ack
    Discarded      Ack
    Cancelled      Ack
    Failed         Retry(delay)                             DeadLetter(reason)
    Deferred       Release(delay)                           DeadLetter(reason)
    Interrupted    Release(0)
    Crashed        Retry(delay)                             Quarantine
    Unrunnable     Retry(delay)                             DeadLetter(reason)

Worker, Lambda and test kit all settle through it, so the whole retry policy is this table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

from jobs.backoff import job_rng
from jobs.classification import LONGEST_WAIT_S, retry_after_s
from jobs.errors import DoNotRetry, SettingsInvalid
from jobs.outcome import (
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
    Unrunnable,
)
from jobs.retry import DEFAULT_RETRY, Retry, retry_delay_s
from jobs.texts import text_of, type_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Delete the message: its outcome is final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAfter:
    """Hide the message for a while, then deliver it again; the attempt counts."""

    delay_s: int
    note: str = ""
    """What was wrong with the policy, where it could not be followed to the letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Give the message back: it has not failed."""

    delay_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Send the message to its queue's dead-letter queue with the reason, then delete it."""

    reason: Reason
    error_type: str
    error_message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Send the message where no worker reads: it kills the process that runs it."""

    detail: str


Action = Ack | RetryAfter | Release | DeadLetter | Quarantine


def settle(outcome: Outcome, attempt: Attempt, policy: Retry) -> Action:
    """Decide what becomes of a message.

    Args:
        outcome: how the delivery ended.
        attempt: which attempt it was, and of how many.
        policy: the type's retry policy; for `Unrunnable`, the app's parking policy.
    """
    match outcome:
        case Done() | Discarded() | Cancelled():
            return Ack()
        case Failed():
            return _after_failure(outcome, attempt, policy)
        case Deferred():
            return _after_deferral(outcome, attempt)
        case Interrupted():
            return Release()
        case Crashed(detail=detail):
            if attempt.crashes >= attempt.crash_limit or attempt.number >= attempt.max_attempts:
                return Quarantine(detail=detail)
            return _backed_off(policy, attempt.number, attempt)
        case Unrunnable(reason=reason, detail=detail):
            # No attempt was made, so only the receives tell how often it was tried.
            if attempt.receives >= policy.attempts:
                return DeadLetter(reason=reason, error_type="", error_message=detail)
            return _backed_off(policy, attempt.receives, attempt)
        case _:
            assert_never(outcome)


def _after_deferral(deferred: Deferred, attempt: Attempt) -> Action:
    if not deferred.after_s <= LONGEST_WAIT_S:  # NaN included
        asked = f"it asked to run again in {deferred.after_s:,.0f} s, which is over a year"
        detail = ": ".join(filter(None, (asked, deferred.reason)))
        return DeadLetter(reason=Reason.WAIT_TOO_LONG, error_type="", error_message=detail)
    if attempt.receives >= attempt.receive_limit - 1:
        # The next delivery but one would be SQS's redrive, which gives no reason.
        return DeadLetter(
            reason=Reason.DEFERRED_TOO_OFTEN, error_type="", error_message=deferred.reason
        )
    return Release(delay_s=math.ceil(max(0.0, deferred.after_s)))


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
    if attempt.number >= attempt.max_attempts:
        return Reason.ATTEMPTS_EXHAUSTED
    return None


def _backed_off(
    policy: Retry, number: int, attempt: Attempt, failed: Failed | None = None
) -> RetryAfter:
    try:
        return RetryAfter(delay_s=_delay_s(policy, number, attempt, failed))
    except SettingsInvalid as error:
        # A custom backoff is the user's code. Its fault must not cost the job its settlement.
        return RetryAfter(delay_s=_delay_s(DEFAULT_RETRY, number, attempt, failed), note=str(error))


def _delay_s(policy: Retry, number: int, attempt: Attempt, failed: Failed | None) -> int:
    rng = job_rng(attempt.job_id)
    if failed is not None and retry_after_s(failed.error, failed.at):
        # Rounded up: never sooner than the server asked.
        return math.ceil(retry_delay_s(policy, failed.error, number, rng, failed.at))
    return round(policy.backoff.delay_s(number, rng, attempt.backlog))
