"""A worker of some queue groups and priorities touches no other queue."""

from __future__ import annotations

import asyncio

import pytest

from headgate import App, Priority
from headgate.jobs.core.events import JobCompleted
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.deployment.groups.queue_selection import QueueSelection
from headgate.jobs.errors import ConfigurationError, SettingsInvalid, UnknownQueue
from headgate.workers.configuration import WorkerSettings, read_priorities
from tests.unit.workers.rig import Gate, Note, Rig

URGENT = (Priority.CRITICAL, Priority.HIGH)


async def _nothing(note: Note) -> None:
    """Do nothing; the handler of all of the shop's jobs."""


def _shop() -> App:
    app = App("shop", priorities="all")
    app.job("work")(_nothing)
    app.queue("mail", priorities=[Priority.HIGH, Priority.LOW]).job("send", priority=Priority.LOW)(
        _nothing
    )
    return app


@pytest.mark.looptime
async def test_a_worker_receives_from_the_queues_of_its_priorities_alone() -> None:
    app = _shop()
    rig = Rig(app)
    for priority in Priority:
        await rig.submit(app.types["work"], priority=priority)
    await rig.submit(app.types["send"], priority=Priority.HIGH)
    await rig.submit(app.types["send"], priority=Priority.LOW)
    async with rig.working(priorities=URGENT):
        await rig.happens(JobCompleted, 3)
        await asyncio.sleep(60)
    asked = {call.queue for call in rig.sqs.calls if call.action == "receive"}
    assert asked == {spec.name for spec in QueueSelection(priorities=URGENT).of(app.topology)}
    assert rig.remaining() == 3


@pytest.mark.looptime
async def test_groups_and_priorities_select_the_queues_that_have_both() -> None:
    app = _shop()
    rig = Rig(app)
    async with rig.working(queues=("mail",), priorities=URGENT):
        await asyncio.sleep(60)
    assert {call.queue for call in rig.sqs.calls if call.action == "receive"} == {"shop-mail-high"}


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("priorities", "at_once"),
    [((Priority.LOW,), 10), (URGENT, 9), ((Priority.CRITICAL,), 10)],
    ids=["no critical queue", "critical and others", "critical alone"],
)
async def test_slots_are_reserved_where_a_worker_has_critical_queues_and_others(
    priorities: tuple[Priority, ...], at_once: int
) -> None:
    app, gate = App("shop", priorities="all"), Gate()
    app.job("work")(gate.__call__)
    rig = Rig(app)
    texts = [str(number) for number in range(2 * MAX_BATCH)]
    await rig.submit(app.types["work"], *texts, priority=priorities[-1])
    async with rig.working(concurrency=10, priorities=priorities):
        await gate.reached(at_once)
        await asyncio.sleep(60)
        assert len(gate.started) == at_once
        gate.open(*texts)
        await rig.happens(JobCompleted, len(texts))


def test_a_worker_of_a_priority_that_no_queue_has_is_refused() -> None:
    app = App("shop")
    app.queue("mail", priorities=[Priority.HIGH]).job("send", priority=Priority.HIGH)(_nothing)
    with pytest.raises(ConfigurationError, match="none of the queues mail has the priority low"):
        Rig(app).worker(priorities=(Priority.LOW,))


def test_a_worker_of_a_group_that_is_not_there_is_told_of_the_nearest() -> None:
    app = _shop()
    with pytest.raises(UnknownQueue, match="did you mean 'mail'"):
        Rig(app).worker(queues=("mial",), priorities=URGENT)


def test_an_app_without_queues_is_no_work() -> None:
    with pytest.raises(ConfigurationError, match="'shop' has no queue to work on"):
        WorkerSettings().selection.of(App("shop").topology)


def test_priorities_are_read_from_a_list() -> None:
    assert read_priorities("critical, high") == URGENT


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("criticl", "no priority 'criticl': did you mean 'critical'"),
        ("high,", "no priority '': known are: critical, high, low, normal"),
    ],
)
def test_what_is_no_priority_is_answered_with_the_nearest(text: str, says: str) -> None:
    with pytest.raises(SettingsInvalid, match=says):
        read_priorities(text)
