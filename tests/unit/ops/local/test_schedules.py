"""The firing of schedules by the local AWS, and their input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.definitions.schedules.occurrences import occurrences
from headgate.ops.local import schedules
from headgate.ops.local.schedules import MiniStackChanged, next_time, with_context

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ARN = "arn:aws:scheduler:us-east-1:000000000000:schedule/shop/report"
KEY = ("000000000000", "us-east-1", "shop/report")

EXPRESSIONS = (
    "cron(30 2 * * ? *)",  # skipped and repeated by clocks in central Europe
    "cron(0 8 ? * MON-FRI *)",
    "cron(0/20 6-9 L * ? *)",
    "rate(1 minute)",
    "rate(90 minutes)",
    "rate(1 day)",
    "at(2026-03-29T02:30:00)",
    "at(2026-10-25T02:30:00)",
)


def stored(expression: str, **changes: Any) -> dict[str, Any]:
    """Return a schedule as MiniStack stores it."""
    return {
        "Arn": ARN,
        "ScheduleExpression": expression,
        "ScheduleExpressionTimezone": "UTC",
        "Target": {"Arn": "arn:aws:lambda:us-east-1:000000000000:function:f", "Input": "{}"},
        "State": "ENABLED",
        "ActionAfterCompletion": "NONE",
        "StartDate": None,
        "EndDate": None,
        "CreationDate": NOW.timestamp(),
        "LastModificationDate": NOW.timestamp(),
    } | changes


@given(
    expression=st.sampled_from(EXPRESSIONS),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]),
    since=st.datetimes(datetime(2026, 3, 1, 12), datetime(2027, 4, 1)),  # noqa: DTZ001 - UTC's
)
def test_a_schedule_is_due_when_the_sdk_says_so(
    expression: str, timezone: str, since: datetime
) -> None:
    since = since.replace(tzinfo=UTC)
    schedule = stored(expression, ScheduleExpressionTimezone=timezone, StartDate=NOW.timestamp())

    expected = occurrences(expression, timezone, since=since, start=NOW)

    assert next_time(schedule, since) == next(expected, None)


def test_a_rate_without_a_start_is_due_when_it_is_made_and_counts_from_there() -> None:
    made = NOW + timedelta(seconds=17)
    schedule = stored("rate(5 minutes)", CreationDate=made.timestamp())
    assert next_time(schedule, NOW) == made
    assert next_time(schedule, made + timedelta(seconds=1)) == made + timedelta(minutes=5)


def test_nothing_is_due_before_the_start_or_after_the_end() -> None:
    start, end = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
    schedule = stored("rate(1 hour)", StartDate=start.timestamp(), EndDate=end.isoformat())
    assert next_time(schedule, NOW) == start
    assert next_time(schedule, start + timedelta(seconds=1)) == end
    assert next_time(schedule, end + timedelta(seconds=1)) is None


@pytest.mark.parametrize(
    "unreadable",
    [
        stored("at(soon)"),
        stored("every now and then"),
        stored("cron(0 8 * * ? *)", ScheduleExpressionTimezone="Mars/Olympus"),
    ],
)
def test_a_schedule_that_can_not_be_read_is_never_due(unreadable: Mapping[str, Any]) -> None:
    assert next_time(unreadable, NOW) is None


def test_the_four_context_attributes_are_filled_in() -> None:
    names = ("schedule-arn", "scheduled-time", "execution-id", "attempt-number")
    text = json.dumps({name: f"<aws.scheduler.{name}>" for name in names} | {"other": "<aws.>"})
    due = datetime.fromisoformat("2026-03-29T02:30:00.5+02:00")

    once, again = (json.loads(with_context(text, ARN, due)) for _ in range(2))

    assert once.pop("execution-id") != again.pop("execution-id")
    assert once == {
        "schedule-arn": ARN,
        "scheduled-time": "2026-03-29T00:30:00Z",
        "attempt-number": "1",
        "other": "<aws.>",
    }


def scoped(schedules: dict[tuple[str, str, str], dict[str, Any]]) -> SimpleNamespace:
    """Return schedules as MiniStack stores data of an account and a region."""
    return SimpleNamespace(_data=schedules)


# --- sweeps --------------------------------------------------------------------------------------


class Sweeps:
    """Sweeps over schedules at times of the test's choosing, and their firings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.schedules: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.fired: list[datetime] = []
        self._monkeypatch = monkeypatch
        self._sweep = schedules._Sweep(SimpleNamespace(_schedules=scoped(self.schedules)))
        monkeypatch.setattr(schedules, "_fire", lambda _key, _schedule, due: self.fired.append(due))

    def at(self, now: datetime) -> list[datetime]:
        """Return the firings of a sweep at that time."""
        self.fired.clear()
        self._sweep(now)
        return list(self.fired)


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    return Sweeps(monkeypatch)


def test_each_time_is_fired_once_though_the_sweeps_are_late(sweeps: Sweeps) -> None:
    sweeps.schedules[KEY] = stored("rate(1 minute)")
    minutes = [NOW + timedelta(minutes=minute) for minute in range(3)]
    assert [sweeps.at(NOW + timedelta(seconds=late)) for late in (0, 7, 61, 119, 125)] == [
        [minutes[0]],
        [],
        [minutes[1]],
        [],
        [minutes[2]],
    ]


def test_a_start_of_now_is_not_missed_though_it_is_past_when_it_is_stored(sweeps: Sweeps) -> None:
    made = NOW.timestamp() + 0.7
    sweeps.schedules[KEY] = stored(
        "rate(1 hour)",
        StartDate=NOW.timestamp(),
        CreationDate=made,
        LastModificationDate=made,
    )
    assert sweeps.at(NOW + timedelta(seconds=2)) == [NOW]


def test_of_times_that_were_slept_through_the_last_one_is_fired(sweeps: Sweeps) -> None:
    sweeps.schedules[KEY] = stored("cron(0 * * * ? *)")
    assert sweeps.at(NOW + timedelta(hours=5, minutes=30)) == [NOW + timedelta(hours=5)]


def test_a_paused_schedule_misses_its_times_and_makes_up_for_none(sweeps: Sweeps) -> None:
    sweeps.schedules[KEY] = stored("rate(1 minute)", State="DISABLED")
    later = NOW + timedelta(hours=1, seconds=30)
    assert sweeps.at(later) == []
    sweeps.schedules[KEY] |= {"State": "ENABLED", "LastModificationDate": later.timestamp()}
    assert sweeps.at(later) == []
    assert sweeps.at(later + timedelta(seconds=30)) == [later + timedelta(seconds=30)]


def test_a_one_time_schedule_is_fired_once_and_deleted_if_it_says_so(sweeps: Sweeps) -> None:
    kept, gone = KEY, (*KEY[:2], "shop/other")
    sweeps.schedules[kept] = stored("at(2026-03-01T12:00:30)")
    sweeps.schedules[gone] = stored("at(2026-03-01T12:00:30)", ActionAfterCompletion="DELETE")
    assert sweeps.at(NOW) == []
    assert set(sweeps.schedules) == {kept, gone}
    assert sweeps.at(NOW + timedelta(minutes=1)) == [NOW + timedelta(seconds=30)] * 2
    assert set(sweeps.schedules) == {kept}
    assert sweeps.at(NOW + timedelta(minutes=2)) == []


def test_a_one_time_schedule_that_was_made_too_late_is_fired_at_once(sweeps: Sweeps) -> None:
    sweeps.schedules[KEY] = stored("at(2026-03-01T11:59:59)")
    assert sweeps.at(NOW) == [NOW - timedelta(seconds=1)]


def test_a_schedule_that_is_made_again_under_its_name_is_another(sweeps: Sweeps) -> None:
    sweeps.schedules[KEY] = stored("at(2026-03-01T12:00:00)")
    assert sweeps.at(NOW) == [NOW]
    sweeps.schedules[KEY] = stored(
        "at(2026-03-01T12:00:30)", LastModificationDate=NOW.timestamp() + 1
    )
    assert sweeps.at(NOW + timedelta(minutes=1)) == [NOW + timedelta(seconds=30)]


def test_a_recurring_schedule_is_deleted_at_its_end_if_it_says_so(sweeps: Sweeps) -> None:
    end = (NOW + timedelta(minutes=1)).timestamp()
    sweeps.schedules[KEY] = stored("rate(1 hour)", EndDate=end, ActionAfterCompletion="DELETE")
    sweeps.at(NOW)
    assert KEY in sweeps.schedules
    sweeps.at(NOW + timedelta(minutes=2))
    assert not sweeps.schedules


# --- MiniStack -----------------------------------------------------------------------------------


@pytest.fixture
def ministacks_own() -> ModuleType:
    """MiniStack's module of schedules, as this process has imported it."""
    return schedules._module("services.scheduler")


def test_ministack_by_itself_hands_context_attributes_over_as_they_are_written(
    ministacks_own: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once this fails, MiniStack supports it, and needs less of `ops.local.schedules`.
    handed_over: list[str] = []
    targets = schedules._module("services.eventbridge")
    monkeypatch.setattr(
        targets, "_invoke_target", lambda target, *_: handed_over.append(target["Input"])
    )
    text = "<aws.scheduler.scheduled-time>"
    schedule = stored("rate(1 minute)", Target={"Arn": "arn:aws:sqs:::q", "Input": text})
    monkeypatch.setattr(
        ministacks_own, "_schedules", scoped({KEY: schedule | {"CreationDate": 0.0}})
    )
    monkeypatch.setattr(ministacks_own, "_schedule_last_fired", {})

    ministacks_own._tick_schedules()

    assert handed_over == [text]


def test_the_pinned_ministack_is_the_one_that_is_known() -> None:
    schedules._check()


def test_a_ministack_without_what_is_replaced_is_refused(
    ministacks_own: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(ministacks_own, "_tick_schedules")
    with pytest.raises(MiniStackChanged, match="_tick_schedules is not the function"):
        schedules.install()


def test_a_ministack_whose_functions_take_something_else_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    targets = schedules._module("services.eventbridge")
    monkeypatch.setattr(targets, "_invoke_target", print)
    with pytest.raises(MiniStackChanged, match=r"\(target, event, rule, view\)"):
        schedules.install()


def test_a_ministack_that_calls_or_stores_something_else_is_refused(
    ministacks_own: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(ministacks_own, "_ticker_loop", lambda: None)
        with pytest.raises(MiniStackChanged, match="ticker"):
            schedules.install()
    monkeypatch.setattr(ministacks_own, "_schedules", {})
    with pytest.raises(MiniStackChanged, match="stores"):
        schedules.install()
