"""What a message's earlier deliveries came to, told from immutable items in any order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import App
from jobs.errors import ConfigurationError
from jobs.ports import Item
from jobs.records import (
    SHARDS,
    History,
    Mark,
    RecordsLevel,
    keeps,
    list_name,
    partition,
    read_history,
)
from jobs.retention import Keep
from tests.support.records import mark, scribe

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
WINDOW = timedelta(minutes=5)
JOB = "0196a2b4-0000-7000-8000-000000000001"
MESSAGE = "m-1"

ENDS = [Mark.FAILED, Mark.CRASHED, Mark.DEFERRED, Mark.RELEASED]


def item(receive: int, kind: Mark, *, at: datetime = NOW, message: str = MESSAGE) -> Item:
    return mark(JOB, message, receive, kind, at)


def history(items: list[Item], receive: int) -> History:
    return read_history(items, MESSAGE, receive, now=NOW, window=WINDOW)


def test_a_first_delivery_has_no_past() -> None:
    assert history([], 1) == History()
    assert history([], 1).number(used=0) == 1


def test_attempts_are_failures_and_crashes_and_what_was_used_under_earlier_messages() -> None:
    items = [item(1, Mark.FAILED), item(2, Mark.STARTED), item(2, Mark.CRASHED)]
    assert history(items, 3).number(used=4) == 4 + 2 + 1


@pytest.mark.parametrize("kind", [Mark.DEFERRED, Mark.RELEASED])
def test_deferrals_and_releases_are_no_attempts(kind: Mark) -> None:
    items = [item(receive, kind) for receive in range(1, 20)]
    assert history(items, 20).number(used=0) == 1


def test_a_first_delivery_that_nothing_explains_was_a_crash() -> None:
    assert history([], 2) == History(crashes=1, recent_crashes=1, unexplained=(1,))


def test_a_later_delivery_was_a_crash_only_if_it_had_been_started() -> None:
    items = [item(1, Mark.FAILED), item(2, Mark.STARTED)]
    assert history(items, 4).unexplained == (2,)  # the third waited in a worker that died


def test_a_crash_is_found_once() -> None:
    found = history([], 2)
    written = [item(receive, Mark.CRASHED) for receive in found.unexplained]
    assert history(written, 2) == History(crashes=1, recent_crashes=1)


def test_a_crash_of_long_ago_is_an_attempt_but_not_a_recent_one() -> None:
    old = item(1, Mark.CRASHED, at=NOW - WINDOW - timedelta(seconds=1))
    edge = item(2, Mark.CRASHED, at=NOW - WINDOW)
    assert history([old, edge], 3) == History(crashes=2, recent_crashes=1)


def test_items_of_another_message_of_the_same_job_are_left_out() -> None:
    other = item(1, Mark.FAILED, message="m-2")
    assert history([item(1, Mark.DEFERRED), other], 2) == History()


def test_what_later_versions_write_about_a_delivery_is_ignored() -> None:
    later = Item(pk=partition(JOB), sk=f"run#{MESSAGE}#00001#celebrated", data={})
    assert history([later, item(1, Mark.FAILED)], 2) == History(failures=1)


@pytest.mark.parametrize(
    ("kind", "receive", "days"),
    [
        (Mark.FAILED, 1, 30),
        (Mark.DEAD, 3, 30),
        (Mark.COMPLETED, 1, 7),
        (Mark.COMPLETED, 2, 30),  # else its failures would outlive how it ended
    ],
)
def test_items_are_kept_by_how_the_job_went(kind: Mark, receive: int, days: int) -> None:
    assert item(receive, kind).expires_at == NOW + timedelta(days=days)


def test_items_are_kept_as_long_as_is_asked() -> None:
    keep = Keep(timedelta(days=90), failed=timedelta(days=60))
    made = scribe(JOB, MESSAGE, keep=keep)
    assert made.mark(Mark.COMPLETED, NOW, {}).expires_at == NOW + timedelta(days=90)
    assert made.mark(Mark.FAILED, NOW, {}).expires_at == NOW + timedelta(days=60)


@pytest.mark.parametrize(
    ("kind", "level", "listed"),
    [
        (Mark.FAILED, "failures", "failed"),
        (Mark.DEAD, "failures", "dead"),
        (Mark.QUARANTINED, "outcomes", "quarantined"),
        (Mark.COMPLETED, "full", "recent"),
        (Mark.COMPLETED, "outcomes", None),
        (Mark.RELEASED, "full", None),
    ],
)
def test_what_people_look_for_is_listed_and_nothing_else(
    kind: Mark, level: RecordsLevel, listed: str | None
) -> None:
    line = scribe(JOB, MESSAGE, level=level).mark(kind, NOW, {"error_message": "no" * 300}).line
    if listed is None:
        assert line is None
        return
    assert line is not None
    assert line.list in [list_name(listed, "send-email", shard) for shard in range(SHARDS)]
    assert line.place == f"{NOW.isoformat()}#{JOB}"
    assert line.summary == {"error_message": "no" * 100}


def test_jobs_kept_by_count_are_listed_so_that_they_can_be_counted() -> None:
    made = scribe(JOB, MESSAGE, keep=Keep(last=100))
    assert made.mark(Mark.COMPLETED, NOW, {}).line is not None


def test_the_jobs_of_a_list_are_spread_over_its_parts() -> None:
    lines = [
        scribe(f"job-{number}", MESSAGE).mark(Mark.DEAD, NOW, {}).line for number in range(100)
    ]
    assert len({line.list for line in lines if line}) == SHARDS


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


@given(st.lists(st.sampled_from([None, *ENDS]), max_size=8))
def test_every_delivery_is_a_failure_a_crash_or_no_attempt(ends: list[Mark | None]) -> None:
    found = history(_items_of(ends), len(ends) + 1)
    assert found.failures == ends.count(Mark.FAILED)
    assert found.crashes == ends.count(Mark.CRASHED) + ends.count(None)
    assert found.unexplained == tuple(
        receive for receive, end in enumerate(ends, start=1) if end is None
    )


def test_a_lost_write_makes_of_a_failure_a_crash_so_that_attempts_stay_right() -> None:
    whole = _items_of([Mark.FAILED, Mark.FAILED])
    for kept in permutations(whole, len(whole) - 1):
        assert history(list(kept), 3).number(used=0) == 3


def test_each_level_writes_what_the_ones_below_it_do() -> None:
    levels: list[RecordsLevel] = ["off", "failures", "outcomes", "full"]
    for height, level in enumerate(levels):
        assert [keeps(level, least) for least in levels] == [low <= height for low in range(4)]


def test_a_type_says_what_is_kept_of_it_and_else_its_app_does() -> None:
    app = App("shop", records="full", keep=timedelta(days=1))
    plain = app.define("plain", dict)
    own = app.define("own", dict, records="off", keep=Keep(last=10))
    none = app.define("none", dict, keep=0)
    assert (app.records_of(plain), app.keep_of(plain)) == ("full", Keep(timedelta(days=1)))
    assert (app.records_of(own), app.keep_of(own)) == ("off", Keep(last=10))
    assert app.keep_of(none).completed == timedelta(0)
    assert App("shop").records == "outcomes"


def test_an_app_keeps_records_if_any_of_its_types_does() -> None:
    app = App("shop", records="off")
    app.define("plain", dict)
    assert not app.keeps_records
    app.define("own", dict, records="failures")
    assert app.keeps_records


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: App("shop", records="everything"), "one of full, outcomes, failures, off"),  # type: ignore[arg-type]  # the point
        (lambda: App("shop", keep="a week"), "keep must be a timedelta, a Keep or 0"),  # type: ignore[arg-type]  # the point
        (lambda: App("shop", keep=timedelta(days=-1)), "completed=...\\) must be a timedelta of 0"),
        (lambda: Keep(failed=timedelta(0)), "must be positive"),
        (lambda: Keep(last=0), "between 1 and 1000"),
    ],
)
def test_what_can_not_be_kept_is_refused(declare: Callable[[], object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        declare()


def _items_of(ends: list[Mark | None]) -> list[Item]:
    """What workers write about deliveries that ended so; None for a process that died."""
    items = [item(receive, Mark.STARTED) for receive in range(2, len(ends) + 1)]
    return items + [item(receive, end) for receive, end in enumerate(ends, start=1) if end]
