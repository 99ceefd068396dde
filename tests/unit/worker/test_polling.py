"""Receiving: all queues at once, nothing that can't start soon, and patience with faults."""

from __future__ import annotations

import asyncio
import statistics
from datetime import timedelta
from itertools import pairwise

import pytest

from jobs import App, JobContext, Priority
from jobs.errors import (
    CredentialsMissing,
    QueueMissing,
    RegionMissing,
    ServiceUnavailable,
    Throttled,
    TransportError,
)
from jobs.events import JobCompleted, JobStarted, PollFailed
from tests.unit.worker.rig import MAIL, Gate, Note, Rig, one_lane

pytestmark = pytest.mark.looptime


def _shop() -> tuple[App, Gate]:
    """One type on all four lanes, held at a gate."""
    app = App("shop")
    gate = Gate()

    @app.job("work")
    async def work(note: Note, ctx: JobContext) -> None:
        await gate(note, ctx)

    return app, gate


def _quick() -> Rig:
    app, mail = one_lane()

    @mail.job("work")
    async def work(_note: Note) -> None:
        return None

    return Rig(app)


async def test_a_message_on_any_queue_is_picked_up_while_the_other_polls_are_idle() -> None:
    app, gate = _shop()
    rig = Rig(app)
    work = app.types["work"]
    async with rig.working():
        arrivals = [*Priority, *reversed(Priority), *Priority]
        for count, priority in enumerate(arrivals, start=1):
            await asyncio.sleep(37.5)
            gate.open(str(priority))
            await rig.submit(work, str(priority), priority=priority)
            before = rig.clock.monotonic()
            await rig.happens(JobCompleted, count)
            assert rig.clock.monotonic() - before < 0.05


async def test_an_idle_worker_asks_each_queue_three_times_a_minute() -> None:
    app, _ = _shop()
    rig = Rig(app)
    async with rig.working():
        await asyncio.sleep(600)
        asked = {spec.name: rig.calls("receive", spec.name) for spec in app.topology.queues}
    assert all(count <= 31 for count in asked.values()), asked


async def test_a_queue_that_has_just_run_dry_does_not_keep_the_others_from_being_polled() -> None:
    """Its long poll expects as much as the last one brought, and waits at an empty queue."""
    app, gate = _shop()
    rig = Rig(app)
    work = app.types["work"]
    gate.open("quick")
    async with rig.working(concurrency=10):
        await rig.submit(work, *["quick"] * 10, priority=Priority.LOW)
        await rig.submit(work, *["quick"] * 10, priority=Priority.HIGH)
        await rig.happens(JobCompleted, 20)
        await asyncio.sleep(1)
        for seconds in range(40):
            await rig.submit(work, "quick", priority=list(Priority)[seconds % 4])
            before = rig.clock.monotonic()
            await rig.happens(JobCompleted, 21 + seconds)
            assert rig.clock.monotonic() - before < 0.2
            await asyncio.sleep(1.3)


async def test_with_all_slots_busy_nothing_is_received() -> None:
    app, gate = _shop()
    rig = Rig(app)
    work = app.types["work"]
    async with rig.working(concurrency=2):
        await rig.submit(work, "a", "b")
        await gate.reached(2)
        await asyncio.sleep(60)
        before = rig.calls("receive")
        await rig.submit(work, *["c"] * 30)
        await asyncio.sleep(600)
        assert rig.calls("receive") == before
        gate.open("a", "b", "c")
        await rig.happens(JobCompleted, 32)


@pytest.mark.parametrize("concurrency", [1, 3, 10, 25])
async def test_never_more_jobs_run_than_there_are_slots(concurrency: int) -> None:
    app, mail = one_lane()
    running: list[int] = [0, 0]

    @mail.job("work")
    async def work(_note: Note) -> None:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0.3)
        running[0] -= 1

    rig = Rig(app)
    await rig.submit(work, *[""] * 120)
    async with rig.working(concurrency=concurrency):
        await rig.happens(JobCompleted, 120)
    assert running == [0, concurrency]
    assert len(rig.heard(JobStarted)) == 120


@pytest.mark.parametrize("concurrency", [1, 2, 5])
async def test_with_long_jobs_at_most_a_batch_a_queue_is_buffered(concurrency: int) -> None:
    app, gate = _shop()
    rig = Rig(app)
    for priority in Priority:
        await rig.submit(app.types["work"], *["hold"] * 60, priority=priority)
    async with rig.working(concurrency=concurrency, give_back_after=timedelta(hours=1)):
        await gate.reached(concurrency)
        await asyncio.sleep(30)
        held = [
            sum(message.receive_count > 0 for message in rig.sqs.messages(spec.name))
            for spec in app.topology.queues
        ]
        gate.open("hold")
    assert max(held) <= 10 + concurrency
    assert sum(held) <= 4 * concurrency, "more was taken than could start"


async def test_polls_that_fail_pause_longer_and_longer_and_then_recover() -> None:
    rig = _quick()
    rig.sqs.faults.raise_on("receive", ServiceUnavailable("503"), times=7)
    await rig.submit(rig.app.types["work"])
    async with rig.working():
        await rig.happens(JobCompleted)
    failed = rig.heard(PollFailed)
    assert len(failed) == 7
    pauses = [(later.at - one.at).total_seconds() for one, later in pairwise(failed)]
    assert pauses == pytest.approx([event.retry_in_s for event in failed[:-1]], abs=0.01)
    for number, pause in enumerate(pauses):
        assert min(30, 2**number) / 2 <= pause <= min(30, 2**number)


async def test_a_pause_starts_small_again_after_a_success() -> None:
    rig = _quick()
    rig.sqs.faults.raise_on("receive", Throttled("slow down"), times=5)
    async with rig.working():
        await rig.happens(PollFailed, 5)
        await rig.submit(rig.app.types["work"])
        await rig.happens(JobCompleted)
        rig.sqs.faults.raise_on("receive", Throttled("slow down"))
        failed = await rig.happens(PollFailed, 6)
    assert failed[4].retry_in_s > 4
    assert failed[5].retry_in_s <= 1


async def test_a_missing_queue_is_said_again_and_again_and_the_others_go_on() -> None:
    app = App("shop")
    here = app.queue("here", priorities=[Priority.NORMAL])
    gone = app.queue("gone", priorities=[Priority.NORMAL])

    @here.job("here-job")
    async def here_job(_note: Note) -> None:
        return None

    @gone.job("gone-job")
    async def gone_job(_note: Note) -> None:
        return None

    rig = Rig(app)
    rig.sqs.faults.raise_on(
        "receive", QueueMissing("shop-gone-normal"), queue="shop-gone-normal", times=10_000
    )
    async with rig.working():
        for count in range(1, 6):
            await rig.submit(here_job)
            await rig.happens(JobCompleted, count)
            await asyncio.sleep(60)
    failed = rig.heard(PollFailed)
    assert {event.queue for event in failed} == {"shop-gone-normal"}
    assert 8 <= len(failed) <= 40


@pytest.mark.parametrize("error", [CredentialsMissing("none"), RegionMissing("none")])
async def test_without_credentials_or_region_from_the_start_the_worker_ends_with_that_error(
    error: TransportError,
) -> None:
    rig = _quick()
    rig.sqs.faults.raise_on("receive", error, times=100)
    with pytest.raises(type(error)):
        async with asyncio.timeout(120):
            await rig.worker().run()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_credentials_that_expire_later_are_waited_for() -> None:
    rig = _quick()
    async with rig.working():
        await rig.submit(rig.app.types["work"])
        await rig.happens(JobCompleted)
        rig.sqs.faults.raise_on("receive", CredentialsMissing("expired"), times=5)
        await rig.happens(PollFailed, 5)
        await rig.submit(rig.app.types["work"])
        await rig.happens(JobCompleted, 2)


async def test_an_answer_for_one_queue_proves_the_credentials_for_all() -> None:
    app, gate = _shop()
    rig = Rig(app)
    missing = "shop-jobs-low"
    rig.sqs.faults.raise_on("receive", QueueMissing(missing), queue=missing, times=3)
    gate.open("a")
    async with rig.working():
        await rig.submit(app.types["work"], "a")
        await rig.happens(JobCompleted)
        await rig.happens(PollFailed, 3)
        rig.sqs.faults.raise_on("receive", CredentialsMissing("expired"), queue=missing)
        await rig.happens(PollFailed, 4)
        await rig.submit(app.types["work"], "a", priority=Priority.LOW)
        await rig.happens(JobCompleted, 2)


async def test_a_receive_whose_answer_got_lost_costs_a_delay_and_no_job() -> None:
    rig = _quick()
    rig.sqs.faults.raise_on("receive", ServiceUnavailable("reset"), times=3, applied=True)
    await rig.submit(rig.app.types["work"], *[""] * 25)
    async with rig.working():
        await rig.happens(JobCompleted, 25)
    assert rig.remaining() == 0


async def test_a_bug_in_a_receive_stops_the_worker_with_its_error() -> None:
    rig = _quick()
    rig.sqs.faults.raise_on("receive", RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        async with asyncio.timeout(60):
            await rig.worker().run()


async def test_a_bug_in_an_extra_receiver_stops_the_worker_too() -> None:
    rig = _quick()
    await rig.submit(rig.app.types["work"], *[""] * 200)
    extras: list[str] = []

    async def fails_in_an_extra() -> None:
        task = asyncio.current_task()
        if task is not None and task.get_name().startswith("headgate-extra"):
            extras.append(task.get_name())
            raise RuntimeError("a bug")

    rig.wire.requests["receive"] = fails_in_an_extra
    with pytest.raises(RuntimeError, match="a bug"):
        async with asyncio.timeout(120):
            await rig.worker().run()
    assert extras
    assert rig.in_flight() == 0


async def test_a_backlog_is_drained_by_several_receivers_and_all_of_them_leave() -> None:
    rig = _quick()

    async def latency() -> None:
        await asyncio.sleep(0.02)

    rig.wire.requests["receive"] = latency
    await rig.submit(rig.app.types["work"], *[""] * 1000)
    async with rig.working(concurrency=100):
        await rig.happens(JobCompleted, 1000)
        assert rig.clock.monotonic() < 1000 / 10 * 0.02, "no faster than one receiver"
        await asyncio.sleep(5)
        polls = [task for task in asyncio.all_tasks() if "extra" in task.get_name()]
        assert polls == []
    assert rig.calls("receive", MAIL) <= 150


async def test_with_a_backlog_everywhere_and_slow_receives_higher_priorities_start_earlier() -> (
    None
):
    app = App("shop")

    @app.job("work")
    async def work(_note: Note) -> None:
        await asyncio.sleep(0.05)

    rig = Rig(app)

    async def slowly() -> None:
        await asyncio.sleep(0.03)

    rig.wire.requests["receive"] = slowly
    counts = dict(zip(Priority, (200, 800, 300, 300), strict=True))
    for priority, count in counts.items():
        await rig.submit(work, *map(str, range(count)), priority=priority)
    async with rig.working():
        started = await rig.happens(JobStarted, sum(counts.values()))
        await rig.happens(JobCompleted, sum(counts.values()))
    medians = [
        statistics.median(event.at.timestamp() for event in started if event.priority == priority)
        for priority in Priority
    ]
    assert medians == sorted(medians)
