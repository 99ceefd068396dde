"""Thousands of unique jobs in one call: their claims last until the jobs are sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from headgate import App, AsyncClient, Unique
from headgate.jobs.core.ports.table import Item
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import PartlySubmitted, ServiceUnavailable
from headgate.jobs.messages.envelope import parse
from headgate.jobs.testing import LoopClock, MemorySqs, MemoryTable
from tests.support.backends import async_over
from tests.unit.workers.rig import Wire

pytestmark = pytest.mark.looptime

HOURLY = Unique(within=timedelta(hours=1))


class SlowTable:
    """A table whose writes take a while."""

    def __init__(self, table: MemoryTable, write_s: float) -> None:
        self._table = table
        self._write_s = write_s

    async def replace(self, item: Item) -> Item | None:
        await asyncio.sleep(self._write_s)
        return await self._table.replace(item)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


class Bench:
    """Two processes that submit to one queue, the first of them with a slow table."""

    def __init__(self, write_s: float = 0.0, **queue: Any) -> None:
        self.app, self.clock = App("shop"), LoopClock()
        jobs = self.app.queue("numbers", **queue)
        options: dict[str, Any] = {"group_by": lambda _number: "all"} if queue else {}
        self.job: JobType[int, Any] = jobs.define("number", int, unique=HOURLY, **options)
        self.sqs, self.table = MemorySqs(self.clock), MemoryTable(self.clock)
        self.sqs.provision(self.app.topology)
        self.wire = Wire(self.sqs)
        slow: Any = SlowTable(self.table, write_s)
        self.client = AsyncClient(
            self.app, backend=async_over(self.wire, table=slow, clock=self.clock)
        )
        self.other = AsyncClient(
            self.app, backend=async_over(self.sqs, table=self.table, clock=self.clock)
        )

    def sent(self) -> list[int]:
        queues = [spec.name for spec in self.app.topology.queues]
        messages = [message for name in queues for message in self.sqs.messages(name)]
        return [parse(message.body).payload for message in messages]


@pytest.mark.parametrize("write_s", [0.008, 0.25, 0.5])
async def test_a_call_with_many_keys_does_not_outlive_its_claims(write_s: float) -> None:
    bench = Bench(write_s)
    numbers = [0, *range(800), 799]
    async with bench.client as client, bench.other as other:
        call = asyncio.create_task(client.submit_many(bench.job, numbers))
        while not call.done():
            for number in (0, 7, 99, 100, 799):
                if not call.done() and number in bench.sent():
                    assert (await other.submit(bench.job, number)).is_duplicate
            await asyncio.sleep(1)
        handles = await call
    assert max(Counter(bench.sent()).values()) == 1
    assert len({handle.id for handle in handles}) == 800
    assert handles[0].id == handles[1].id
    assert handles[-1].id == handles[-2].id


async def test_a_claim_that_another_has_taken_over_sends_no_job() -> None:
    bench = Bench(3)  # claiming takes longer than a claim lasts
    async with bench.client as client, bench.other as other:
        call = asyncio.create_task(client.submit_many(bench.job, range(100)))
        await asyncio.sleep(30)
        assert not bench.sent()
        taken = await other.submit(bench.job, 0)
        assert not taken.is_duplicate
        handles = await call
    assert handles[0].is_duplicate
    assert handles[0].id == taken.id
    assert max(Counter(bench.sent()).values()) == 1


async def test_an_outage_between_the_claims_of_a_call_lists_what_was_not_sent() -> None:
    bench = Bench()
    with mock.patch("headgate.jobs.client.submitting.unique._TOGETHER", 10):
        async with bench.client as client:
            writes = bench.table.replace

            async def failing(item: Item) -> Item | None:
                if len(bench.sent()) == 10 and item.data["sent"] is False:
                    raise ServiceUnavailable("gone")
                return await writes(item)

            with (
                mock.patch.object(bench.table, "replace", failing),
                pytest.raises(PartlySubmitted) as raised,
            ):
                await client.submit_many(bench.job, range(40))
    assert [refusal.index for refusal in raised.value.refusals] == [*range(10, 40)]
    assert len(raised.value.sent) == 10
    assert sorted(bench.sent()) == [*range(10)]


async def test_no_job_overtakes_a_refused_one_of_its_fifo_group() -> None:
    bench = Bench(fifo=True)
    bench.wire.refused = lambda message: parse(message.body).payload == 1
    with mock.patch("headgate.jobs.client.submitting.unique._TOGETHER", 1):
        async with bench.client as client:
            with pytest.raises(PartlySubmitted) as raised:
                await client.submit_many(bench.job, range(4))
    assert bench.sent() == [0]
    assert [refusal.index for refusal in raised.value.refusals] == [1, 2, 3]
    assert [refusal.code for refusal in raised.value.refusals][1:] == ["HeldBack", "HeldBack"]
