"""The items written about jobs: contents, retention, and listing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headgate import App
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.retention import Keep, RecordsLevel
from headgate.jobs.definitions.policies import keep_of, keeps_records, records_of
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.records.items import SHARDS, Mark, keeps, list_name
from tests.support.records import mark, scribe

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
JOB = "0196a2b4-0000-7000-8000-000000000001"
MESSAGE = "m-1"
DONE = (Mark.COMPLETED, Mark.DISCARDED, Mark.DROPPED)


def item(receive: int, kind: Mark, *, at: datetime = NOW, message: str = MESSAGE) -> Item:
    return mark(JOB, message, receive, kind, at)


@pytest.mark.parametrize(
    ("kind", "receive", "days"),
    [
        (Mark.FAILED, 1, 30),
        (Mark.DEAD, 3, 30),
        (Mark.COMPLETED, 1, 7),
        (Mark.COMPLETED, 2, 30),  # otherwise its failures would outlive its outcome
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
    ("kind", "receive", "kept"),
    [
        *((kind, 1, timedelta(days=4, hours=12)) for kind in Mark if kind not in DONE),
        *((kind, 1, timedelta(minutes=10)) for kind in DONE),
        *((kind, 2, timedelta(days=4, hours=12)) for kind in DONE),
    ],
)
def test_attempt_marks_are_kept_while_the_message_may_be_delivered(
    kind: Mark, receive: int, kept: timedelta
) -> None:
    keep = Keep(timedelta(minutes=10), failed=timedelta(minutes=5))
    made = scribe(JOB, MESSAGE, receive, keep=keep).mark(kind, NOW, {})
    assert made.expires_at == NOW + kept


@pytest.mark.parametrize(
    ("kind", "level", "listed"),
    [
        (Mark.FAILED, "failures", "failed"),
        (Mark.DEAD, "failures", "dead"),
        (Mark.QUARANTINED, "outcomes", "quarantined"),
        (Mark.COMPLETED, "full", "recent"),
        (Mark.COMPLETED, "outcomes", None),
        (Mark.CRASHED, "failures", "failed"),
        (Mark.CANCELLED, "failures", "cancelled"),
        (Mark.DISCARDED, "full", "discarded"),
        (Mark.DISCARDED, "outcomes", None),
        (Mark.DROPPED, "full", "dropped"),
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
    assert line.summary == {"error_message": "no" * 100, "queue": "mail"}


@pytest.mark.parametrize("kind", [Mark.COMPLETED, Mark.DISCARDED, Mark.DROPPED])
@pytest.mark.parametrize(("attempt", "has_died"), [(2, False), (1, True)])
def test_a_job_that_was_listed_before_is_listed_when_it_ends_well(
    kind: Mark, attempt: int, *, has_died: bool
) -> None:
    made = replace(scribe(JOB, MESSAGE, 2), has_died=has_died)
    assert made.mark(kind, NOW, {"attempt": attempt}).line is not None
    assert scribe(JOB, MESSAGE, 2).mark(kind, NOW, {"attempt": 1}).line is None


def test_jobs_kept_by_count_are_listed_so_that_they_can_be_counted() -> None:
    made = scribe(JOB, MESSAGE, keep=Keep(last=100))
    assert made.mark(Mark.COMPLETED, NOW, {}).line is not None


def test_the_jobs_of_a_list_are_spread_over_its_parts() -> None:
    lines = [
        scribe(f"job-{number}", MESSAGE).mark(Mark.DEAD, NOW, {}).line for number in range(100)
    ]
    assert len({line.list for line in lines if line}) == SHARDS


def test_each_level_writes_what_the_ones_below_it_do() -> None:
    levels: list[RecordsLevel] = ["off", "failures", "outcomes", "full"]
    for height, level in enumerate(levels):
        assert [keeps(level, least) for least in levels] == [low <= height for low in range(4)]


def test_a_type_says_what_is_kept_of_it_and_else_its_app_does() -> None:
    app = App("shop", records="full", keep=timedelta(days=1))
    plain = app.define("plain", dict)
    own = app.define("own", dict, records="off", keep=Keep(last=10))
    none = app.define("none", dict, keep=0)
    assert (records_of(app, plain), keep_of(app, plain)) == ("full", Keep(timedelta(days=1)))
    assert (records_of(app, own), keep_of(app, own)) == ("off", Keep(last=10))
    assert keep_of(app, none).completed == timedelta(0)
    assert App("shop").records == "outcomes"


def test_an_app_keeps_records_if_any_of_its_types_does() -> None:
    app = App("shop", records="off")
    app.define("plain", dict)
    assert not keeps_records(app)
    app.define("own", dict, records="failures")
    assert keeps_records(app)


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: App("shop", records="everything"), "one of full, outcomes, failures, off"),  # type: ignore[arg-type]  # the point
        (lambda: App("shop", keep="a week"), "keep must be a timedelta or a number"),  # type: ignore[arg-type]  # the point
        (lambda: App("shop", keep=timedelta(days=-1)), "keep must not be negative"),
        (lambda: Keep(failed=timedelta(0)), "must be positive"),
        (lambda: Keep(last=0), "between 1 and 1000"),
        (lambda: Keep(last_failed=0), r"last_failed=...\) must lie between 1 and 1000"),
        (lambda: Keep(last_failed=True), "last_failed"),
        (lambda: Keep(last_failed=1_001), "between 1 and 1000, got 1001"),
    ],
)
def test_what_can_not_be_kept_is_refused(declare: Callable[[], object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        declare()


@pytest.mark.parametrize("days", [7, 60])
def test_a_start_does_not_outlive_the_completion_that_followed(days: int) -> None:
    made = scribe(JOB, MESSAGE, keep=Keep(completed=timedelta(days=days)))
    started, completed = (made.mark(kind, NOW, {}) for kind in (Mark.STARTED, Mark.COMPLETED))
    assert started.expires_at == completed.expires_at
