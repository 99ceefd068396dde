"""Choosing: strict priority, and no message handed round until it dies."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import App, JobContext, Priority
from jobs.delivery import Delivery
from jobs.errors import SettingsInvalid
from jobs.events import JobCompleted, JobStarted
from jobs.ports import ReceivedMessage
from jobs.testing import MessageState
from tests.unit.worker.rig import Gate, Note, Rig
from workers.choosing import Waiting
from workers.holding import Hold
from workers.worker import WorkerSettings


def _shop() -> tuple[App, Gate]:
    app = App("shop")
    gate = Gate()

    @app.job("work")
    async def work(note: Note, ctx: JobContext) -> None:
        await gate(note, ctx)

    return app, gate


@pytest.mark.looptime
async def test_with_one_slot_the_four_lanes_start_in_the_order_of_their_priority() -> None:
    app, gate = _shop()
    rig = Rig(app)
    gate.open(*Priority)
    for priority in reversed(Priority):
        await rig.submit(app.types["work"], str(priority), priority=priority)
    async with rig.working(concurrency=1):
        await rig.happens(JobCompleted, 4)
    assert gate.started == list(Priority)


@pytest.mark.looptime
async def test_a_critical_job_that_arrives_goes_next() -> None:
    app, gate = _shop()
    rig = Rig(app)
    work = app.types["work"]
    async with rig.working(concurrency=1, give_back_after=timedelta(hours=1)):
        await asyncio.sleep(1)
        await rig.submit(work, "running", priority=Priority.LOW)
        await gate.reached(1)
        for priority in (Priority.LOW, Priority.NORMAL, Priority.CRITICAL):
            await rig.submit(work, str(priority), priority=priority)
            await asyncio.sleep(1)
        gate.open("running", *Priority)
        await rig.happens(JobCompleted, 4)
    assert gate.started[:2] == ["running", "critical"]


@pytest.mark.looptime
async def test_what_can_not_start_in_time_is_given_back() -> None:
    app, gate = _shop()
    rig = Rig(app)
    work = app.types["work"]
    async with rig.working(concurrency=1):
        await asyncio.sleep(1)
        await rig.submit(work, "long", priority=Priority.CRITICAL)
        await gate.reached(1)
        await rig.submit(work, "low", priority=Priority.LOW)
        await asyncio.sleep(1)
        [low] = rig.sqs.messages("shop-jobs-low")
        assert low.state is MessageState.IN_FLIGHT
        await asyncio.sleep(200)
        [low] = rig.sqs.messages("shop-jobs-low")
        assert low.state is MessageState.VISIBLE
        gate.open("long", "low")
        await rig.happens(JobCompleted, 2)


@pytest.mark.looptime
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_low_work_is_not_handed_round_until_it_dies_while_higher_work_hogs_the_slots(
    concurrency: int,
) -> None:
    app = App("shop")

    @app.job("work")
    async def work(note: Note) -> None:
        await asyncio.sleep(40 if note.text == "long" else 0)

    rig = Rig(app)
    await rig.submit(work, *["long"] * 400 * concurrency, priority=Priority.CRITICAL)
    await rig.submit(work, *["low"] * 3, priority=Priority.LOW)
    async with rig.working(concurrency=concurrency):
        await asyncio.sleep(4 * 3600)
        receives = [message.receive_count for message in rig.sqs.messages("shop-jobs-low")]
        assert len(receives) == 3
        assert max(receives) <= 5
        assert rig.sqs.messages("shop-jobs-low-dlq") == []
        await rig.happens(JobCompleted, 400 * concurrency + 3)
    assert len(rig.heard(JobStarted)) == 400 * concurrency + 3


def _hold(waiting_in: str, received_at: float) -> Hold:
    spec = next(spec for spec in _SPECS if spec.name == waiting_in)
    message = ReceivedMessage(
        message_id="m",
        receipt=f"{waiting_in}/{received_at}",
        body="{}",
        receive_count=1,
        sent_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return Hold(Delivery(message=message, queue=spec, received_at=received_at), received_at)


def _two_groups() -> App:
    app, _ = _shop()
    app.queue("mail")
    return app


_SPECS = _two_groups().topology.queues


@given(st.lists(st.sampled_from([spec.name for spec in _SPECS]), max_size=40))
def test_what_comes_out_is_ordered_by_priority_then_by_age_and_nothing_is_lost(
    names: list[str],
) -> None:
    waiting = Waiting(_SPECS)
    holds = [_hold(name, float(moment)) for moment, name in enumerate(names)]
    for hold in holds:
        waiting.put(hold)
    out = []
    while (first := waiting.next()) is not None:
        out.append(first)
    assert out == sorted(
        holds, key=lambda hold: (hold.delivery.queue.priority.rank, hold.delivery.received_at)
    )
    assert len(waiting) == 0


@given(st.lists(st.sampled_from([spec.name for spec in _SPECS]), max_size=40), st.integers(0, 40))
def test_taking_out_by_a_condition_leaves_the_rest_in_order(names: list[str], moment: int) -> None:
    waiting = Waiting(_SPECS)
    holds = [_hold(name, float(received)) for received, name in enumerate(names)]
    for hold in holds:
        waiting.put(hold)
    taken = waiting.take_if(lambda hold: hold.delivery.received_at < moment)
    assert sorted(taken, key=id) == sorted(holds[:moment], key=id)
    assert sorted(waiting.take_all(), key=id) == sorted(holds[moment:], key=id)


@pytest.mark.looptime
async def test_a_critical_job_starts_at_once_though_lower_ones_have_taken_all_they_may() -> None:
    app = App("shop")
    gate = Gate()

    @app.job("work")
    async def work(note: Note, ctx: JobContext) -> None:
        await gate(note, ctx)

    rig = Rig(app)
    await rig.submit(work, *map(str, range(100)), priority=Priority.LOW)
    async with rig.working(concurrency=20):
        await gate.reached(18)
        await asyncio.sleep(60)
        assert len(gate.started) == 18, "a tenth of the slots is for critical jobs alone"
        before = rig.clock.monotonic()
        await rig.submit(work, "urgent", "urgent too", priority=Priority.CRITICAL)
        await gate.reached(20)
        assert gate.started[18:] == ["urgent", "urgent too"]
        assert rig.clock.monotonic() - before < 0.1
        gate.open(*gate.started, *map(str, range(100)))
        await rig.happens(JobCompleted, 102)


@pytest.mark.looptime
@pytest.mark.parametrize("priority", [Priority.CRITICAL, Priority.LOW])
async def test_without_anyone_to_keep_slots_from_all_of_them_are_used(priority: Priority) -> None:
    app = App("shop")
    gate = Gate()
    mail = app.queue("mail", priorities=[priority])

    @mail.job("work")
    async def work(note: Note, ctx: JobContext) -> None:
        await gate(note, ctx)

    rig = Rig(app)
    await rig.submit(work, *map(str, range(20)))
    async with rig.working(concurrency=20):
        await gate.reached(20)
        gate.open(*map(str, range(20)))
        await rig.happens(JobCompleted, 20)


@pytest.mark.parametrize(
    ("concurrency", "reserved"), [(10, 10), (10, 11), (10, -1)], ids=["all", "more", "negative"]
)
def test_slots_can_not_be_reserved_so_that_nothing_else_could_start(
    concurrency: int, reserved: int
) -> None:
    with pytest.raises(SettingsInvalid, match="reserved"):
        WorkerSettings(concurrency=concurrency, reserved=reserved)
