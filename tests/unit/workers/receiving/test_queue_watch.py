"""A worker whose queues are missing, and its reports meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headgate import App, JobContext, Priority
from headgate.jobs.core.events import Events, JobCompleted, JobStarted, PollFailed, PollReceived
from headgate.jobs.core.limits import Concurrency
from headgate.jobs.errors import QueueMissing, QueuesMissing, ServiceUnavailable
from headgate.jobs.testing import LoopClock
from headgate.workers.configuration import WorkerSettings
from headgate.workers.observability.health import Health, Status
from headgate.workers.worker import Worker
from tests.support.backends import async_over
from tests.unit.workers.rig import MAIL, Note, Rig, one_lane, without_threads

pytestmark = without_threads

GRACE = timedelta(minutes=2)


def _missing(rig: Rig, *queues: str) -> None:
    """Make these queues unknown to SQS, until `Wire.missing` is emptied."""
    rig.wire.missing.update(queues)


def _shop() -> tuple[Rig, Health]:
    """Return an app with two queues, whose worker's health is watched."""
    app = App("shop")
    queue = app.queue("mail", priorities=[Priority.HIGH, Priority.LOW])

    @queue.job("send", priority=Priority.HIGH)
    async def send(note: Note, ctx: JobContext) -> None: ...

    rig = Rig(app)
    health = Health(_names(rig), clock=rig.clock)
    rig.subscribers.append(health)
    return rig, health


def _probes(health: Health) -> dict[str, bool]:
    return {"started": health.has_started, "ready": health.can_receive}


def _names(rig: Rig) -> list[str]:
    return [spec.name for spec in rig.app.topology.queues]


async def test_a_worker_none_of_whose_queues_exist_ends_after_its_grace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig, health = _shop()
    _missing(rig, *_names(rig))
    started_at = rig.clock.monotonic()
    run = asyncio.create_task(rig.worker(queue_grace=GRACE).run())
    await asyncio.sleep(GRACE.total_seconds() - 1)
    assert not run.done()
    assert _probes(health) == {"started": False, "ready": False}
    assessment = health.assess()
    assert assessment.status is Status.UNHEALTHY
    with pytest.raises(QueuesMissing) as raised:
        await run
    assert rig.clock.monotonic() - started_at < GRACE.total_seconds() + 5
    assert raised.value.queues == tuple(_names(rig))
    for said in (str(raised.value), str(assessment.checks), caplog.text):
        assert "cdk deploy" in said
        assert "HEADGATE_STAGE" in said
        assert all(name in said for name in _names(rig))


async def test_one_missing_queue_of_several_degrades_and_ends_nothing() -> None:
    rig, health = _shop()
    _, low = _names(rig)
    _missing(rig, low)
    async with rig.working(queue_grace=GRACE):
        await asyncio.sleep(10 * GRACE.total_seconds())
        await rig.submit(rig.app.types["send"])
        await rig.happens(JobCompleted)
        assert health.can_receive
        found = health.assess()
    assert found.status is Status.DEGRADED
    assert low in str([check for check in found.checks if check.status is Status.DEGRADED])
    assert rig.heard(PollFailed)[0].missing


async def test_queues_that_come_within_the_grace_are_worked_on() -> None:
    rig, health = _shop()
    _missing(rig, *_names(rig))
    async with rig.working(queue_grace=GRACE):
        await asyncio.sleep(GRACE.total_seconds() * 0.75)
        rig.wire.missing.clear()
        await rig.happens(PollReceived, 2)
        assert _probes(health) == {"started": True, "ready": True}
        _missing(rig, *_names(rig))  # and the grace period restarts
        await asyncio.sleep(GRACE.total_seconds() * 0.75)
        assert _probes(health) == {"started": True, "ready": False}
    assert rig.report is not None


async def test_a_stop_within_the_grace_is_a_clean_stop() -> None:
    rig, _ = _shop()
    _missing(rig, *_names(rig))
    async with rig.working(queue_grace=GRACE):
        await asyncio.sleep(10)
    assert rig.report is not None
    assert rig.report.clean


async def test_an_outage_says_nothing_of_whether_queues_exist() -> None:
    rig, health = _shop()

    async def fail() -> None:
        raise ServiceUnavailable("AWS is away")

    rig.wire.requests["receive"] = fail
    async with rig.working(queue_grace=GRACE):
        await asyncio.sleep(10 * GRACE.total_seconds())
        assert _probes(health) == {"started": False, "ready": False}
        assert health.assess().status is Status.UNHEALTHY
        del rig.wire.requests["receive"]
        await rig.happens(PollReceived)
        assert _probes(health) == {"started": True, "ready": True}


async def test_a_worker_outlives_an_outage_that_begins_with_queues_that_seem_missing() -> None:
    rig, _ = _shop()
    odd = iter([QueueMissing("shop-mail-high"), QueueMissing("shop-mail-low")])

    async def fail() -> None:
        raise next(odd, ServiceUnavailable("AWS is away"))

    rig.wire.requests["receive"] = fail
    async with rig.working(queue_grace=GRACE):
        await asyncio.sleep(10 * GRACE.total_seconds())
        del rig.wire.requests["receive"]
        await rig.happens(PollReceived)


async def test_an_idle_worker_is_known_to_be_ready_within_seconds() -> None:
    rig, health = _shop()
    async with rig.working():
        assert _probes(health) == {"started": False, "ready": False}
        await asyncio.sleep(2)
        assert _probes(health) == {"started": True, "ready": True}


def _other(rig: Rig) -> Worker:
    """Return one more worker of the same fleet."""
    return Worker(
        rig.app,
        async_over(rig.wire, table=rig.table, clock=rig.clock),
        WorkerSettings(),
        name="other",
        events=Events(rig.hear),
    )


def _rare() -> tuple[Rig, asyncio.Event]:
    """Return an app of which the fleet runs one job at a time, until the event is set."""
    app = App("shop")
    queue = app.queue("mail", priorities=[Priority.HIGH], concurrency=Concurrency(1, scope="fleet"))
    done = asyncio.Event()

    @queue.job("send", priority=Priority.HIGH)
    async def send(_note: Note, _ctx: JobContext) -> None:
        await done.wait()

    return Rig(app), done


async def test_a_worker_starts_and_is_ready_while_a_fleet_limit_is_used_up() -> None:
    rig, done = _rare()
    await rig.submit(rig.app.types["send"], "a", "b")
    async with rig.working():
        await rig.happens(JobStarted)
        polls = rig.calls("receive")
        other = _other(rig)
        health = Health(_names(rig), clock=rig.clock, held_back=lambda: other.is_held_back)
        run = asyncio.create_task(other.run())
        for _ in range(10):
            await asyncio.sleep(60)
            assert _probes(health) == {"started": True, "ready": True}
        assert rig.calls("receive") == polls, "what can't run is not received"
        done.set()
        await rig.happens(JobCompleted, 2)
        other.stop()
        await run


async def test_a_worker_that_can_not_read_a_fleet_limit_is_not_started() -> None:
    rig, done = _rare()
    done.set()
    rig.table.faults.raise_on("replace", ServiceUnavailable("gone"), times=10_000)
    async with rig.working() as worker:
        health = Health(_names(rig), clock=rig.clock, held_back=lambda: worker.is_held_back)
        for _ in range(10):
            await asyncio.sleep(60)
            assert _probes(health) == {"started": False, "ready": False}


async def test_a_worker_that_is_too_busy_to_receive_is_healthy() -> None:
    app, queue = one_lane()
    gate = asyncio.Event()

    @queue.job("send")
    async def send(_note: Note, _ctx: JobContext) -> None:
        await gate.wait()

    rig = Rig(app)
    health = Health([MAIL], clock=rig.clock)
    rig.subscribers.append(health)
    async with rig.working(concurrency=1):
        await rig.submit(send)
        await asyncio.sleep(600)
        polls = len(rig.heard(PollReceived))
        await asyncio.sleep(100)
        assert len(rig.heard(PollReceived)) == polls
        assert health.can_receive
        assert health.assess().status is Status.HEALTHY
        gate.set()


@pytest.mark.parametrize("held_back", [True, False])
async def test_a_failed_receive_that_none_could_follow_makes_no_worker_unhealthy(
    held_back: bool,
) -> None:
    clock = LoopClock()
    health = Health([MAIL], clock=clock, held_back=lambda: held_back)
    health(PollReceived(at=clock.now(), queue=MAIL, messages=10, took_s=0.1))
    health(PollFailed(at=clock.now(), queue=MAIL, error="cut", retry_in_s=0.05))
    await asyncio.sleep(600)
    assert health.can_receive is held_back
    found = health.assess().status
    assert found is (Status.DEGRADED if held_back else Status.UNHEALTHY)
