"""The verdict table: every outcome, at every attempt, gives exactly one action."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Backoff, BackoffContext, Retry
from headgate.jobs.errors import JobTimeout
from headgate.jobs.execution.foregone import foregone
from headgate.jobs.execution.outcome import (
    Attempt,
    Cancelled,
    Crashed,
    Deferred,
    Discarded,
    Done,
    DropKind,
    Dropped,
    Failed,
    Interrupted,
    LastFailure,
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
from headgate.jobs.execution.settling.settlement import (
    BudgetAnswer,
    Exhausted,
    Granted,
    Room,
    settle,
)
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.retry.backoff import job_rng
from headgate.jobs.retry.signals import Discard, DoNotRetry, RetryLater
from headgate.jobs.values.texts import text_of

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_YEAR_S = 31_536_000
_POLICY = Retry(
    max_attempts=3, backoff=Backoff.fixed(7), never_on=(ZeroDivisionError,), retry_on=(KeyError,)
)


class _Busy(Exception):
    retry_after = 100


def _attempt(number: int = 1, **changes: Any) -> Attempt:
    fields: dict[str, Any] = {
        "job_id": "job",
        "number": number,
        "max_attempts": 3,
        "receives": number,
    }
    return Attempt(**(fields | changes))


def _failed(error: BaseException) -> Failed:
    return Failed(error=error, at=_NOW)


def _dead(reason: Reason, error: BaseException) -> DeadLetter:
    return DeadLetter(reason=reason, error_type=type(error).__name__, error_message=str(error))


_ERROR = ConnectionError("refused")
_FATAL = ZeroDivisionError("by zero")
_NEVER = DoNotRetry("closed")


def _too_often(message: str) -> DeadLetter:
    return DeadLetter(reason=Reason.RECEIVED_TOO_OFTEN, error_type="", error_message=message)


TABLE: list[tuple[Outcome, Attempt, Action]] = [
    (Done(), _attempt(), Ack()),
    (Done(), _attempt(99), Ack()),
    (Discarded(reason="done before"), _attempt(3), Ack()),
    (Dropped(kind=DropKind.REPLACED, reason="replaced by the job x"), _attempt(2), Ack()),
    (Cancelled(reason="a mistake"), _attempt(1), Ack()),
    (Cancelled(reason="a mistake"), _attempt(3), Ack()),
    (_failed(_ERROR), _attempt(1, lives_s=6), RetryAfter(delay_s=7, way=Way.ANEW)),
    (_failed(_ERROR), _attempt(1, lives_s=7, renewable=False), RetryAfter(delay_s=7)),
    (
        _failed(_ERROR),
        _attempt(1, lives_s=6, renewable=False),
        _dead(Reason.WAIT_TOO_LONG, _ERROR),
    ),
    (
        Deferred(after_s=10 * 86_400, reason="full"),
        _attempt(1, lives_s=43_200, renewable=False),
        Release(delay_s=43_200),
    ),
    (
        Deferred(after_s=10 * 86_400, reason="full"),
        _attempt(1, lives_s=43_199, renewable=False),
        DeadLetter(reason=Reason.WAIT_TOO_LONG, error_type="", error_message="full"),
    ),
    (
        Interrupted(reason="shutdown"),
        _attempt(1, lives_s=-1, renewable=False),
        DeadLetter(reason=Reason.WAIT_TOO_LONG, error_type="", error_message="shutdown"),
    ),
    (
        Unrunnable(reason=Reason.UNKNOWN_TYPE, detail="no handler"),
        _attempt(1, lives_s=6, renewable=False),
        DeadLetter(reason=Reason.UNKNOWN_TYPE, error_type="", error_message="no handler"),
    ),
    (
        Crashed(detail="killed"),
        _attempt(1, crashes=1, lives_s=6, renewable=False),
        DeadLetter(reason=Reason.WAIT_TOO_LONG, error_type="", error_message="killed"),
    ),
    (Unstarted(after_s=6.5, reason="full"), _attempt(1), Release(delay_s=7)),
    (Unstarted(reason="full"), _attempt(1, receives=999), Release()),
    (Unstarted(reason="full"), _attempt(1, lives_s=-1), Release(way=Way.ANEW)),
    (
        Unstarted(reason="full"),
        _attempt(1, lives_s=-1, renewable=False),
        DeadLetter(reason=Reason.WAIT_TOO_LONG, error_type="", error_message="full"),
    ),
    # A message that SQS would move away next and no other can replace is parked with its reason.
    (
        Unstarted(reason="full"),
        _attempt(1, receives=998, renewable=False),
        Release(),
    ),
    (
        Unstarted(after_s=6.5, reason="full"),
        _attempt(1, receives=999, renewable=False),
        _too_often("full"),
    ),
    (
        Unstarted(reason="full"),
        _attempt(1, receives=1000, renewable=False),
        _too_often("full"),
    ),
    (
        Interrupted(reason="stop"),
        _attempt(1, receives=999, renewable=False),
        _too_often("stop"),
    ),
    (Interrupted(reason="stop"), _attempt(1, receives=999), Release()),
    (_failed(_ERROR), _attempt(1), RetryAfter(delay_s=7)),
    (_failed(_ERROR), _attempt(2), RetryAfter(delay_s=7)),
    (_failed(_ERROR), _attempt(3), _dead(Reason.ATTEMPTS_EXHAUSTED, _ERROR)),
    (_failed(_ERROR), _attempt(4), _dead(Reason.ATTEMPTS_EXHAUSTED, _ERROR)),
    (_failed(_ERROR), _attempt(9, max_attempts=10), RetryAfter(delay_s=7)),
    (_failed(_FATAL), _attempt(1), _dead(Reason.PERMANENT_ERROR, _FATAL)),
    (_failed(_FATAL), _attempt(3), _dead(Reason.PERMANENT_ERROR, _FATAL)),
    (_failed(_NEVER), _attempt(1), _dead(Reason.DO_NOT_RETRY, _NEVER)),
    (_failed(JobTimeout("t", 5)), _attempt(1), RetryAfter(delay_s=7)),
    (Deferred(after_s=0, reason=""), _attempt(), Release()),
    (Deferred(after_s=1.01, reason="busy"), _attempt(50), Release(delay_s=2)),
    (
        Deferred(after_s=_YEAR_S, reason=""),
        _attempt(),
        Release(delay_s=_YEAR_S, way=Way.ANEW),
    ),
    (
        Deferred(after_s=_YEAR_S + 1, reason="at last"),
        _attempt(),
        DeadLetter(
            reason=Reason.WAIT_TOO_LONG,
            error_type="",
            error_message="it asked to run again in 31,536,001 s, which is over a year: at last",
        ),
    ),
    (Deferred(after_s=5, reason=""), _attempt(receives=998), Release(delay_s=5)),
    (
        Deferred(after_s=5, reason="busy"),
        _attempt(receives=999),
        DeadLetter(reason=Reason.DEFERRED_TOO_OFTEN, error_type="", error_message="busy"),
    ),
    (Interrupted(reason="stop"), _attempt(3), Release()),
    (Crashed(detail="oom"), _attempt(1, crashes=1), RetryAfter(delay_s=7)),
    (Crashed(detail="oom"), _attempt(2, crashes=2), RetryAfter(delay_s=7)),
    (Crashed(detail="oom"), _attempt(3, crashes=3), Quarantine(detail="oom")),
    (Crashed(detail="oom"), _attempt(1, fatal_crash="oom"), Quarantine(detail="oom")),
    (Unrunnable(reason=Reason.UNREADABLE, detail="?"), _attempt(2), RetryAfter(delay_s=7)),
    (
        Unrunnable(reason=Reason.UNREADABLE, detail="?"),
        _attempt(3),
        DeadLetter(reason=Reason.UNREADABLE, error_type="", error_message="?"),
    ),
    (
        Unrunnable(reason=Reason.UNREADABLE, detail="?"),
        _attempt(2, receives=600),
        RetryAfter(delay_s=7),
    ),
    (
        Unrunnable(reason=Reason.UNREADABLE, detail="?"),
        _attempt(2, receives=999),
        DeadLetter(reason=Reason.UNREADABLE, error_type="", error_message="?"),
    ),
]


@pytest.mark.parametrize(
    ("after_s", "lives_s", "action"),
    [
        (300, 200.9, Release(delay_s=200)),
        (300, 1, Release(delay_s=1)),
        (300, 0.9, DeadLetter(reason=Reason.WAIT_TOO_LONG, error_type="", error_message="full")),
        (300, 300, Release(delay_s=300)),
        (0, 0.9, Release()),
        # A visibility timeout is at most 12 hours, and shows the message in time.
        (100_000, 50_000, Release(delay_s=43_200)),
    ],
)
def test_what_could_come_back_sooner_is_not_dead_lettered(
    after_s: float, lives_s: float, action: Action
) -> None:
    outcome = Unstarted(after_s=after_s, reason="full")
    assert settle(outcome, _attempt(1, lives_s=lives_s, renewable=False), _POLICY) == action


def test_what_goes_back_unstarted_at_the_last_delivery_is_not_left_to_sqs() -> None:
    last = _attempt(1, receives=1000, renewable=False)
    assert settle(Unstarted(reason="full"), last, _POLICY) == _too_often("full")


_BLIND = {"known": False, "receives": 9}

TABLE += [
    # A job out of attempts is parked with its own error.
    (
        Spent(reason=Reason.PERMANENT_ERROR, error_type="CardError", error_message="no"),
        _attempt(1),
        DeadLetter(reason=Reason.PERMANENT_ERROR, error_type="CardError", error_message="no"),
    ),
    # Nothing final depends on the count of deliveries: the policy's delay, or more.
    (_failed(_ERROR), _attempt(2, **_BLIND), RetryAfter(delay_s=7)),
    (_failed(_FATAL), _attempt(2, **_BLIND), _dead(Reason.PERMANENT_ERROR, _FATAL)),
    (_failed(_NEVER), _attempt(9, **_BLIND), _dead(Reason.DO_NOT_RETRY, _NEVER)),
    (Crashed(detail="oom"), _attempt(2, **_BLIND), RetryAfter(delay_s=7)),
    (Crashed(detail="oom"), _attempt(9, crashes=3, **_BLIND), Quarantine(detail="oom")),
    (Done(), _attempt(9, **_BLIND), Ack()),
]


@pytest.mark.parametrize(("outcome", "attempt", "action"), TABLE)
def test_each_outcome_has_the_action_that_the_table_says(
    outcome: Outcome, attempt: Attempt, action: Action
) -> None:
    assert settle(outcome, attempt, _POLICY) == action


@pytest.mark.parametrize("outcome", [_failed(_ERROR), Crashed(detail="oom")])
@pytest.mark.parametrize("number", [3, 4, 500])
def test_what_deliveries_alone_call_spent_is_put_off(outcome: Outcome, number: int) -> None:
    attempt = _attempt(number, known=False)
    action = settle(outcome, attempt, Retry(max_attempts=3, backoff=Backoff.fixed(0)))
    assert isinstance(action, RetryAfter)
    assert 3 <= action.delay_s <= 300


# --- where a job waits ---------------------------------------------------------------------------

_DAY_S, _HOUR_S = 86_400, 3_600
_SCHEDULES = Room(scheduled_s=math.inf)
_NONE = Room()
_PAYLOAD_APART = Room(hidden_s=0, scheduled_s=18 * _DAY_S)
_BOUND: dict[str, Any] = {"renewable": False, "lives_s": math.inf}


@pytest.mark.parametrize(
    ("wait_s", "changes", "room", "way"),
    [
        (0, {}, _NONE, Way.HIDDEN),
        (12 * _HOUR_S, {}, _SCHEDULES, Way.HIDDEN),
        (12 * _HOUR_S + 1, {}, _SCHEDULES, Way.SCHEDULED),
        (12 * _HOUR_S + 1, {}, _NONE, Way.ANEW),
        # The message does not live that long.
        (7_200, {"lives_s": 7_200}, _SCHEDULES, Way.HIDDEN),
        (7_200, {"lives_s": 7_199}, _SCHEDULES, Way.SCHEDULED),
        (7_200, {"lives_s": 7_199}, _NONE, Way.ANEW),
        (900, {"lives_s": 899}, _SCHEDULES, Way.ANEW),
        (901, {"lives_s": 899}, _SCHEDULES, Way.SCHEDULED),
        (0, {"lives_s": -1}, _SCHEDULES, Way.ANEW),
        # It was delivered too often.
        (5, {"receives": 899}, _SCHEDULES, Way.HIDDEN),
        (5, {"receives": 900}, _SCHEDULES, Way.ANEW),
        (901, {"receives": 900}, _SCHEDULES, Way.SCHEDULED),
        # Its payload would expire while a schedule holds it.
        (20 * _DAY_S, {}, _PAYLOAD_APART, Way.ANEW),
        (18 * _DAY_S, {}, _PAYLOAD_APART, Way.SCHEDULED),
        # It can't continue in another message.
        (20 * _DAY_S, _BOUND, _SCHEDULES, Way.HIDDEN),
        (5, _BOUND | {"receives": 998}, _SCHEDULES, Way.HIDDEN),
    ],
)
def test_a_job_waits_where_there_is_room(
    wait_s: int, changes: dict[str, Any], room: Room, way: Way
) -> None:
    attempt = _attempt(1, **({"receives": 1, "worn_at": 900, "lives_s": _DAY_S} | changes))
    action = settle(Deferred(after_s=wait_s, reason=""), attempt, _POLICY, room)
    assert isinstance(action, Release)
    assert action.way is way
    assert action.delay_s == (min(wait_s, room.hidden_s) if way is Way.HIDDEN else wait_s)


def test_a_refused_schedule_is_decided_like_a_missing_one() -> None:
    outcome, attempt = Deferred(after_s=20 * _DAY_S, reason=""), _attempt(1)
    held = Verdict(
        outcome=outcome,
        attempt=attempt,
        policy=_POLICY,
        room=_SCHEDULES,
        job_type="t",
        tell=lambda _action, _at: (),
    )
    refused = replace(held, room=replace(held.room, scheduled_s=0))
    assert held.action == Release(delay_s=20 * _DAY_S, way=Way.SCHEDULED)
    assert refused.action == settle(outcome, attempt, _POLICY)
    assert refused.action == Release(delay_s=20 * _DAY_S, way=Way.ANEW)


@pytest.mark.parametrize(
    ("fifo", "why"), [(True, ""), (False, "; only a message of Headgate's own can be sent anew")]
)
def test_a_wait_beyond_what_sqs_hides_is_cut_and_says_why(fifo: bool, why: str) -> None:
    policy = Retry(max_attempts=3, backoff=Backoff.fixed(_DAY_S))
    room = Room(hidden_s=40_000, scheduled_s=math.inf, fifo=fifo)
    action = settle(_failed(_ERROR), _attempt(1, renewable=False), policy, room)
    note = "86400 s were wanted: SQS hides a message for 12 hours since its receipt at most"
    assert action == RetryAfter(delay_s=40_000, note=note + why)


@pytest.mark.parametrize("after_s", [1_000, 40_000])
def test_an_unstarted_job_is_released_sooner_and_never_scheduled(after_s: int) -> None:
    outcome, worn = Unstarted(after_s=after_s), {"receives": 900, "worn_at": 900}
    hidden = settle(outcome, _attempt(1, lives_s=800.5), _POLICY, _SCHEDULES)
    anew = settle(outcome, _attempt(1, **worn), _POLICY, _SCHEDULES)
    assert hidden == Release(delay_s=800)
    assert anew == Release(delay_s=900, way=Way.ANEW)


def test_a_job_whose_handler_goes_on_shows_when_its_visibility_timeout_ends() -> None:
    room = Room(left_s=30)
    retried = settle(_failed(_ERROR), _attempt(1), _POLICY, room)
    assert retried == RetryAfter(delay_s=30, way=Way.LEFT)
    released = settle(Interrupted(reason="end"), _attempt(1), _POLICY, room)
    assert released == Release(delay_s=30, way=Way.LEFT)
    last = settle(_failed(_ERROR), _attempt(3), _POLICY, room)
    assert last == _dead(Reason.ATTEMPTS_EXHAUSTED, _ERROR)


# --- retry budgets -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (None, RetryAfter(delay_s=7)),
        (Granted(8, is_put_off=False), RetryAfter(delay_s=8)),
        (Granted(60, is_put_off=True), RetryAfter(delay_s=60, note="the retry budget is spent")),
        (Exhausted(), _dead(Reason.RETRY_BUDGET, _ERROR)),
    ],
)
def test_a_retry_comes_when_its_budget_says(answer: BudgetAnswer | None, action: Action) -> None:
    assert settle(_failed(_ERROR), _attempt(1), _POLICY, budget=answer) == action


def test_a_custom_backoffs_fault_is_said_though_the_budget_puts_the_retry_off() -> None:
    policy = Retry(backoff=Backoff.custom(_raises))
    budget = Granted(60, is_put_off=True)
    action = settle(_failed(_ERROR), _attempt(1), policy, budget=budget)
    assert isinstance(action, RetryAfter)
    assert (action.delay_s, action.note) == (60, "the retry budget is spent")
    assert "raised RuntimeError" in action.backoff_fault


def test_a_custom_backoff_without_a_failure_is_told_its_attempt_alone() -> None:
    policy = Retry(backoff=Backoff.custom(lambda failed: failed.attempt if not failed.id else 99))
    action = settle(_failed(_ERROR), _attempt(2), policy)
    assert action == RetryAfter(delay_s=2)


def test_a_retry_that_its_budget_puts_off_past_the_retention_is_dead_lettered() -> None:
    attempt = _attempt(1, lives_s=50, renewable=False)
    action = settle(_failed(_ERROR), attempt, _POLICY, budget=Granted(60, is_put_off=True))
    assert action == _dead(Reason.WAIT_TOO_LONG, _ERROR)
    anew = settle(
        _failed(_ERROR), _attempt(1, lives_s=50), _POLICY, budget=Granted(60, is_put_off=True)
    )
    assert anew == RetryAfter(delay_s=60, note="the retry budget is spent", way=Way.ANEW)


def test_a_retry_budget_has_no_say_in_what_is_no_retry() -> None:
    assert settle(Done(), _attempt(), _POLICY, budget=Exhausted()) == Ack()
    deferred = settle(Deferred(after_s=5, reason=""), _attempt(), _POLICY, budget=Exhausted())
    assert deferred == Release(delay_s=5)


# --- jobs that must not run ----------------------------------------------------------------------

_LAST = LastFailure(error_type="CardError", error_message="declined")
_LAST_SAID = {"error_type": "CardError", "error_message": "declined"}
_FINAL = LastFailure(error_type="CardError", error_message="declined", final=Reason.PERMANENT_ERROR)

FOREGONE: list[tuple[Attempt, Outcome | None]] = [
    (_attempt(1), None),
    (_attempt(3, failures=2, last_failure=_LAST), None),
    (
        _attempt(4, failures=3, last_failure=_LAST),
        Spent(reason=Reason.ATTEMPTS_EXHAUSTED, **_LAST_SAID),
    ),
    # Attempts used under earlier messages may have been crashes: this one has not failed.
    (_attempt(4, failures=3), None),
    (
        _attempt(2, failures=1, last_failure=_FINAL),
        Spent(reason=Reason.PERMANENT_ERROR, **_LAST_SAID),
    ),
    # Deliveries are not attempts where nothing is recorded.
    (_attempt(9), None),
    # A crash is not a failure: the limit on crashes alone applies.
    (_attempt(2, max_attempts=1, crashes=1, crashes_ever=1), None),
    (_attempt(4, crashes=2, crashes_ever=2, failures=1), None),
    (
        _attempt(4, crashes=3, crashes_ever=3),
        Crashed(detail="3 of its attempts ended with their worker"),
    ),
    (
        _attempt(9, max_attempts=9, crashes=3, crashes_ever=3, known=False),
        Crashed(detail="3 of its attempts ended with their worker"),
    ),
    # Crashes of long ago count once its attempts are used up.
    (_attempt(4, max_attempts=5, crashes_ever=3), None),
    (_attempt(4, crashes_ever=3), Crashed(detail="3 of its attempts ended with their worker")),
    (_attempt(4, failures=1, crashes_ever=2), None),
    # A job that was to be quarantined is not run, whatever the count is now.
    (_attempt(2, crashes_ever=1, fatal_crash="oom"), Crashed(detail="oom")),
    # A possible last crash is waited for.
    (_attempt(3, crashes=1, suspicions=1), None),
    (
        _attempt(4, crashes=1, suspicions=2),
        Deferred(after_s=10, reason="it may have killed its last worker"),
    ),
    # Where nothing is known, it is put off rather than run once too often.
    (_attempt(3, known=False), None),
    # The worker's own backstop, and SQS's.
    (_attempt(1, receives=120, unexplained=99), None),
    (
        _attempt(1, receives=120, unexplained=100),
        Spent(
            reason=Reason.RECEIVED_TOO_OFTEN,
            error_message="100 of its 120 deliveries are unexplained",
        ),
    ),
    (_attempt(1, receives=999), None),
    (
        _attempt(1, receives=1000),
        Spent(
            reason=Reason.RECEIVED_TOO_OFTEN,
            error_message="delivered 1000 times, SQS's maximum",
        ),
    ),
    (_attempt(14, backstop=15), None),
    (
        _attempt(15, backstop=15),
        Crashed(
            detail="delivered 15 times without a final outcome: it may kill the process that runs "
            "it"
        ),
    ),
]


@pytest.mark.parametrize(("attempt", "outcome"), FOREGONE)
def test_what_must_not_be_run_is_told_by_what_is_known(
    attempt: Attempt, outcome: Outcome | None
) -> None:
    assert foregone(attempt) == outcome


def test_a_job_whose_records_can_not_be_read_stays_away_for_longer_each_time() -> None:
    found = [foregone(_attempt(number, known=False)) for number in range(4, 60)]
    waits = [outcome.after_s for outcome in found if isinstance(outcome, Deferred)]
    assert len(waits) == len(found)
    assert waits[0] < 60
    assert all(150 <= wait <= 300 for wait in waits[6:])


@pytest.mark.parametrize(
    ("crashes", "suspicions", "limit", "suspect"),
    [
        *((0, 0, 3, False), (1, 0, 3, False), (2, 0, 3, True), (1, 1, 3, True), (0, 2, 3, True)),
        *((0, 0, 2, False), (0, 1, 2, True), (1, 0, 1, False)),
    ],
)
def test_a_job_is_a_suspect_that_may_be_one_crash_from_quarantine(
    crashes: int, suspicions: int, limit: int, *, suspect: bool
) -> None:
    attempt = _attempt(1, crashes=crashes, suspicions=suspicions, crash_limit=limit)
    assert attempt.suspect is suspect


def test_a_retry_after_is_kept_to_and_spread_by_at_most_a_fifth() -> None:
    action = settle(_failed(_Busy()), _attempt(), _POLICY)
    assert isinstance(action, RetryAfter)
    assert 100 <= action.delay_s <= 120


_ERRORS = st.sampled_from(
    [
        ValueError("no"),
        ConnectionError("refused"),
        TimeoutError(),
        KeyError("k"),
        ZeroDivisionError(),
        DoNotRetry("never"),
        SystemExit(1),
        _Busy(),
        JobTimeout("type", 3),
        ExceptionGroup("several", [ValueError("a"), ConnectionError("b")]),
        BaseExceptionGroup("several", [KeyboardInterrupt()]),
        # Signals that reach the verdict as errors, for example inside a group.
        RetryLater(timedelta(seconds=3)),
        Discard("no"),
    ]
)
_OUTCOMES = st.one_of(
    st.just(Done()),
    st.builds(Discarded, reason=st.text()),
    st.builds(Dropped, kind=st.sampled_from(DropKind), reason=st.text()),
    st.builds(Cancelled, reason=st.text()),
    st.builds(Failed, error=_ERRORS, at=st.just(_NOW)),
    st.builds(Deferred, after_s=st.floats(), reason=st.text()),
    st.builds(Interrupted, reason=st.text()),
    st.builds(Crashed, detail=st.text()),
    st.builds(Unrunnable, reason=st.sampled_from(Reason), detail=st.text()),
)
_ATTEMPTS = st.builds(
    Attempt,
    job_id=st.text(max_size=40),
    number=st.integers(1, 1100),
    max_attempts=st.integers(1, 1000),
    receives=st.integers(1, 1100),
    crashes=st.integers(0, 5),
    backlog=st.integers(-3, 10**7),
)


def _raises(_failed: BackoffContext) -> float:
    raise RuntimeError("a bug in the backoff")


_BACKOFFS = st.sampled_from(
    [
        Backoff.exponential(),
        Backoff.exponential(base=0.001, factor=1000, cap=31_000_000, jitter="decorrelated"),
        Backoff.exponential(jitter=1.0),
        Backoff.adaptive(),
        Backoff.steps(0, 0.4, 100_000, jitter="equal"),
        Backoff.fixed(0),
        Backoff.custom(lambda failed: failed.attempt / 3),
        Backoff.custom(lambda _: -1),
        Backoff.custom(lambda _: float("nan")),
        Backoff.custom(_raises),
    ]
)
_POLICIES = st.builds(
    Retry,
    max_attempts=st.integers(1, 1000),
    backoff=_BACKOFFS,
    never_on=st.sampled_from([(), (ZeroDivisionError,)]),
    unknown=st.sampled_from(["retry", "dead-letter"]),
)


@given(_OUTCOMES, _ATTEMPTS, _POLICIES)
def test_any_delivery_gets_one_action_and_no_rule_is_broken(
    outcome: Outcome, attempt: Attempt, policy: Retry
) -> None:
    action = settle(outcome, attempt, policy)
    assert isinstance(action, Ack) == isinstance(outcome, Done | Discarded | Dropped | Cancelled)
    if isinstance(action, RetryAfter | Release):
        assert isinstance(action.delay_s, int)
        assert action.delay_s >= 0
    if isinstance(outcome, Failed):
        assert isinstance(action, RetryAfter | DeadLetter)
        if attempt.number >= attempt.max_attempts:
            assert isinstance(action, DeadLetter)
    if isinstance(outcome, Unrunnable):
        near_the_end = attempt.receives >= attempt.receive_limit - 1
        tried_enough = attempt.number >= policy.max_attempts
        assert isinstance(action, DeadLetter) == (tried_enough or near_the_end)
    if isinstance(action, Quarantine):
        assert isinstance(outcome, Crashed)
    if isinstance(outcome, Deferred):
        too_often = attempt.receives >= attempt.receive_limit - 1
        too_long = not outcome.after_s <= _YEAR_S
        assert isinstance(action, DeadLetter if too_often or too_long else Release)
        assert not isinstance(action, Release) or action.delay_s >= outcome.after_s
    assert settle(outcome, attempt, policy) == action, "the same question has the same answer"


@given(st.integers(1, 50), st.text(max_size=30), _BACKOFFS)
def test_a_retrys_delay_is_the_policys_to_the_second(
    number: int, job_id: str, backoff: Backoff
) -> None:
    attempt = _attempt(number, max_attempts=1000, job_id=job_id)
    action = settle(_failed(_ERROR), attempt, Retry(max_attempts=1000, backoff=backoff))
    assert isinstance(action, RetryAfter)
    if not action.backoff_fault:
        assert action.delay_s == round(backoff.delay_s(number, job_rng(job_id)))


def test_an_error_without_a_text_still_has_one() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert text_of(Mute()) == "<ValueError in Mute.__str__>"
    assert text_of(KeyError("k")) == "'k'"
