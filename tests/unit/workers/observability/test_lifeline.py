"""A worker reports that it lives, and that it ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from headgate import AsyncClient
from headgate.jobs.core.events import Event, Events, RecordsFailed
from headgate.jobs.core.ports.table import Item
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.records.lives import LEASE_S, LIVES, RENEW_S, Fate, Life, Lives, life_item
from headgate.jobs.testing import LoopClock, MemoryTable
from headgate.workers.observability.lifeline import Lifeline
from tests.unit.workers.rig import Note, Rig, one_lane

pytestmark = pytest.mark.looptime


class Alive:
    """A worker, reduced to its signs of life."""

    def __init__(self, table: MemoryTable, name: str) -> None:
        clock = LoopClock()
        self.heard: list[Event] = []
        self.lives = Lives(table, own=name, clock=clock)
        self.line = Lifeline(
            table,
            self.lives,
            name=name,
            groups={"mail"},
            hides_s=0,
            clock=clock,
            events=Events(self.heard.append),
            rng=random.Random(0),  # noqa: S311 - spreads beats
        )
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.line.start()
        self._running = asyncio.create_task(self.line.run())

    async def kill(self) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait([self._running])

    @property
    def faults(self) -> list[str]:
        return [event.error for event in self.heard if isinstance(event, RecordsFailed)]


class SlowBeats(MemoryTable):
    """Delays each beat after the first, even if nothing waits for it any more."""

    def __init__(self) -> None:
        super().__init__(LoopClock())
        self.on_its_way = asyncio.Event()

    async def put(self, items: Sequence[Item]) -> list[Item]:
        if any(item.pk == LIVES and item.data["beat"] > 1 for item in items):
            self.on_its_way.set()
            return await asyncio.shield(asyncio.create_task(self._put_late(items)))
        return await super().put(items)

    async def _put_late(self, items: Sequence[Item]) -> list[Item]:
        await asyncio.sleep(0.3)
        return await super().put(items)


def _rig() -> Rig:
    app, mail = one_lane()

    @mail.job("send")
    async def send(_note: Note) -> None: ...

    return Rig(app)


async def _lives(table: MemoryTable) -> list[Item]:
    return await table.query(LIVES)


async def test_it_beats_about_every_ten_seconds() -> None:
    table = MemoryTable(LoopClock())
    worker = Alive(table, "a")
    await worker.start()
    await asyncio.sleep(100 * RENEW_S)
    [life] = await _lives(table)
    assert 90 <= life.data["beat"] <= 110
    assert life.data["groups"] == ["mail"]
    await worker.kill()


async def test_others_see_that_it_was_killed() -> None:
    table = MemoryTable(LoopClock())
    worker, other = Alive(table, "a"), Alive(table, "b")
    await worker.start()
    await other.start()
    await asyncio.sleep(60)
    assert other.lives.fate("a") is Fate.OPEN
    await worker.kill()
    await asyncio.sleep(LEASE_S - 1)
    assert other.lives.fate("a") is Fate.OPEN
    await asyncio.sleep(2 * RENEW_S)
    assert other.lives.fate("a") is Fate.DIED
    await other.kill()


async def test_a_worker_that_ends_in_order_takes_its_life_along() -> None:
    table = MemoryTable(LoopClock())
    worker = Alive(table, "a")
    await worker.start()
    await worker.kill()
    await worker.line.close()
    assert await _lives(table) == []


async def test_a_table_that_was_away_makes_nobody_dead() -> None:
    table = MemoryTable(LoopClock())
    worker, other = Alive(table, "a"), Alive(table, "b")
    await worker.start()
    await other.start()
    await asyncio.sleep(60)
    table.faults.raise_on(None, ServiceUnavailable("away"), times=10**6)
    await asyncio.sleep(300)
    table.faults.clear()
    await worker.kill()  # which can't have reported it before
    for _ in range(20):
        await asyncio.sleep(10)
        assert other.lives.fate("a") is not Fate.DIED
    assert other.faults == ["away"], "each fault is told once"
    await other.kill()


async def test_a_table_that_hangs_holds_the_start_up_for_a_second_only() -> None:
    table = MemoryTable(LoopClock())
    table.faults.slow_down(None, 3600, times=10**6)
    worker = Alive(table, "a")
    began = asyncio.get_running_loop().time()
    await worker.start()
    assert asyncio.get_running_loop().time() - began <= 1
    assert worker.faults == ["no answer within 1 s"]
    table.faults.clear()
    await asyncio.sleep(3)
    assert len(await _lives(table)) == 1, "it tries again at once"
    await worker.kill()


async def test_items_that_the_table_leaves_out_are_no_beat() -> None:
    table = MemoryTable(LoopClock())
    table.faults.leave_unprocessed()
    worker = Alive(table, "a")
    await worker.start()
    assert worker.faults == ["the table was too busy"]
    await worker.kill()


async def test_the_dead_of_long_ago_are_forgotten() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    dead = [
        life_item(Life(name=f"dead-{number}", beat=1, groups=frozenset(), at=clock.now()))
        for number in range(30)
    ]
    await table.put(dead[:25])
    await table.put(dead[25:])
    worker = Alive(table, "a")
    await worker.start()
    await asyncio.sleep(3600)
    assert len(await _lives(table)) == 31
    await asyncio.sleep(3700)
    assert len(await _lives(table)) == 1
    await worker.kill()


async def test_a_table_that_hangs_holds_the_end_up_for_a_second_only() -> None:
    table = MemoryTable(LoopClock())
    worker = Alive(table, "a")
    await worker.line.start()
    table.faults.slow_down("delete", 3600)
    began = asyncio.get_running_loop().time()
    await worker.line.close()
    assert asyncio.get_running_loop().time() - began <= 1
    assert worker.faults == ["no answer within 1 s"]


async def test_what_can_not_be_deleted_at_the_end_is_told() -> None:
    table = MemoryTable(LoopClock())
    worker = Alive(table, "a")
    await worker.line.start()
    table.faults.raise_on("delete", ServiceUnavailable("away"))
    await worker.line.close()
    assert worker.faults == ["away"]


async def test_a_beat_under_way_does_not_outlive_the_worker_that_ended_in_order() -> None:
    rig = _rig()
    rig.table = table = SlowBeats()
    worker = rig.worker()
    working = asyncio.create_task(worker.run())
    await table.on_its_way.wait()
    worker.hurry()
    await working
    await asyncio.sleep(1)
    assert await _lives(table) == []


async def test_a_beat_that_hangs_holds_the_end_up_for_a_second_only() -> None:
    table = MemoryTable(LoopClock())
    worker = Alive(table, "a")
    await worker.start()
    table.faults.slow_down("put", 3600)
    await asyncio.sleep(RENEW_S * 1.3)
    began = asyncio.get_running_loop().time()
    await worker.line.close()
    assert asyncio.get_running_loop().time() - began <= 1
    assert await _lives(table) == []
    await worker.kill()


async def test_it_beats_no_more_once_it_has_ended() -> None:
    table = MemoryTable(LoopClock())
    worker = Alive(table, "a")
    await worker.start()
    await worker.line.close()
    await asyncio.sleep(10 * RENEW_S)
    assert await _lives(table) == []
    await worker.kill()


async def test_an_end_that_fails_beside_the_jobs_takes_the_life_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(_client: AsyncClient) -> None:
        raise OSError("the spool is gone")

    monkeypatch.setattr(AsyncClient, "close", broken)
    rig = _rig()
    worker = rig.worker()
    working = asyncio.create_task(worker.run())
    await asyncio.sleep(1)
    worker.hurry()
    with pytest.raises(ExceptionGroup):
        await working
    assert await _lives(rig.table) == []
