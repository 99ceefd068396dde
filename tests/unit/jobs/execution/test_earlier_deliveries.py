"""The outcomes of a message's earlier deliveries, read from immutable items in any order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.core.ports.table import Item
from headgate.jobs.execution.earlier_deliveries import History, Past, UnendedStart
from headgate.jobs.execution.outcome import LastFailure, Reason
from headgate.jobs.records.items import Mark, partition
from headgate.jobs.records.lives import Fate
from headgate.jobs.records.pausing.returns import is_told
from tests.support.records import mark

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
WINDOW = timedelta(minutes=5)
JOB = "0196a2b4-0000-7000-8000-000000000001"
MESSAGE = "m-1"

ENDS = [Mark.FAILED, Mark.CRASHED, Mark.DEFERRED, Mark.RELEASED, Mark.INTERRUPTED]


def item(
    receive: int, kind: Mark, *, at: datetime = NOW, message: str = MESSAGE, **data: Any
) -> Item:
    return mark(JOB, message, receive, kind, at, **data)


def history(
    items: list[Item],
    receive: int,
    fate: Fate = Fate.DIED,
    silence: Fate | None = Fate.DIED,
) -> History:
    """Return the history as seen by a worker; by default all other workers are dead."""
    past = Past(items, MESSAGE, receive)
    return past.history(lambda _: fate, silence, now=NOW, window=WINDOW)


def test_a_first_delivery_has_no_past() -> None:
    assert history([], 1) == History()
    assert history([], 1).number(used=0) == 1


def test_attempts_are_failures_crashes_and_those_of_earlier_messages() -> None:
    items = [item(1, Mark.FAILED), item(2, Mark.STARTED), item(2, Mark.CRASHED)]
    assert history(items, 3).number(used=4) == 4 + 2 + 1


@pytest.mark.parametrize("kind", [Mark.DEFERRED, Mark.RELEASED])
def test_deferrals_and_releases_are_no_attempts(kind: Mark) -> None:
    items = [item(receive, kind) for receive in range(1, 20)]
    assert history(items, 20) == History()


@pytest.mark.parametrize(
    ("marks", "begun"),
    [
        ([], False),
        ([item(1, Mark.RELEASED)], False),
        ([item(1, Mark.STARTED), item(1, Mark.RELEASED)], False),
        ([item(1, Mark.STARTED), item(1, Mark.DEFERRED)], False),
        ([item(1, Mark.UNRUNNABLE)], False),
        ([item(1, Mark.STARTED), item(1, Mark.DROPPED)], False),
        ([item(1, Mark.INTERRUPTED)], True),
        ([item(1, Mark.STARTED), item(1, Mark.DEFERRED, ran_s=0.0)], True),
        ([item(1, Mark.STARTED)], True),
        ([item(1, Mark.FAILED)], True),
        ([item(1, Mark.CRASHED)], True),
        ([item(1, Mark.COMPLETED, ran_s=2.5)], True),
    ],
)
def test_a_job_has_begun_if_its_handler_was_called_however_that_ended(
    marks: list[Item], *, begun: bool
) -> None:
    assert history([*marks, item(2, Mark.RELEASED)], 3, Fate.LIVED, None).begun is begun


def test_an_interrupted_run_is_no_attempt_and_no_crash() -> None:
    items = [item(1, Mark.STARTED), item(1, Mark.INTERRUPTED)]
    assert history(items, 2) == History(halted=1)
    assert history([*items, item(1, Mark.CRASHED)], 2).crashes == 0, "its worker was slow, not dead"


def test_a_silent_first_delivery_is_a_crash_only_if_a_worker_died_then() -> None:
    assert history([], 2) == History(crashes=1, recent_crashes=1, found=(1,))
    assert history([], 2, silence=Fate.LIVED) == History(unexplained=1)
    assert history([], 2, silence=Fate.OPEN) == History(suspicions=1)


def test_where_deliveries_may_come_to_nobody_silence_says_nothing() -> None:
    assert history([], 50, silence=None) == History()


@pytest.mark.parametrize(
    ("fate", "expected"),
    [
        (Fate.DIED, History(failures=1, crashes=1, recent_crashes=1, found=(2,))),
        (Fate.LIVED, History(failures=1, doubts=1, unexplained=1)),
        (Fate.OPEN, History(failures=1, doubts=1, suspicions=1)),
    ],
)
def test_a_start_without_an_end_is_judged_by_its_workers_life(
    fate: Fate, expected: History
) -> None:
    found = history([item(1, Mark.FAILED, error_type=""), item(2, Mark.STARTED)], 3, fate)
    assert found.number(0) == 3
    assert found == History(
        **{name: getattr(expected, name) for name in expected.__slots__}
        | {"last_failure": LastFailure(error_type="", error_message="")}
    )


def test_a_later_delivery_was_a_crash_only_if_it_had_been_started() -> None:
    items = [item(1, Mark.FAILED), item(2, Mark.STARTED)]
    found = history(items, 4)  # the third waited in a worker that died
    assert (found.found, found.unexplained) == ((2,), 1)


def test_a_crash_is_found_once() -> None:
    found = history([], 2)
    written = [item(receive, Mark.CRASHED) for receive in found.found]
    assert history(written, 2) == History(crashes=1, recent_crashes=1)


def test_a_crash_of_long_ago_is_an_attempt_but_not_a_recent_one() -> None:
    old = item(1, Mark.CRASHED, at=NOW - WINDOW - timedelta(seconds=1))
    edge = item(2, Mark.CRASHED, at=NOW - WINDOW)
    assert history([old, edge], 3) == History(crashes=2, recent_crashes=1)


def test_a_failed_delivery_also_recorded_as_a_crash_is_one_attempt() -> None:
    """Its worker was slow to write, not dead."""
    items = [item(1, Mark.STARTED), item(1, Mark.CRASHED), item(1, Mark.FAILED, error_type="")]
    found = history(items, 2)
    assert (found.number(0), found.crashes, found.recent_crashes) == (2, 0, 0)


@pytest.mark.parametrize(
    ("end", "crashes"),
    [(Mark.RELEASED, 0), (Mark.DEFERRED, 0), (Mark.QUARANTINED, 1), (Mark.DEAD, 1)],
)
def test_an_end_that_its_worker_wrote_takes_a_crash_back(end: Mark, crashes: int) -> None:
    found = history([item(1, Mark.STARTED), item(1, Mark.CRASHED), item(1, end)], 2)
    assert (found.crashes, found.recent_crashes) == (crashes, crashes)


def test_items_of_another_message_of_the_same_job_are_left_out() -> None:
    other = item(1, Mark.FAILED, message="m-2")
    assert history([item(1, Mark.DEFERRED), other], 2) == History()


@pytest.mark.parametrize(
    "strange",
    [
        Item(pk=partition(JOB), sk=f"run#{MESSAGE}#00001#celebrated", data={}),
        Item(pk=partition(JOB), sk=f"run#{MESSAGE}#first#failed", data={"at": NOW.isoformat()}),
        Item(pk=partition(JOB), sk=f"run#{MESSAGE}#00001#crashed", data={}),
        Item(pk=partition(JOB), sk=f"run#{MESSAGE}#00001#crashed", data={"at": "yesterday"}),
        Item(pk=partition(JOB), sk=f"run#{MESSAGE}#00001#crashed", data={"at": 7}),
        Item(pk=partition(JOB), sk=f"run#{MESSAGE}#00001", data={"at": "2026-05-04"}),
    ],
)
def test_what_can_not_be_read_about_a_delivery_is_ignored(strange: Item) -> None:
    found = history([strange, item(1, Mark.FAILED)], 2)
    assert (found.failures, found.crashes) == (1, 0)


def test_a_release_because_of_a_pause_explains_the_returns_that_are_not_told() -> None:
    told = [item(receive, Mark.RELEASED, paused=True) for receive in (1, 2, 4, 8, 16)]
    assert history(told, 24) == History()
    assert history(told, 25).unexplained == 1  # of the 24th a pause would be told
    assert history(told, 31).unexplained == 7
    assert history([*told, item(24, Mark.FAILED)], 31).unexplained == 6
    other = [item(1, Mark.RELEASED), item(2, Mark.RELEASED), item(4, Mark.RELEASED, paused="yes")]
    assert history(other, 8).unexplained == 4


def test_whatever_a_pause_lasts_all_its_returns_are_explained() -> None:
    for receive in range(2, 1_000, 7):
        told = [item(n, Mark.RELEASED, paused=True) for n in range(1, receive) if is_told(n)]
        assert history(told, receive) == History()


def test_a_first_delivery_that_nothing_explains_is_a_crash_though_a_pause_followed() -> None:
    found = history([item(2, Mark.RELEASED, paused=True)], 4)
    assert (found.crashes, found.unexplained) == (1, 0)


def test_the_last_failure_carries_its_error_and_whether_it_is_final() -> None:
    items = [
        item(1, Mark.FAILED, error_type="KeyError", error_message="a"),
        item(2, Mark.FAILED, error_type="CardError", error_message="b", final="permanent-error"),
        item(3, Mark.RELEASED),
    ]
    assert history(items, 4).last_failure == LastFailure(
        error_type="CardError", error_message="b", final=Reason.PERMANENT_ERROR
    )


def test_a_crash_tells_where_its_job_was_to_go() -> None:
    killer = item(1, Mark.CRASHED, detail="killed by signal 9", final="quarantined")
    assert history([killer], 2).fatal_crash == "killed by signal 9"
    overdue = item(1, Mark.CRASHED, detail="killed by signal 9", final="wait-too-long")
    found = history([overdue], 2)
    assert (found.fatal_crash, found.last_failure) == (
        None,
        LastFailure(error_type="", error_message="killed by signal 9", final=Reason.WAIT_TOO_LONG),
    )
    again = item(1, Mark.CRASHED, detail="killed by signal 9")
    assert history([again], 2) == History(crashes=1, recent_crashes=1)


def test_a_reason_of_a_later_version_is_none_that_this_one_decided() -> None:
    found = history([item(1, Mark.FAILED, final="out-of-cheese")], 2).last_failure
    assert found == LastFailure(error_type="", error_message="")


def test_a_start_names_its_worker_and_what_a_later_delivery_saw_of_it() -> None:
    until = NOW + timedelta(seconds=30)
    items = [
        item(1, Mark.STARTED, until=until.isoformat()),
        item(2, Mark.RELEASED),
        item(3, Mark.DEFERRED, beats={"worker-1": 7, "worker-2": 1}),
        item(4, Mark.DEFERRED, beats={"worker-1": 9}),
        item(5, Mark.STARTED, until="never", beats="none"),
    ]
    assert Past(items, MESSAGE, 6).starts == (
        UnendedStart(receive=1, worker="worker-1", until=until, seen=7),
        UnendedStart(receive=5, worker="worker-1"),
    )


def test_a_worker_that_recorded_a_later_delivery_was_alive() -> None:
    items = [item(1, Mark.FAILED), item(3, Mark.CRASHED), item(4, Mark.STARTED)]
    assert Past(items[:1], MESSAGE, 3).survivors == frozenset()
    assert Past(items, MESSAGE, 5).survivors == {"worker-1"}


@pytest.mark.parametrize(
    ("items", "receive", "unended"),
    [
        ([], 1, ()),
        ([], 2, (1,)),
        ([item(2, Mark.STARTED)], 4, (1, 2)),
        ([item(1, Mark.STARTED), item(2, Mark.STARTED), item(2, Mark.FAILED)], 3, (1,)),
    ],
)
def test_a_first_or_begun_delivery_without_a_record_has_no_end(
    items: list[Item], receive: int, unended: tuple[int, ...]
) -> None:
    assert Past(items, MESSAGE, receive).unended == unended


@pytest.mark.parametrize(
    ("items", "receive", "clear"),
    [
        ([], 1, True),
        ([], 2, False),
        ([item(1, Mark.FAILED)], 3, True),
        ([item(1, Mark.STARTED)], 2, False),
        ([item(1, Mark.STARTED), item(1, Mark.RELEASED)], 2, True),
    ],
)
def test_no_life_has_to_be_known_where_every_delivery_is_explained(
    items: list[Item], receive: int, clear: bool
) -> None:
    assert Past(items, MESSAGE, receive).is_clear is clear


@given(
    st.lists(st.sampled_from([None, *ENDS]), max_size=5).flatmap(
        lambda ends: st.tuples(st.just(ends), st.permutations(_items_of(ends)))
    ),
    st.integers(1, 3),
)
def test_order_and_duplicates_change_nothing(
    case: tuple[list[Mark | None], list[Item]], copies: int
) -> None:
    ends, items = case
    receive = len(ends) + 1
    assert history(items * copies, receive) == history(_items_of(ends), receive)


@given(st.lists(st.sampled_from([None, *ENDS]), max_size=8), st.sampled_from(Fate))
def test_every_delivery_is_a_failure_a_crash_a_doubt_or_no_attempt(
    ends: list[Mark | None], fate: Fate
) -> None:
    found = history(_items_of(ends), len(ends) + 1, fate, fate)
    silent = ends.count(None)
    assert found.failures == ends.count(Mark.FAILED)
    assert found.crashes == ends.count(Mark.CRASHED) + (silent if fate is Fate.DIED else 0)
    assert found.suspicions == (silent if fate is Fate.OPEN else 0)
    assert found.unexplained == (silent if fate is Fate.LIVED else 0)
    died = [receive for receive, end in enumerate(ends, start=1) if end is None]
    assert found.found == (tuple(died) if fate is Fate.DIED else ())


def test_a_lost_write_leaves_the_number_of_attempts_right() -> None:
    whole = _items_of([Mark.FAILED, Mark.FAILED])
    for kept in permutations(whole, len(whole) - 1):
        assert history(list(kept), 3).number(used=0) == 3


def _items_of(ends: list[Mark | None]) -> list[Item]:
    """Return workers' items about deliveries that ended so; None is a delivery without a mark."""
    items = [item(receive, Mark.STARTED) for receive in range(2, len(ends) + 1)]
    return items + [item(receive, end) for receive, end in enumerate(ends, start=1) if end]
