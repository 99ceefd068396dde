"""A declared ``start=``: deployed without a date that could have passed, and still observed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from headgate import App, Schedule, cron
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.definitions.schedules.occurrences import occurrences
from headgate.jobs.errors import MessageUnreadable
from headgate.jobs.schedules.declared_starts import Start, deployed
from headgate.jobs.schedules.firing import read_scheduled, schedule_input
from headgate.jobs.testing import Harness

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Report(BaseModel):
    kind: str = "daily"


def fires(schedule: Schedule, since: datetime, count: int) -> list[datetime]:
    """Return EventBridge Scheduler's firings from then on that the bridge lets pass."""
    times, start = deployed(schedule)
    due = occurrences(times.expression, times.timezone, since=since)
    return list(islice((at for at in due if start is None or start.counts(at)), count))


@given(
    minutes=st.integers(1, 3_000),
    begins_in_s=st.integers(-200_000, 200_000),
    since_s=st.integers(0, 86_400),
)
@settings(max_examples=50)
def test_a_rate_counts_from_its_start_whenever_it_is_deployed(
    minutes: int, begins_in_s: int, since_s: int
) -> None:
    since = NOW + timedelta(seconds=since_s)
    start = since + timedelta(seconds=begins_in_s)
    every = timedelta(minutes=minutes)
    to_the_minute = start.replace(second=0, microsecond=0)
    if to_the_minute < start:
        to_the_minute += timedelta(minutes=1)
    promised = occurrences(Schedule.rate(every).expression, "UTC", since=since, start=to_the_minute)
    assert fires(Schedule.rate(every, start=start), since, 3) == list(islice(promised, 3))


@pytest.mark.parametrize(
    ("minutes", "expression"),
    [
        (15, "cron(7/15 * * * ? *)"),
        (7, "cron(* * * * ? *)"),
        (90, "cron(7/30 * * * ? *)"),
        (60, "cron(37 * * * ? *)"),
        (6 * 60, "cron(37 2/6 * * ? *)"),
        (36 * 60, "cron(37 8/12 * * ? *)"),
        (24 * 60, "cron(37 20 * * ? *)"),
        (14 * 24 * 60, "cron(37 20 * * ? *)"),
    ],
)
def test_a_rate_with_a_start_becomes_the_sparsest_cron_with_all_its_times(
    minutes: int, expression: str
) -> None:
    start = datetime(2026, 3, 1, 20, 37, tzinfo=UTC)
    times, _ = deployed(Schedule.rate(timedelta(minutes=minutes), start=start))
    assert times.expression == expression
    assert times.start is None


def test_a_cron_expression_keeps_its_times_and_its_zone_from_its_start_on() -> None:
    start = datetime(2026, 3, 28, 8, tzinfo=ZoneInfo("Europe/Berlin"))
    daily = cron("0 8 * * ? *", timezone="Europe/Berlin", start=start)
    times, _ = deployed(daily)
    assert (times.expression, times.timezone) == ("cron(0 8 * * ? *)", "Europe/Berlin")
    assert [f"{at:%d %H:%M}" for at in fires(daily, NOW, 2)] == ["28 07:00", "29 06:00"]


def test_a_schedule_without_a_start_is_deployed_as_it_is_declared() -> None:
    hourly = Schedule.rate(timedelta(hours=1), end=NOW, flexible_window=timedelta(minutes=5))
    assert deployed(hourly) == (hourly, None)


def test_a_time_told_with_its_seconds_counts_as_its_minute() -> None:
    start = Start(at=NOW, every_minutes=7)
    assert start.counts(NOW + timedelta(minutes=7, seconds=43))
    assert not start.counts(NOW + timedelta(minutes=8, seconds=43))
    assert not start.counts(NOW - timedelta(minutes=7))


def test_a_period_that_no_rate_can_have_makes_an_input_unreadable() -> None:
    app = App("shop", stage="test")

    @app.job("report", schedule=Schedule.rate(timedelta(hours=1), start=NOW))
    def report(_report: Report) -> None: ...

    given = schedule_input(app, report)
    longest = timedelta.max // timedelta(days=1) * 24 * 60
    for minutes in (longest, longest + 1, 10**30):
        given["start"] = {"at": NOW.isoformat(), "every_minutes": minutes}
        if minutes == longest:
            assert read_scheduled(json.dumps(given)).start is not None
        else:
            with pytest.raises(MessageUnreadable):
                read_scheduled(json.dumps(given))


@pytest.mark.parametrize(
    "schedule",
    [
        cron("0 2 * * ? *", timezone="Europe/Berlin", start=NOW),
        Schedule.rate(timedelta(minutes=90), start=NOW),
        Schedule.rate(timedelta(days=14), start=NOW),
    ],
    ids=lambda schedule: schedule.expression,
)
def test_a_declared_start_goes_through_the_bridge_and_is_read_back(schedule: Schedule) -> None:
    app = App("shop", stage="test")
    ran: list[datetime] = []

    @app.job("report", schedule=schedule)
    def report(_report: Report) -> None:
        ran.append(jobs.clock.now())

    jobs = Harness(app)
    jobs.clock.advance(NOW - timedelta(days=2) - jobs.clock.now())
    begin = jobs.clock.now()
    times, _ = deployed(schedule)
    jobs.scheduler.put(
        ScheduleSpec(
            group=app.topology.schedule_group,
            name="report",
            expression=times.expression,
            timezone=times.timezone,
            function=app.topology.bridge_name,
            role=app.topology.scheduler_role,
            input=json.dumps(schedule_input(app, report)),
        ),
        "deployed",
    )
    promised = list(
        islice(occurrences(schedule.expression, schedule.timezone, since=begin, start=NOW), 3)
    )
    assert jobs.client.schedules.get("report").when == schedule
    assert jobs.client.schedules.next_times("report", 3) == promised

    for due in promised:
        jobs.clock.advance(due - jobs.clock.now() - timedelta(seconds=1))
        jobs.drain()
        jobs.clock.advance(timedelta(seconds=1))
        jobs.drain()
    assert ran == promised
    assert jobs.client.schedules.run_now("report").type == "report"  # whether it has begun or not
