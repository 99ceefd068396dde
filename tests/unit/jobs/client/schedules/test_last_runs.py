"""The last times of a schedule, and the jobs that it submitted then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.testing import Harness


def test_the_jobs_of_a_rate_are_found_whatever_the_moment_of_its_creation() -> None:
    app = App("shop")

    @app.job("poll", schedule=Schedule.rate(timedelta(minutes=1)))
    def poll() -> None: ...

    jobs = Harness(app, start=datetime(2029, 5, 6, 7, 8, 9, 215_000, tzinfo=UTC))
    jobs.clock.advance(timedelta(minutes=3))
    jobs.drain()
    runs = jobs.client.schedules.get("poll").last_runs(3, jobs.clock.now())
    assert [run.at for run in runs] == [
        datetime(2029, 5, 6, 7, minute, 9, tzinfo=UTC) for minute in (11, 10, 9)
    ]
    assert [str(jobs.client.handle(run.job_id).state()) for run in runs] == ["completed"] * 3
