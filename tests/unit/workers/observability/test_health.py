"""A worker's health while the table is away: degraded for as long as that lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from headgate import App, Backoff, Priority, RateLimit, Retry, RetryBudget
from headgate.jobs.core.events import JobStarted, LeaseFailed, RecordsFailed
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import ServiceUnavailable
from headgate.workers.observability.health import Health, Status
from headgate.workers.worker import Worker
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads

HOUR_S = 3600


class Calls:
    """An app of one queue, a worker of it, and the worker's health, wired as in a process."""

    def __init__(self, *, records: Any = "outcomes", **limits: Any) -> None:
        app = App("shop", records=records)
        retry = Retry(max_attempts=1000, backoff=Backoff.fixed(5))
        calls = app.queue("calls", priorities=[Priority.NORMAL], retry=retry, **limits)

        @calls.job("call")
        async def call(_note: Note) -> None:
            if self.fails:
                raise ConnectionError("refused")

        self.fails = False
        """True if its jobs do."""
        self.call: JobType[Any, Any] = call
        self.rig = Rig(app)
        self._workers: list[Worker] = []
        self.health = Health(
            ["shop-calls-normal"],
            clock=self.rig.clock,
            held_back=lambda: self._workers[0].is_held_back,
            faults=self._faults,
        )
        self.rig.subscribers.append(self.health)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run a worker in a block; at its end the table is back."""
        async with self.rig.working() as worker:
            self._workers.append(worker)
            await asyncio.sleep(30)
            assert self.bad() == set()
            try:
                yield
            finally:
                self.rig.table.faults.clear()

    def _faults(self) -> Mapping[str, str]:
        return self._workers[0].faults()

    def lose_table(self) -> None:
        """Have every request to the table fail from now on."""
        self.rig.table.faults.raise_on(None, ServiceUnavailable("gone"), times=10**6)

    def bad(self) -> set[str]:
        """Return the names of the checks that are not healthy."""
        checks = self.health.assess().checks
        return {check.name for check in checks if check.status is not Status.HEALTHY}


async def test_a_worker_that_starts_nothing_without_the_table_stays_degraded() -> None:
    calls = Calls(rate_limit=RateLimit(100, scope="fleet"))
    async with calls.working():
        calls.lose_table()
        await asyncio.sleep(60)
        await calls.rig.submit(calls.call, *["x"] * 50)
        for _ in range(6):
            await asyncio.sleep(HOUR_S / 6)
            assert calls.bad() == {"records", "limits"}
        assert not calls.rig.heard(JobStarted)
        assert len(calls.rig.heard(LeaseFailed)) == 1, "it is logged once"
        calls.rig.table.faults.clear()
        await asyncio.sleep(90)
        assert calls.bad() == set()
        assert len(calls.rig.heard(JobStarted)) == 50


async def test_an_idle_worker_stays_degraded_while_the_table_is_away() -> None:
    calls = Calls()
    async with calls.working():
        calls.lose_table()
        for _ in range(6):
            await asyncio.sleep(HOUR_S / 6)
            assert calls.bad() == {"records"}
        assert len(calls.rig.heard(RecordsFailed)) == 2, "of the sign of life, and of the status"
        calls.rig.table.faults.clear()
        await asyncio.sleep(90)
        assert calls.bad() == set()


async def test_a_worker_whose_retries_are_not_counted_stays_degraded() -> None:
    budget = RetryBudget(10**6, per=timedelta(minutes=1), scope="fleet")
    calls = Calls(records="off", retry_budget=budget)
    async with calls.working():
        calls.lose_table()
        calls.fails = True
        await calls.rig.submit(calls.call)
        await asyncio.sleep(30)
        for _ in range(6):
            await asyncio.sleep(HOUR_S / 6)
            assert calls.bad() == {"limits"}
        assert len(calls.rig.heard(LeaseFailed)) == 1
        calls.rig.table.faults.clear()
        await asyncio.sleep(90)
        assert calls.bad() == set()


async def test_a_fault_that_no_retry_has_met_lately_is_no_longer_one() -> None:
    budget = RetryBudget(10, per=timedelta(minutes=1), scope="fleet")
    calls = Calls(records="off", retry_budget=budget)
    async with calls.working():
        calls.lose_table()
        calls.fails = True
        await calls.rig.submit(calls.call)
        await calls.rig.happens(LeaseFailed)
        calls.fails = False
        await asyncio.sleep(120)
        assert calls.bad() == set()


async def test_a_renewal_under_way_is_no_fault() -> None:
    calls = Calls(rate_limit=RateLimit(100, scope="fleet"))
    async with calls.working():
        calls.rig.table.faults.slow_down("replace", 4, times=3)
        for _ in range(40):
            await asyncio.sleep(0.5)
            assert calls.bad() == set()
