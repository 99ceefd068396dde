"""Code around attempts, and their sessions, in tests that cancel jobs or run out of time."""

from __future__ import annotations

import asyncio

import pytest

from headgate.events import JobCancelled, JobCompleted
from headgate.testing import Harness
from tests.unit.workers.rig import Note, one_lane
from tests.unit.workers.running.test_around import waiting_job


@pytest.mark.looptime
@pytest.mark.parametrize("drains", [True, False])
async def test_a_test_that_runs_out_of_time_leaves_what_is_around_its_job(drains: bool) -> None:
    app, queue = one_lane()
    send, told = waiting_job(app, queue, asyncio.Event())
    jobs = Harness(app)
    jobs.client.submit(send, Note())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await (jobs.adrain() if drains else jobs.arun(send, Note()))
    assert told == ["pool", "open", "close CancelledError", "swallowed CancelledError"]
    assert not any(isinstance(event, JobCompleted) for event in jobs.events)


async def test_around_a_cancelled_job_a_drain_enters_nothing() -> None:
    app, queue = one_lane()
    send, told = waiting_job(app, queue, asyncio.Event())
    jobs = Harness(app)
    jobs.client.submit(send, Note()).cancel("a mistake")
    await jobs.adrain()
    assert told == ["pool"]
    assert sum(isinstance(event, JobCancelled) for event in jobs.events) == 1
