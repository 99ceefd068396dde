"""Receiving: from all queues at once, nothing that can't start soon, and patience with faults."""

from __future__ import annotations

import asyncio
import statistics
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from headgate import App, Priority
from headgate.jobs.core.events import JobCompleted, JobStarted, PollFailed
from headgate.jobs.errors import (
    CredentialsMissing,
    CredentialsNotConfigured,
    QueueMissing,
    RegionMissing,
    ServiceUnavailable,
    Throttled,
    TransportError,
)
from headgate.jobs.execution.run import Run
from headgate.jobs.testing import MessageState
from headgate.workers.configuration import short_wait
from headgate.workers.dispatch.fifo_groups import Groups
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.receiving.poller import Poller
from tests.unit.workers.rig import MAIL, Note, Rig, gated_shop, one_lane, without_threads

pytestmark = without_threads


def _quick() -> Rig:
    app, mail = one_lane()

    @mail.job("work")
    async def work(_note: Note) -> None:
        return None

    return Rig(app)


async def test_a_message_on_any_queue_is_picked_up_while_the_other_polls_are_idle() -> None:
    app, gate = gated_shop()
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


async def test_a_job_that_comes_alone_starts_before_more_is_asked_for() -> None:
    app, mail = one_lane(records="off")
    steps: list[str] = []

    @mail.job("work")
    async def work(_note: Note) -> None:
        steps.append("started")

    async def asked() -> None:
        steps.append("asked")

    rig = Rig(app)
    rig.wire.requests["receive"] = asked
    async with rig.working():
        await asyncio.sleep(30)  # its long poll waits
        steps.clear()
        await rig.submit(work)
        await rig.happens(JobCompleted)
        await asyncio.sleep(1)
    assert steps[:2] == ["started", "asked"]


async def test_an_idle_worker_asks_each_queue_three_times_a_minute() -> None:
    app, _ = gated_shop()
    rig = Rig(app)
    async with rig.working():
        await asyncio.sleep(600)
        asked = {spec.name: rig.calls("receive", spec.name) for spec in app.topology.queues}
    assert all(count <= 31 for count in asked.values()), asked


async def test_an_idle_worker_with_short_polls_asks_each_queue_sixty_times_a_minute() -> None:
    app, _ = gated_shop()
    rig = Rig(app)
    wait = short_wait({}, terminal=True)
    async with rig.working(receive_wait=wait):
        await asyncio.sleep(600)
        asked = {spec.name: rig.calls("receive", spec.name) for spec in app.topology.queues}
    assert all(count <= 601 for count in asked.values()), asked


async def test_a_queue_that_just_ran_dry_does_not_delay_polls_of_others() -> None:
    """Its long poll expects as much as the last one brought, and waits at an empty queue."""
    app, gate = gated_shop()
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
    app, gate = gated_shop()
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
    app, gate = gated_shop()
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
        assert min(30, 0.05 * 3**number) / 2 <= pause <= min(30, 0.05 * 3**number)


async def test_a_pause_starts_small_again_after_a_success() -> None:
    rig = _quick()
    rig.sqs.faults.raise_on("receive", Throttled("slow down"), times=5)
    async with rig.working():
        await rig.happens(PollFailed, 5)
        await rig.submit(rig.app.types["work"])
        await rig.happens(JobCompleted)
        rig.sqs.faults.raise_on("receive", Throttled("slow down"))
        failed = await rig.happens(PollFailed, 6)
    assert failed[4].retry_in_s > 2
    assert failed[5].retry_in_s <= 0.05


def _every_third_fails(rig: Rig) -> None:
    """Make receives take 20 ms, and every third one fail."""
    count = 0

    async def request() -> None:
        nonlocal count
        count += 1
        await asyncio.sleep(0.02)
        if count % 3 == 0:
            raise ServiceUnavailable("503")

    rig.wire.requests["receive"] = request


async def test_a_backlog_goes_on_at_speed_while_each_third_receive_fails() -> None:
    rig = _quick()
    _every_third_fails(rig)
    await rig.submit(rig.app.types["work"], *[""] * 1000)
    async with rig.working(concurrency=100):
        await rig.happens(JobCompleted, 1000)
        assert rig.clock.monotonic() < 2
    assert len(rig.heard(PollFailed)) >= 30


async def test_concurrent_failed_receives_pause_once_then_one_retries() -> None:
    rig = _quick()
    down = asyncio.Event()
    under_way = 0

    async def request() -> None:
        nonlocal under_way
        under_way += 1
        if under_way == 4:
            down.set()
        await asyncio.sleep(0.02)
        under_way -= 1
        if down.is_set():
            raise ServiceUnavailable("503")

    rig.wire.requests["receive"] = request
    await rig.submit(rig.app.types["work"], *[""] * 2000)
    async with rig.working(concurrency=100):
        failed = [event.retry_in_s for event in await rig.happens(PollFailed, 36)]
        polls = [task for task in asyncio.all_tasks() if "extra" in task.get_name()]
        down.clear()
        under_way = -100
        await rig.happens(JobCompleted, 2000)
    assert all(pause <= 0.05 for pause in failed[:4])
    assert failed[-1] > 1, "they go on as one"
    assert polls == []


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


async def test_a_receive_that_fails_in_an_unknown_way_does_not_end_the_worker() -> None:
    rig = _quick()
    faults = [KeyError("a secret")] * 3

    async def fail() -> None:
        if faults:
            raise faults.pop()

    rig.wire.requests["receive"] = fail
    await rig.submit(rig.app.types["work"])
    async with rig.working():
        await rig.happens(JobCompleted)
    failed = rig.heard(PollFailed)
    assert [event.error for event in failed] == ["KeyError"] * 3, "its text may quote a payload"
    assert all(event.retry_in_s > 0.02 for event in failed)


def _in_an_extra() -> bool:
    task = asyncio.current_task()
    return task is not None and task.get_name().startswith("headgate-extra")


async def test_an_unknown_failure_of_an_extra_receive_does_not_end_the_worker() -> None:
    rig = _quick()
    faults = [KeyError("a secret")] * 3

    async def fails_in_an_extra() -> None:
        if faults and _in_an_extra():
            raise faults.pop()

    rig.wire.requests["receive"] = fails_in_an_extra
    await rig.submit(rig.app.types["work"], *[""] * 200)
    async with rig.working():
        await rig.happens(JobCompleted, 200)
    assert [event.error for event in rig.heard(PollFailed)] == ["KeyError"] * 3


def _break_once(monkeypatch: pytest.MonkeyPatch, where: type, method: str, text: str) -> None:
    """Make a method fail after it has first handled the message with that text."""
    works = getattr(where, method)
    failed: list[str] = []

    def fails(self: Any, *given: Any, **others: Any) -> Any:
        result = works(self, *given, **others)
        message = getattr(given[-1], "delivery", given[-1]).message
        if text in message.body and not failed:
            failed.append(text)
            raise KeyError(text)
        return result

    monkeypatch.setattr(where, method, fails)


_STEPS = [(Run, "__init__"), (Groups, "take"), (Waiting, "put")]
"""The steps that take in a message, from its delivery to its place in line."""


@pytest.mark.parametrize(("where", "method"), _STEPS)
async def test_a_message_that_can_not_be_taken_in_costs_no_other_and_comes_again(
    where: type, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _break_once(monkeypatch, where, method, "faulty")
    rig = _quick()
    await rig.submit(rig.app.types["work"], "one", "faulty", "two")
    async with rig.working() as worker:
        before = rig.clock.monotonic()
        await rig.happens(JobCompleted, 2)
        assert rig.clock.monotonic() - before < 1
        await asyncio.sleep(1)
        assert (len(worker._parts.holdings), len(worker._parts.waiting)) == (0, 0)
        await rig.happens(JobCompleted, 3)
        assert rig.clock.monotonic() - before > 29, "SQS hid it for so long"
    assert "processing message" in caplog.text
    assert not rig.heard(PollFailed)


@pytest.mark.parametrize(("where", "method"), _STEPS)
async def test_what_follows_a_message_that_can_not_be_taken_in_stays_behind_it(
    where: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break_once(monkeypatch, where, method, "faulty")
    app = App("shop")
    mail = app.queue("mail", priorities=[Priority.NORMAL], fifo=True)
    ran: list[str] = []

    @mail.job("work")
    async def work(note: Note) -> None:
        ran.append(note.text)

    rig = Rig(app)
    await rig.submit(work, "first", "faulty", "third", group="a")
    await rig.submit(work, "other", group="b")
    async with rig.working():
        await rig.happens(JobCompleted, 4)
    assert [text for text in ran if text != "other"] == ["first", "faulty", "third"]
    assert ran.index("other") < 2


@pytest.mark.parametrize("error", [CredentialsNotConfigured("none"), RegionMissing("none")])
async def test_a_worker_without_credentials_or_region_ends_with_that_error(
    error: TransportError,
) -> None:
    rig = _quick()
    rig.sqs.faults.raise_on("receive", error, times=100)
    with pytest.raises(type(error)):
        async with asyncio.timeout(120):
            await rig.worker().run()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_credentials_that_cannot_be_had_at_the_start_are_waited_for() -> None:
    rig = _quick()
    rig.sqs.faults.raise_on("receive", CredentialsMissing("the process failed"), times=5)
    await rig.submit(rig.app.types["work"])
    async with rig.working():
        await rig.happens(JobCompleted)
    assert len(rig.heard(PollFailed)) == 5


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
    app, gate = gated_shop()
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


async def test_a_bug_in_an_extra_receiver_stops_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_self: Poller, _claim: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Poller, "_extra", fails)
    rig = _quick()
    await rig.submit(rig.app.types["work"], *[""] * 200)
    with pytest.raises(RuntimeError, match="a bug"):
        async with asyncio.timeout(120):
            await rig.worker().run()
    assert rig.in_flight() == 0


@pytest.mark.parametrize("latency_s", [0.02, 0.06, 0.2])
async def test_a_backlog_is_drained_by_several_receivers_and_all_of_them_leave(
    latency_s: float,
) -> None:
    rig = _quick()
    rig.wire.requests["receive"] = partial(asyncio.sleep, latency_s)
    await rig.submit(rig.app.types["work"], *[""] * 1000)
    async with rig.working(concurrency=100):
        await rig.happens(JobCompleted, 1000)
        took_s = rig.clock.monotonic()
        assert took_s < 1000 / 10 * latency_s / 3, "hardly faster than one receiver"
        await asyncio.sleep(5)
        polls = [task for task in asyncio.all_tasks() if "extra" in task.get_name()]
        assert polls == []
    assert rig.calls("receive", MAIL) <= 150


async def test_a_stop_waits_for_extra_receives_and_gives_back_what_they_bring() -> None:
    rig = _quick()
    held_back = asyncio.Event()

    async def late_in_an_extra() -> None:
        if _in_an_extra():
            held_back.set()
            await asyncio.sleep(5)

    rig.wire.answers["receive"] = late_in_an_extra
    await rig.submit(rig.app.types["work"], *[""] * 200)
    async with rig.working(concurrency=100):
        await held_back.wait()
    left = rig.sqs.messages(MAIL)
    assert len(left) + len(rig.heard(JobCompleted)) == 200
    assert {message.state for message in left} == {MessageState.VISIBLE}


async def test_with_slow_receives_higher_priorities_still_start_earlier() -> None:
    app = App("shop", priorities="all")

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
