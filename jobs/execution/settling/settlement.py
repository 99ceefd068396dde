"""Settlement: a pure function from a delivery's outcome to the action on its message.

    outcome        attempts left, or the policy says so     otherwise
    Done           Ack
    Discarded      Ack
    Dropped        Ack
    Cancelled      Ack
    Failed         RetryAfter(delay), later or not at all   DeadLetter(reason)
                   if a retry budget is spent
    Deferred       Release(delay)                           DeadLetter(reason)
    Interrupted    Release(0)
    Unstarted      Release(delay)                           DeadLetter(reason), of over a year
    Crashed        RetryAfter(delay)                        Quarantine
    Unrunnable     RetryAfter(delay)                        DeadLetter(reason)
    Spent          DeadLetter(reason)                       DeadLetter(reason)

Worker, Lambda and test kit all settle through it: whether a job is tried again is said here. Jobs
that must not run at all, because of their past, get their outcome from `jobs.execution.foregone`.

A wait, of RetryAfter or Release, also says where the job waits:

    the wait                                             the way
    fits                                                 HIDDEN: its message is hidden until then
    over 12 h, or so near the end of the retention that  SCHEDULED: a one-time schedule holds the
    no time is left for the run; or the receives are     job and sends it when it is due
    nearly used up
    likewise, and up to 15 min; or no schedule can       ANEW: it is sent anew at once, and released
                                                         unstarted until it is due
    the message is not Headgate's, or its queue FIFO     HIDDEN, for at most 12 h; DeadLetter if SQS
                                                         would delete it before it shows again, or
                                                         move it away for its many deliveries
    the handler goes on, and can't be stopped            LEFT: it shows when its visibility timeout
                                                         ends

A job that was not started is released sooner, if that lets its message last.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import assert_never

from headgate.jobs.core.topology import MAX_DELAY, MAX_VISIBILITY
from headgate.jobs.errors import SettingsInvalid
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
    Reason,
    Spent,
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
    Way,
)
from headgate.jobs.retry.backoff import Backoff, job_rng
from headgate.jobs.retry.classification import LONGEST_WAIT_S, retry_after_s
from headgate.jobs.retry.policy import DEFAULT_RETRY, Retry, retry_delay_s
from headgate.jobs.retry.signals import DoNotRetry
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.texts import type_of

_MAX_DELAY_S = int(MAX_DELAY.total_seconds())
_MAX_VISIBILITY_S = int(MAX_VISIBILITY.total_seconds())

_ACK = Ack()

_WAITS = (RetryAfter, Release)
"""The actions after which the job waits."""

_SQS_LIMIT = "SQS hides a message for 12 hours since its receipt at most"

_NOT_OURS = "only a message of Headgate's own can be sent anew"

_BUDGET_SPENT = "the retry budget is spent"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The waits that SQS, the scheduler, the object store and the host allow."""

    hidden_s: int = _MAX_VISIBILITY_S
    """Seconds for which the message can still be hidden."""
    scheduled_s: float = 0
    """Seconds for which a one-time schedule may hold the job; 0 if none can."""
    fifo: bool = False
    """True if the message's queue is FIFO."""
    left_s: int | None = None
    """Seconds until the message shows by itself, where it must not show sooner because its handler
    goes on; else None."""


WHOLE_ROOM = Room()
"""The waits of a message just received, without a scheduler."""


@light_dataclass(frozen=True, slots=True)
class Granted:
    """A retry budget's consent to a retry."""

    delay_s: int
    is_put_off: bool
    """True if the retry would have come sooner, had there been room."""


@light_dataclass(frozen=True, slots=True)
class Exhausted:
    """A retry budget's refusal: the retry is given up."""


BudgetAnswer = Granted | Exhausted

_BLIND = Backoff.exponential(base=5, factor=2, cap=300, jitter="equal")
"""Backoff of a job whose attempts are used up if each of its deliveries was one."""

_BLIND_STEPS = 10  # by then the backoff has long reached its cap


def settle(
    outcome: Outcome,
    attempt: Attempt,
    policy: Retry,
    room: Room = WHOLE_ROOM,
    budget: BudgetAnswer | None = None,
) -> Action:
    """Decide what becomes of a message.

    Args:
        outcome: how the delivery ended.
        attempt: the attempt's number, its limits and the job's past.
        policy: the type's retry policy; for `Unrunnable`, the app's parking policy.
        room: the waits that are possible. Without a schedule, or once one has been refused,
            ``scheduled_s`` is 0.
        budget: the answer of the type's retry budget to the retry that is decided without it; None
            if it has none.
    """
    action = _decided(outcome, attempt, policy)
    if isinstance(action, _WAITS):
        action = _fitted(action, outcome, attempt, room)
    if budget is not None and isinstance(action, RetryAfter):
        action = _budgeted(action, outcome, budget)
        if isinstance(action, RetryAfter):
            action = _fitted(action, outcome, attempt, room)
    return action


def _budgeted(
    action: RetryAfter, outcome: Outcome, budget: BudgetAnswer
) -> RetryAfter | DeadLetter:
    match budget:
        case Exhausted():
            return _letter(Reason.RETRY_BUDGET, outcome)
        case Granted(delay_s=delay_s, is_put_off=True):
            fault = action.backoff_fault
            return RetryAfter(delay_s=delay_s, note=_BUDGET_SPENT, backoff_fault=fault)
        case Granted(delay_s=delay_s):
            return replace(action, delay_s=delay_s)


def _fitted(action: RetryAfter | Release, outcome: Outcome, attempt: Attempt, room: Room) -> Action:
    """Return the action with a wait, and a way, that the job's message or another one allows.

    A job that can't go on in another message is dead-lettered before SQS deletes its message.
    """
    if not attempt.renewable and (letter := _outlasted(action, outcome, attempt)) is not None:
        return letter
    if isinstance(outcome, Unstarted):
        action = replace(action, delay_s=_shortened_s(action.delay_s, attempt, room))
        room = replace(room, scheduled_s=0)  # a job that comes too soon is only released again
    way = _way(action.delay_s, attempt, room)
    if room.left_s is not None:
        return replace(action, delay_s=room.left_s, way=Way.LEFT)
    if way is not Way.HIDDEN:
        return replace(action, way=way)
    return _cut(action, room) if action.delay_s > room.hidden_s else action


def _outlasted(
    action: RetryAfter | Release, outcome: Outcome, attempt: Attempt
) -> DeadLetter | None:
    """Return a dead letter if the message can't last until the job could run again, else None."""
    if isinstance(outcome, Interrupted | Unstarted) and _is_worn_out(attempt):
        return _letter(Reason.RECEIVED_TOO_OFTEN, outcome)
    if min(action.delay_s, _MAX_VISIBILITY_S) <= attempt.lives_s:
        return None
    if isinstance(outcome, Unstarted) and attempt.lives_s >= 1:
        return None  # it may be redelivered at any time, so it is released sooner
    reason = outcome.reason if isinstance(outcome, Unrunnable) else Reason.WAIT_TOO_LONG
    return _letter(reason, outcome)


def _shortened_s(delay_s: int, attempt: Attempt, room: Room) -> int:
    """Cut the wait of an unstarted job to one that its message, or an SQS delay, can hold.

    A job that comes too soon is released again, which costs it no attempt.
    """
    if attempt.lives_s >= 1 and attempt.receives < attempt.worn_at:
        return min(delay_s, math.floor(min(room.hidden_s, attempt.lives_s)))
    if attempt.renewable or math.isinf(attempt.lives_s):
        return min(delay_s, _MAX_DELAY_S)
    return min(delay_s, _MAX_DELAY_S, math.floor(attempt.lives_s))


def _way(wait_s: int, attempt: Attempt, room: Room) -> Way:
    """Decide where a job waits for ``wait_s`` seconds."""
    fits = wait_s <= min(room.hidden_s, attempt.lives_s)
    if not attempt.renewable or (fits and attempt.receives < attempt.worn_at):
        return Way.HIDDEN
    return Way.SCHEDULED if _MAX_DELAY_S < wait_s <= room.scheduled_s else Way.ANEW


def _cut(action: RetryAfter | Release, room: Room) -> RetryAfter | Release:
    """Return the action with its wait cut to the longest for which the message can be hidden."""
    if isinstance(action, Release):
        return replace(action, delay_s=room.hidden_s)
    why = _SQS_LIMIT if room.fifo else f"{_SQS_LIMIT}; {_NOT_OURS}"
    note = "; ".join(filter(None, (action.note, f"{action.delay_s} s were wanted: {why}")))
    return replace(action, delay_s=room.hidden_s, note=note)


def _is_worn_out(attempt: Attempt) -> bool:
    """Return True if the next delivery would no longer be run. The one after that would be SQS's
    own redrive, which gives no reason, so the message is parked before."""
    return attempt.receives >= attempt.receive_limit - 1


def _letter(reason: Reason, outcome: Outcome) -> DeadLetter:
    """Return a dead letter with the error, or the words, that the outcome gives."""
    error_type, text = "", ""
    match outcome:
        case Failed(error=error, message=text):
            error_type = type_of(error)
        case Deferred(reason=text) | Interrupted(reason=text) | Unstarted(reason=text):
            pass
        case Crashed(detail=text) | Unrunnable(detail=text):
            pass
    return DeadLetter(reason=reason, error_type=error_type, error_message=text)


def _decided(outcome: Outcome, attempt: Attempt, policy: Retry) -> Action:
    match outcome:
        case Done() | Discarded() | Dropped() | Cancelled():
            return _ACK
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
        case Unrunnable(reason=reason):
            tried_enough = attempt.known and attempt.number >= policy.max_attempts
            if tried_enough or _is_worn_out(attempt):
                return _letter(reason, outcome)
            return _backed_off(policy, attempt.number, attempt)
        case _:
            assert_never(outcome)


def _put_off(outcome: Deferred | Unstarted, attempt: Attempt) -> Action:
    if not outcome.after_s <= LONGEST_WAIT_S:  # NaN included
        asked = f"it asked to run again in {outcome.after_s:,.0f} s, which is over a year"
        said = ": ".join(filter(None, (asked, outcome.reason)))
        return _letter(Reason.WAIT_TOO_LONG, replace(outcome, reason=said))
    if isinstance(outcome, Deferred) and _is_worn_out(attempt):
        return _letter(Reason.DEFERRED_TOO_OFTEN, outcome)
    return Release(delay_s=math.ceil(max(0.0, outcome.after_s)))


def _after_failure(failed: Failed, attempt: Attempt, policy: Retry) -> Action:
    if reason := _final(failed.error, attempt, policy):
        return _letter(reason, failed)
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
    fault = ""
    try:
        delay_s = _delay_s(policy, number, attempt, failed)
    except SettingsInvalid as error:
        # A custom backoff is the user's code. Its fault must not prevent the settlement.
        delay_s, fault = _delay_s(DEFAULT_RETRY, number, attempt, failed), str(error)
    if not attempt.known and attempt.number >= attempt.max_attempts:
        delay_s = max(delay_s, round(blind_s(attempt)))
    return RetryAfter(delay_s=delay_s, backoff_fault=fault)


def _delay_s(policy: Retry, number: int, attempt: Attempt, failed: Failed | None) -> int:
    asked_s = None if failed is None else retry_after_s(failed.error, failed.at)
    rng = job_rng(attempt.job_id)
    return retry_delay_s(
        policy, number, rng, asked_s=asked_s, backlog=attempt.backlog, failed=attempt.failed
    )


def blind_s(attempt: Attempt) -> float:
    """Return the seconds until the next delivery of a job whose attempts may be used up."""
    return _BLIND.delay_s(min(attempt.receives, _BLIND_STEPS), job_rng(attempt.job_id))
