from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headgate import App, DoNotRetry, JobContext, JobState, RetryLater
from headgate.jobs.testing.failures import failures
from headgate.testing import Harness


def test_each_failed_job_is_told_once_with_its_last_traceback() -> None:
    app = App("shop")
    texts = iter(["first", "second", "third"])

    @app.job("send")
    def send(to: str) -> None:
        if to == "ada":
            raise ConnectionError(next(texts))

    jobs = Harness(app)
    for to in ("ada", "bob"):
        jobs.client.submit(send, to)
    jobs.drain()
    [heading, *lines] = failures(jobs.events).splitlines()
    assert heading.startswith("send ")
    assert heading.endswith(", attempt 3 of 3:")
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ConnectionError: third"
    assert len([line for line in lines if "ConnectionError:" in line]) == 1


def test_a_job_that_died_without_a_failure_is_told_with_its_reason() -> None:
    app = App("shop")

    @app.job("send")
    def send(to: str) -> None:
        raise DoNotRetry(f"{to} has moved")

    jobs = Harness(app)
    jobs.client.submit(send, "ada")
    jobs.drain()
    *_, died = jobs.events
    assert failures([died]).endswith(", attempt 1 of 3: do-not-retry: ada has moved")


def test_of_many_failed_jobs_the_first_five_are_told() -> None:
    app = App("shop")

    @app.job("send")
    def send(to: int) -> None:
        raise ValueError(f"number {to}")

    jobs = Harness(app)
    for number in range(8):
        jobs.client.submit(send, number)
    jobs.drain()
    *_, last = failures(jobs.events).splitlines()
    assert last == "... and 3 more"
    assert failures([]) == ""


@pytest.mark.parametrize("records", ["failures", "outcomes"])
@pytest.mark.parametrize("long_delays", [True, False])
def test_a_job_that_was_put_off_for_days_is_not_retried_for_ever(
    records: Any, long_delays: bool
) -> None:
    app = App("shop", records=records, long_delays=long_delays)
    calls = 0

    @app.job("later")
    def later(_ctx: JobContext) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RetryLater(timedelta(days=2))

    jobs = Harness(app)
    handle = jobs.client.submit(later)
    jobs.drain()
    for days in (0, 8, 20):  # completions are kept for 7, and what came before for 30
        jobs.clock.advance(timedelta(days=days))
        assert handle.state() is JobState.COMPLETED
