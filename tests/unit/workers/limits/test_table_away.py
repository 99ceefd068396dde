"""A concurrency of the fleet holds although its table is away for longer than a lease."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headgate import App, Concurrency, Priority
from headgate.jobs.core.events import Events
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.testing import MemoryTable
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker
from tests.support.backends import async_over
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads

LIMIT = 4

_REQUESTS = {"put", "query", "page", "get", "delete", "replace", "lines", "scan"}


class Reachable:
    """One worker's way to the table, which may be cut."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table
        self.is_cut = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._table, name)
        return self._over_the_way(found) if name in _REQUESTS else found

    def _over_the_way(self, request: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def call(*arguments: Any, **options: Any) -> Any:
            if self.is_cut:
                raise ServiceUnavailable("gone")
            return await request(*arguments, **options)

        return call


class Fleet:
    """Two workers of one limit, each with its own way to the table, and the jobs that run."""

    def __init__(self) -> None:
        app = App("shop")
        slots = Concurrency(LIMIT, scope="fleet")
        db = app.queue("db", priorities=[Priority.NORMAL], concurrency=slots)
        self.running = self.most = 0

        @db.job("work")
        async def work(_note: Note) -> None:
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await asyncio.sleep(900)
            finally:
                self.running -= 1

        self.rig = Rig(app)
        self.work = work
        self.ways = [Reachable(self.rig.table) for _ in range(2)]
        self.workers = [self._worker(number) for number in range(2)]
        self._runs: list[asyncio.Task[Any]] = []

    def _worker(self, number: int) -> Worker:
        backend = async_over(
            self.rig.wire,
            table=self.ways[number],
            scheduler=self.rig.scheduler,
            store=self.rig.store,
            clock=self.rig.clock,
            rng=random.Random(number),  # noqa: S311 - spreads renewals
        )
        return Worker(
            self.rig.app, backend, WorkerSettings(), name=f"w{number}", events=Events(self.rig.hear)
        )

    async def begin(self) -> None:
        """Have the first worker take all slots, and the second one wait for some."""
        await self.rig.submit(self.work, *["x"] * 40)
        for worker in self.workers:
            self._runs.append(asyncio.create_task(worker.run()))
            await asyncio.sleep(60)
        assert self.running == LIMIT

    async def end(self) -> None:
        for worker in self.workers:
            worker.hurry()
        await asyncio.gather(*self._runs)


@pytest.mark.parametrize("outage_s", [20, 40, 600])
async def test_no_job_starts_for_one_that_runs_on_while_the_table_is_away(outage_s: int) -> None:
    fleet = Fleet()
    await fleet.begin()
    for way in fleet.ways:
        way.is_cut = True
    await asyncio.sleep(outage_s)
    for way in reversed(fleet.ways):  # the one that runs nothing is the first to reach it again
        way.is_cut = False
        await asyncio.sleep(15)
    await asyncio.sleep(120)
    assert fleet.most == LIMIT
    await asyncio.sleep(900)
    assert fleet.running == LIMIT, "and others start once they end"
    await fleet.end()


async def test_a_worker_that_is_cut_off_alone_for_20_s_keeps_its_slots() -> None:
    fleet = Fleet()
    await fleet.begin()
    fleet.ways[0].is_cut = True
    await asyncio.sleep(20)
    fleet.ways[0].is_cut = False
    await asyncio.sleep(120)
    assert fleet.most == LIMIT
    await fleet.end()


async def test_the_slots_of_a_worker_that_died_are_free_within_a_minute() -> None:
    fleet = Fleet()
    await fleet.begin()
    fleet.ways[0].is_cut = True  # to the others it is the same as its death
    await asyncio.sleep(60)
    assert fleet.running == 2 * LIMIT
    await fleet.end()
