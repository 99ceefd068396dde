"""Jobs that run, as the table's index lists them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headgate import App, AsyncClient, JobFilter, Retry
from headgate.jobs.core.events import JobCompleted, JobFailed
from headgate.jobs.records.items import partition
from tests.unit.workers.rig import Note, Rig

pytestmark = pytest.mark.looptime

RUNNING = JobFilter(states=("running",))


class Bench:
    """A worker's rig, and jobs that run until they are let go."""

    def __init__(self, records: Any) -> None:
        self.app = App("shop", records=records)
        self.let_go = asyncio.Event()
        self.fails = 0

        @self.app.job("long", retry=Retry(max_attempts=2))
        async def long(_note: Note) -> None:
            if self.fails:
                self.fails -= 1
                raise ConnectionError
            await self.let_go.wait()

        @self.app.job("short")
        async def short(_note: Note) -> None: ...

        self.long, self.short = long, short
        self.rig = Rig(self.app)
        self.client = AsyncClient(self.app, backend=self.rig.backend)

    async def running(self) -> list[str]:
        page = await self.client.jobs.list(RUNNING)
        return [each.id for each in page.jobs]


@pytest.mark.parametrize("records", ["outcomes", "full"])
async def test_a_job_is_listed_once_it_has_run_for_a_second_and_until_it_ends(
    records: Any,
) -> None:
    bench = Bench(records)
    [long] = await bench.rig.submit(bench.long, "a")
    [short] = await bench.rig.submit(bench.short, "b")
    async with bench.rig.working():
        await bench.rig.happens(JobCompleted)
        assert await bench.running() == []
        await asyncio.sleep(5)
        assert await bench.running() == [long]
        bench.let_go.set()
        await bench.rig.happens(JobCompleted, 2)
    assert await bench.running() == []
    starts = [each for each in await bench.rig.table.query(partition(short)) if each.line]
    assert not any(each.sk.endswith("started") for each in starts), "a short job costs no entry"


@pytest.mark.parametrize("records", ["failures", "outcomes"])
async def test_a_later_attempt_is_listed_as_running_from_its_start(records: Any) -> None:
    bench = Bench(records)
    bench.fails = 1
    [long] = await bench.rig.submit(bench.long, "a")
    async with bench.rig.working():
        await bench.rig.happens(JobFailed)
        await asyncio.sleep(10)
        assert await bench.running() == [long]
        bench.let_go.set()
        await bench.rig.happens(JobCompleted)
    assert await bench.running() == []
