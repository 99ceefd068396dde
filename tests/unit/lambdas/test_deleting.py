"""Messages of ended jobs are deleted while others run; the last ones are left to Lambda."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headgate import App, Priority
from headgate.jobs.core.events import Event, Events, SettlementFlushed
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.testing import LoopClock, MemorySqs
from headgate.lambdas.deleting import LINGER_S, Deletes

pytestmark = pytest.mark.looptime


class Rig:
    """A queue with messages in flight, and the deleter."""

    def __init__(self) -> None:
        app = App("shop")
        app.queue("mail", priorities=[Priority.NORMAL])
        self.spec = app.topology.queues[-1]
        self.clock = LoopClock()
        self.sqs = MemorySqs(self.clock)
        self.sqs.provision(app.topology)
        self.events: list[Event] = []
        self.deletes = Deletes(self.sqs, clock=self.clock, events=Events(self.events.append))

    async def received(self, count: int) -> list[Delivery]:
        for _ in range(count):
            await self.sqs.send(self.spec.name, [OutgoingMessage(body="{}")])
        found: list[Delivery] = []
        while len(found) < count:
            found += [
                Delivery(message=each, queue=self.spec, received_at=self.clock.monotonic())
                for each in await self.sqs.receive(self.spec.name, limit=10, wait_s=0)
            ]
        return found

    @property
    def left(self) -> int:
        return len(self.sqs.messages(self.spec.name))

    @property
    def requests(self) -> list[int]:
        return [each.entries for each in self.events if isinstance(each, SettlementFlushed)]


async def test_what_has_ended_is_deleted_soon_and_together() -> None:
    rig = Rig()
    for delivery in await rig.received(3):
        rig.deletes.put(delivery)
    await asyncio.sleep(LINGER_S / 2)
    assert rig.left == 3
    await asyncio.sleep(LINGER_S)
    assert rig.left == 0
    assert rig.requests == [3]


async def test_ten_deletes_are_sent_without_waiting_for_more() -> None:
    rig = Rig()
    for delivery in await rig.received(12):
        rig.deletes.put(delivery)
    await asyncio.sleep(0.001)
    assert rig.left == 2


async def test_what_is_elsewhere_already_waits_for_nothing() -> None:
    rig = Rig()
    waits, goes = await rig.received(2)
    rig.deletes.put(waits)
    rig.deletes.put(goes, at_once=True)
    await asyncio.sleep(0.001)
    assert rig.left == 0


async def test_what_ends_with_the_invocation_is_left_to_lambda() -> None:
    rig = Rig()
    for delivery in await rig.received(3):
        rig.deletes.put(delivery)
    await rig.deletes.close()
    await asyncio.sleep(1)
    assert rig.left == 3
    assert rig.requests == []


async def test_draining_deletes_all_of_it() -> None:
    rig = Rig()
    for delivery in await rig.received(3):
        rig.deletes.put(delivery)
    await rig.deletes.drain()
    assert rig.left == 0


async def _fails(*_: object) -> list[object]:
    raise ServiceUnavailable("down")


async def _hangs(*_: object) -> list[object]:
    await asyncio.Event().wait()
    return []


@pytest.mark.parametrize("delete", [_fails, _hangs])
async def test_an_sqs_that_takes_no_deletes_is_told_of_and_holds_up_nothing(
    delete: Callable[..., Awaitable[list[object]]], caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig()
    rig.sqs.delete = delete  # type: ignore[assignment,method-assign]  # a dead network
    for delivery in await rig.received(2):
        rig.deletes.put(delivery)
    began_at = rig.clock.monotonic()
    await rig.deletes.drain()
    assert rig.clock.monotonic() - began_at <= 1
    assert "2 finished messages of shop-mail-normal are left to Lambda" in caplog.text


async def test_an_entry_that_sqs_refuses_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.sqs.faults.fail_entries("delete", indexes=[1], sender_fault=True)
    for delivery in await rig.received(2):
        rig.deletes.put(delivery)
    await rig.deletes.drain()
    assert rig.left == 1
    assert "1 finished messages" in caplog.text
