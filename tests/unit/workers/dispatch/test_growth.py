"""A job's cost hardly depends on the worker's number of queues. Work is counted, not timed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import pytest

from headgate import App, AsyncClient, Priority
from headgate.jobs.core.events import Event, JobCompleted, JobStarted, PollReceived
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.core.topology import DEFAULT_LANES
from headgate.jobs.definitions.job_type import JobType
from headgate.workers.dispatch.once_per_turn import OncePerTurn
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads

JOBS = 240


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count the calls of the worker's own functions within the block."""
    calls = [0]

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and "/workers/" in frame.f_code.co_filename:
            calls[0] += 1

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def app_of(
    queues: int, priority: Priority, takes_s: float, *, records: RecordsLevel = "off"
) -> App:
    """Return an app with that many queues of one priority, and a type in each."""
    app = App("shop", records=records)
    for number in range(queues):

        @app.queue(f"queue-{number}", priorities=[priority]).job(f"job-{number}")
        async def work(_note: Note) -> None:
            await asyncio.sleep(takes_s)

    return app


async def filled(queues: int, priority: Priority, *, takes_s: float = 0) -> Rig:
    """Return a rig whose queues hold the jobs, evenly distributed."""
    rig = Rig(app_of(queues, priority, takes_s))
    types: list[JobType[Note, None]] = list(rig.app.types.values())
    for job in types:
        await rig.submit(job, *[""] * (JOBS // queues))
    return rig


class Completed:
    """Waits until all jobs have completed, at no cost per event."""

    def __init__(self) -> None:
        self.all = asyncio.Event()
        self._left = JOBS

    def __call__(self, event: Event) -> None:
        """Count completed jobs; called with each event."""
        self._left -= isinstance(event, JobCompleted)
        if not self._left:
            self.all.set()


async def calls_of_a_job(queues: int, priority: Priority) -> float:
    """Return the calls per job of a backlog in that many queues."""
    rig, completed = await filled(queues, priority), Completed()
    rig.hear = completed  # type: ignore[method-assign]  # the rig's own wakes a task an event
    with counted() as calls:
        async with rig.working():
            await completed.all.wait()
    return calls[0] / JOBS


@pytest.mark.parametrize("priority", [Priority.CRITICAL, Priority.NORMAL])
async def test_a_job_costs_little_more_with_24_queues_than_with_four(priority: Priority) -> None:
    few, many = await calls_of_a_job(4, priority), await calls_of_a_job(24, priority)
    assert many < 1.3 * few


async def test_of_many_queues_no_more_is_received_than_can_start_soon() -> None:
    rig = await filled(120, Priority.NORMAL)
    async with rig.working():
        await rig.happens(JobStarted, 50)
        received = sum(event.messages for event in rig.heard(PollReceived))
        assert received <= 120 + 110, "one of each idle queue, and what may be held"
        await rig.happens(JobCompleted, JOBS)
    assert len(rig.heard(JobStarted)) == JOBS


async def test_a_burst_in_many_idle_queues_is_not_hoarded() -> None:
    rig = Rig(app_of(120, Priority.NORMAL, 60))
    jobs: list[JobType[Note, None]] = list(rig.app.types.values())
    async with rig.working(concurrency=10):
        await asyncio.sleep(1)
        for job in jobs:
            await rig.submit(job, *[""] * 10)
        await rig.happens(JobStarted, 10)
        await asyncio.sleep(1)
        assert rig.in_flight() <= 120 + 10, "one of each, since a poll is under way at all of them"


@pytest.mark.parametrize("priority", [Priority.CRITICAL, Priority.NORMAL])
async def test_many_queues_take_few_more_requests_than_four(priority: Priority) -> None:
    requests = {}
    for queues in (4, 24):
        rig = await filled(queues, priority)
        async with rig.working():
            await rig.happens(JobCompleted, JOBS)
        receives = [event for event in rig.heard(PollReceived) if event.messages]
        deletes = [call for call in rig.sqs.calls if call.action == "delete"]
        requests[queues] = len(receives), len(deletes)
    for few, many in zip(requests[4], requests[24], strict=True):
        assert many <= 1.5 * few


async def test_no_queue_waits_for_the_end_of_anothers_backlog() -> None:
    rig = Rig(app_of(3, Priority.NORMAL, 0.05))
    jobs: list[JobType[Note, None]] = list(rig.app.types.values())
    await rig.submit(jobs[0], *[""] * 400)
    for job in jobs[1:]:
        await rig.submit(job, *[""] * 40)
    async with rig.working(concurrency=10):
        started = await rig.happens(JobStarted, 200)
    counts = Counter(event.queue for event in started[:200])
    assert min(counts.values()) >= 38, "a third each, until the short ones are empty"


async def test_jobs_that_take_no_slot_do_not_keep_their_peers_from_receiving() -> None:
    rig = Rig(app_of(2, Priority.NORMAL, 60, records="failures"))
    cancelled, work = rig.app.types.values()
    ids = await rig.submit(cancelled, *[""] * 60)
    await rig.submit(work, *[""] * 10)
    rig.wire.requests["receive"] = partial(asyncio.sleep, 0.01)
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        for job_id in ids:
            await client.handle(job_id).cancel()
    async with rig.working(concurrency=10):
        await rig.happens(JobStarted, 10)
        received = sum(event.messages for event in rig.heard(PollReceived))
        assert received <= 10 + 20, "room for one receive at a time, by turns"


async def test_short_jobs_and_slow_receives_leave_each_priority_its_share() -> None:
    app = App("shop", records="off", priorities="all")
    for number in range(2):

        @app.queue(f"queue-{number}").job(f"job-{number}")
        async def work(_note: Note) -> None:
            await asyncio.sleep(0.005)

    rig = Rig(app)
    # Ten times as long as a job: what is received decides what starts.
    rig.wire.requests["receive"] = partial(asyncio.sleep, 0.05)
    types: list[JobType[Note, None]] = list(app.types.values())
    for job in types:
        for priority in Priority:
            await rig.submit(job, *[""] * 150, priority=priority)
    async with rig.working(concurrency=10):
        started = (await rig.happens(JobStarted, 500))[:500]
    counts = Counter(event.priority for event in started)
    for priority in Priority:
        assert counts[priority] >= 0.8 * 500 * 2 * DEFAULT_LANES[priority].share


async def test_of_many_queues_each_gets_its_turn() -> None:
    rig = await filled(24, Priority.CRITICAL, takes_s=1)
    async with rig.working(concurrency=1):
        started = await rig.happens(JobStarted, JOBS // 2)
    counts = Counter(event.queue for event in started)
    assert len(counts) == 24
    assert min(counts.values()) >= 3, "of five each"


async def test_what_is_asked_for_many_times_in_a_turn_is_done_once() -> None:
    done: list[int] = []
    soon = OncePerTurn(lambda: done.append(len(done)))
    for turn in range(3):
        soon()
        soon()
        assert len(done) == turn
        await asyncio.sleep(0)
    assert done == [0, 1, 2]


async def test_what_is_asked_for_while_it_is_done_is_done_in_the_next_turn() -> None:
    done: list[int] = []

    def act() -> None:
        done.append(len(done))
        if len(done) < 3:
            soon()

    soon = OncePerTurn(act)
    soon()
    for turns in range(1, 4):
        await asyncio.sleep(0)
        assert len(done) == turns
