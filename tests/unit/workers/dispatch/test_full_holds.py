"""Jobs that wait here, however many, keep none of other priorities from being received."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headgate import App, Batch, BatchContext, Priority, RetryBudget
from headgate.jobs.core.events import JobStarted
from headgate.jobs.core.ports.table import Item
from headgate.jobs.errors import ServiceUnavailable
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads


class _Urgent:
    """An app with a critical type of job, and how late each of them started."""

    def __init__(self) -> None:
        self.app = App("shop", priorities="all")
        self.late_s: list[float] = []

        @self.app.job("urgent", priority=Priority.CRITICAL)
        async def urgent(note: Note) -> None:
            self.late_s.append(asyncio.get_running_loop().time() - float(note.text))

        self.type = urgent

    async def start_at_once(self, rig: Rig) -> None:
        """Submit one every 0.73 s, so that some come at any moment of the others' lives."""
        async with rig.working(concurrency=10, drain=timedelta(0)):
            for _ in range(60):
                await asyncio.sleep(0.73)
                await rig.submit(self.type, str(asyncio.get_running_loop().time()))
            await asyncio.sleep(20)
        assert len(self.late_s) == 60
        assert max(self.late_s) < 0.1, self.late_s


async def test_critical_jobs_start_at_once_while_bundles_fill_the_holds() -> None:
    urgent = _Urgent()

    @urgent.app.job("bulk", priority=Priority.LOW, bundle=True)
    async def bulk(_note: Note) -> None:
        await asyncio.sleep(3)

    rig = Rig(urgent.app)
    await rig.submit(bulk, *["x" * 900] * 1200)
    await urgent.start_at_once(rig)


async def test_critical_jobs_start_at_once_while_batches_fill_the_holds() -> None:
    urgent = _Urgent()
    low = urgent.app.queue("low", priorities=[Priority.LOW])

    @low.job("bulk", batch=Batch(size=100, wait=2))
    async def bulk(_notes: list[Note], _ctx: BatchContext) -> None:
        await asyncio.sleep(10)

    rig = Rig(urgent.app)
    await rig.submit(bulk, *["x"] * 6000)
    await urgent.start_at_once(rig)


async def test_critical_jobs_start_at_once_while_failed_ones_wait_for_their_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    urgent = _Urgent()
    budget = RetryBudget(100, per=60, scope="fleet")
    low = urgent.app.queue("low", priorities=[Priority.LOW], retry_budget=budget)

    @low.job("bad")
    async def bad(_note: Note) -> None:
        raise ConnectionError

    rig = Rig(urgent.app)
    await rig.submit(bad, *["x"] * 400)

    async def hang(_item: Item) -> Item | None:
        await asyncio.sleep(3)
        raise ServiceUnavailable("away")

    monkeypatch.setattr(rig.table, "replace", hang)
    await urgent.start_at_once(rig)


async def test_a_share_is_received_while_bundles_of_higher_work_fill_the_holds() -> None:
    app = App("shop", priorities="all")

    @app.job("bulk", priority=Priority.CRITICAL, bundle=True)
    async def bulk(_note: Note) -> None:
        await asyncio.sleep(3)

    @app.job("mail", priority=Priority.HIGH)
    async def mail(_note: Note) -> None:
        await asyncio.sleep(3)

    rig = Rig(app)
    await rig.submit(bulk, *["x" * 900] * 2400)
    await rig.submit(mail, *["x"] * 300)
    async with rig.working(concurrency=20, drain=timedelta(0)):
        await asyncio.sleep(120)
        types = [event.job_type for event in rig.heard(JobStarted)]
    assert types.count("mail") > 0.19 * len(types)
