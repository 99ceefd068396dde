"""The context of a job: the time that it is for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest.mock import Mock
from uuid import uuid4

import pytest

from headgate import App, DeadLetterFilter, JobContext, Retry, cron
from headgate.jobs.definitions.handlers.context import Host
from headgate.testing import Harness

START = datetime(2026, 1, 1, tzinfo=UTC)
"""The time at which a harness begins."""


class Night:
    """An app whose nightly job notes the time that it is for, and fails while it is broken."""

    def __init__(self) -> None:
        self.times: list[datetime] = []
        self.broken = False
        self.app = App("shop", stage="test")
        self.report = self.app.job(
            "report", schedule=cron("0 2 * * ? *"), retry=Retry(max_attempts=2)
        )(self._report)

    def _report(self, ctx: JobContext) -> None:
        self.times.append(ctx.as_of)
        if self.broken:
            raise ConnectionError("the printer is away")


def test_a_schedule_s_job_is_for_its_schedule_s_time_however_late_it_runs() -> None:
    night = Night()
    jobs = Harness(night.app)
    jobs.clock.advance(timedelta(days=2, hours=12))
    jobs.drain()
    assert night.times == [START + timedelta(days=days, hours=2) for days in (0, 1, 2)]


def test_every_attempt_and_a_replay_are_for_the_time_of_the_first() -> None:
    night = Night()
    night.broken = True
    jobs = Harness(night.app)
    jobs.clock.advance(timedelta(hours=3))
    jobs.drain()
    night.broken = False
    jobs.clock.advance(timedelta(hours=9))
    jobs.client.dead_letters.replay(DeadLetterFilter())
    jobs.drain()
    assert night.times == [START + timedelta(hours=2)] * 3


def test_a_job_without_a_schedule_is_for_the_time_of_its_submission() -> None:
    night = Night()
    jobs = Harness(night.app)
    jobs.clock.advance(timedelta(minutes=1))
    jobs.client.submit(night.report, delay=timedelta(minutes=10))
    jobs.drain()
    assert night.times == [START + timedelta(minutes=1)]


def test_an_id_that_another_program_made_up_tells_no_time() -> None:
    ctx = JobContext(
        id=str(uuid4()),
        type="report",
        queue="jobs",
        attempt=1,
        max_attempts=1,
        tenant=None,
        deadline=START,
        _host=Mock(spec=Host),
    )
    with pytest.raises(ValueError, match="is no UUIDv7, and tells no time"):
        _ = ctx.as_of
