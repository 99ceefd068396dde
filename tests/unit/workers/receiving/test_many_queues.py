"""One worker on many queues: none that is empty, slow, blocked or failing holds up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pytest

from headgate import App, Backoff, Breaker, Concurrency, Priority, Retry
from headgate.jobs.core.events import BreakerOpened, JobCompleted, JobStarted
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.definitions.job_type import JobType
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads

QUEUES = 40


def many_queues(*, takes_s: float = 0) -> App:
    """Return an app with so many queues of normal priority, and a type in each."""
    app = App("shop", records="off")
    for number in range(QUEUES):

        @app.queue(f"queue-{number}", priorities=[Priority.NORMAL]).job(f"job-{number}")
        async def work(_note: Note) -> None:
            await asyncio.sleep(takes_s)

    return app


def types_of(app: App) -> list[JobType[Note, None]]:
    """Return the types, in the order of their queues."""
    return list(app.types.values())


def over_a_network(rig: Rig, latency_s: float = 0.005) -> None:
    """Let each request take a while."""
    rig.wire.requests["receive"] = partial(asyncio.sleep, latency_s)
    rig.wire.requests["delete"] = partial(asyncio.sleep, latency_s)


async def seconds_of(rig: Rig, jobs: int, *, concurrency: int = 50) -> float:
    """Return the virtual time in which a worker completes so many jobs."""
    began = rig.clock.monotonic()
    async with rig.working(concurrency=concurrency):
        await rig.happens(JobCompleted, jobs)
        return rig.clock.monotonic() - began


async def test_queues_that_run_dry_do_not_hold_up_those_that_have_work() -> None:
    rig = Rig(many_queues(takes_s=0.02))
    over_a_network(rig)
    for number, job in enumerate(types_of(rig.app)):
        await rig.submit(job, *[""] * (30 if number % 10 == 9 else 10))
    # 0.96 s of work; the 36 receives that find a queue empty wait there for messages.
    assert await seconds_of(rig, 480, concurrency=10) < 1.4


async def test_empty_queues_do_not_hold_up_the_start() -> None:
    rig = Rig(many_queues())
    over_a_network(rig)
    await rig.submit(types_of(rig.app)[-1], "")
    assert await seconds_of(rig, 1) < 0.1


async def test_a_moment_without_answers_is_no_sign_of_a_slow_network() -> None:
    rig = Rig(many_queues())
    over_a_network(rig)
    for job in types_of(rig.app):
        await rig.submit(job, *[""] * 25)
    began, pause_s = rig.clock.monotonic(), 0.8

    async def answers() -> None:
        since_s = rig.clock.monotonic() - began
        await asyncio.sleep(max(0.0, pause_s - since_s) if since_s > 0.05 else 0)

    rig.wire.answers["receive"] = answers
    assert await seconds_of(rig, 25 * QUEUES) < pause_s + 0.5


async def test_what_a_slow_delete_makes_room_for_is_received_at_once() -> None:
    rig = Rig(many_queues())
    rig.wire.requests["delete"] = partial(asyncio.sleep, 0.05)
    await rig.submit(types_of(rig.app)[0], *[""] * 400)
    # 20 are held at a time, for 60 ms each.
    assert await seconds_of(rig, 400, concurrency=5) < 400 / 20 * 0.1


async def test_a_queue_that_does_not_answer_holds_its_turn_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(many_queues())
    over_a_network(rig)
    silent = {spec.name for spec in rig.app.topology.queues[:15]}
    receive = rig.wire.receive

    async def answers(
        queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> Sequence[ReceivedMessage]:
        if queue in silent:
            await asyncio.sleep(25)
        return await receive(queue, limit=limit, wait_s=wait_s, visibility_s=visibility_s)

    monkeypatch.setattr(rig.wire, "receive", answers)
    for job in types_of(rig.app)[15:]:
        await rig.submit(job, *[""] * 20)
    assert await seconds_of(rig, 20 * (QUEUES - 15)) < 1


async def test_idle_queues_are_asked_three_times_a_minute_each() -> None:
    rig = Rig(many_queues())
    async with rig.working():
        await asyncio.sleep(600)
        asked = [rig.calls("receive", spec.name) for spec in rig.app.topology.queues]
    assert max(asked) <= 31


async def test_a_stop_during_the_receives_of_many_queues_leaves_nothing_hidden() -> None:
    rig = Rig(many_queues(takes_s=1))
    rig.wire.answers["receive"] = partial(asyncio.sleep, 0.3)
    for job in types_of(rig.app):
        await rig.submit(job, *[""] * 10)
    async with rig.working():
        await asyncio.sleep(0.7)
    assert rig.in_flight() == 0
    assert rig.remaining() == 10 * QUEUES - len(rig.heard(JobCompleted))
    assert rig.report is not None
    assert rig.report.clean


async def test_the_order_of_fifo_groups_holds_in_many_queues() -> None:
    app = App("shop", records="off")
    done: dict[str, list[str]] = {}
    for number in range(QUEUES):
        queue = app.queue(f"queue-{number}", fifo=True, priorities=[Priority.NORMAL])

        @queue.job(f"job-{number}")
        async def work(note: Note) -> None:
            await asyncio.sleep(0.002)
            done.setdefault(note.text[:2], []).append(note.text)

    rig = Rig(app)
    over_a_network(rig)
    for number, job in enumerate(types_of(app)):
        await rig.submit(job, *(f"{number:02}-{of}" for of in range(8)), group="order")
    assert await seconds_of(rig, 8 * QUEUES) < 5
    for number in range(QUEUES):
        assert done[f"{number:02}"] == [f"{number:02}-{of}" for of in range(8)]


async def test_a_queue_with_a_limit_does_not_hold_up_the_others() -> None:
    app = many_queues()
    running = [0, 0]

    @app.queue("sync", priorities=[Priority.NORMAL]).job("sync", concurrency=Concurrency(1))
    async def sync(_note: Note) -> None:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(30)
        running[0] -= 1

    rig = Rig(app)
    over_a_network(rig)
    await rig.submit(sync, *[""] * 20)
    for job in types_of(app)[:QUEUES]:
        await rig.submit(job, *[""] * 20)
    assert await seconds_of(rig, 20 * QUEUES) < 2
    assert running[1] == 1


async def test_a_queue_whose_breaker_is_open_does_not_hold_up_the_others() -> None:
    app = many_queues()

    @app.queue("capture", priorities=[Priority.NORMAL]).job(
        "capture",
        retry=Retry(max_attempts=9, backoff=Backoff.fixed(60)),
        breaker=Breaker(0.5, min_runs=4, open_for=timedelta(hours=1)),
    )
    async def capture(_note: Note) -> None:
        raise ConnectionError("down")

    rig = Rig(app)
    over_a_network(rig)
    await rig.submit(capture, *[""] * 100)
    async with rig.working():
        await rig.happens(BreakerOpened)
        for job in types_of(app)[:QUEUES]:
            await rig.submit(job, *[""] * 20)
        began = rig.clock.monotonic()
        await rig.happens(JobCompleted, 20 * QUEUES)
        assert rig.clock.monotonic() - began < 2
    assert len(rig.heard(JobStarted)) < 20 * QUEUES + 30


async def test_critical_jobs_start_at_once_beside_a_backlog_in_many_queues() -> None:
    app = many_queues(takes_s=0.05)

    @app.queue("alarm", priorities=[Priority.CRITICAL]).job("alarm")
    async def alarm(_note: Note) -> None: ...

    rig = Rig(app)
    over_a_network(rig)
    for job in types_of(app)[:QUEUES]:
        await rig.submit(job, *[""] * 50)
    async with rig.working():
        for number in range(10):
            await asyncio.sleep(0.13)
            began = rig.clock.monotonic()
            await rig.submit(alarm)
            while sum("alarm" in event.queue for event in rig.heard(JobStarted)) <= number:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            assert rig.clock.monotonic() - began < 0.1
