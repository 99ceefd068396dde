"""The time at which a harness's clock begins, and long ways from there to a job's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.testing import DrainUnfinished, Harness, VirtualClock

_NOW = datetime(2029, 5, 6, 7, 8, tzinfo=UTC)


@pytest.fixture
def app() -> App:
    app = App("shop")

    @app.job("poll", schedule=Schedule.rate(timedelta(minutes=1)))
    def poll() -> None: ...

    @app.job("remind")
    def remind() -> None: ...

    return app


def test_code_that_reads_the_real_time_is_tested_from_there(app: App) -> None:
    jobs = Harness(app, start=_NOW)
    jobs.client.submit(app.types["remind"], at=_NOW + timedelta(hours=1))
    jobs.drain()
    assert jobs.clock.now() == _NOW + timedelta(hours=1)
    assert len(jobs.completed(app.types["poll"])) == 60


def test_a_clock_tells_utc_wherever_its_start_was_read() -> None:
    there = timezone(timedelta(hours=2))
    clock = VirtualClock(datetime(2029, 5, 6, 9, 8, tzinfo=there))
    assert clock.now().isoformat() == "2029-05-06T07:08:00+00:00"


def test_a_start_without_a_time_zone_is_refused(app: App) -> None:
    with pytest.raises(SettingsInvalid, match="start must have a time zone"):
        Harness(app, start=datetime(2029, 5, 6))  # noqa: DTZ001 - what is refused


def test_a_way_of_years_with_a_schedule_each_minute_is_given_up_at_once(app: App) -> None:
    jobs = Harness(app)
    jobs.client.submit(app.types["remind"], at=_NOW)
    with pytest.raises(DrainUnfinished, match="more than 10000 jobs"):
        jobs.drain()
    assert jobs.submitted(app.types["poll"]) == []


def test_a_long_way_with_fewer_firings_than_runs_is_gone(app: App) -> None:
    jobs = Harness(app)
    jobs.client.submit(app.types["remind"], delay=timedelta(days=2))
    jobs.drain()
    assert len(jobs.completed(app.types["poll"])) == 2 * 24 * 60


def test_years_without_schedules_are_no_long_way() -> None:
    app = App("shop")

    @app.job("remind")
    def remind() -> None: ...

    jobs = Harness(app)
    jobs.client.submit(remind, at=_NOW)
    jobs.drain()
    assert jobs.clock.now() == _NOW
