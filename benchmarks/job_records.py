"""Lists jobs of many records on DynamoDB Local: what a page takes, of few and of many.

    python -m benchmarks.job_records --jobs 1000000

Prints a line for each step, by `AsyncClient`: the first page of 50, the page after it, one type's
dead jobs, and a count, each after a thousand jobs and after all of them, with the requests to the
table. Filling the table takes the most time; its progress is told on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from benchmarks.console_app import TYPES
from benchmarks.stage import use_test_account
from headgate import App, AsyncClient, JobFilter
from headgate.jobs.aws.dynamo.table import AsyncDynamoTable
from headgate.jobs.aws.provision import create_table
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.concurrency import Tasks
from headgate.jobs.core.ports.table import MAX_PUT, Item
from headgate.jobs.core.retention import DEFAULT_KEEP
from headgate.jobs.errors import TransportError
from headgate.jobs.records.items import Mark, Scribe
from headgate.jobs.testing import MemorySqs
from tests.support.backends import async_over
from tests.support.java_servers import java_process

FEW = 1_000
_AT_ONCE = 8
_TOLD_EVERY = 50_000
_RETENTION = timedelta(days=4)


class _Counted:
    """A table that counts the requests that read."""

    def __init__(self, table: AsyncDynamoTable) -> None:
        self._table = table
        self.requests = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._table, name)

        async def counted(*args: Any, **options: Any) -> Any:
            self.requests += 1
            return await call(*args, **options)

        return counted


def main() -> None:
    """Fill a table, and list its jobs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    count = parser.parse_args().jobs
    use_test_account()
    with java_process("dynamodb") as server:
        asyncio.run(_run(server.endpoint_url, count))


async def _run(endpoint_url: str, count: int) -> None:
    app = App(f"b{uuid4().hex[:8]}", priorities="all")
    for name in TYPES:
        app.define(name, dict[str, str])
    name = app.topology.table_name
    await create_table(name, endpoint_url=endpoint_url)
    async with AsyncDynamoTable(name, endpoint_url=endpoint_url) as table:
        counted: Any = _Counted(table)
        backend = async_over(MemorySqs(SystemClock()), table=counted)
        async with AsyncClient(app, backend=backend) as client:
            few = min(FEW, count)
            await fill(table, range(few))
            await _look(client, counted, few)
            await fill(table, range(few, count))
            await _look(client, counted, count)


async def _look(client: AsyncClient, table: _Counted, count: int) -> None:
    print(f"{count:,} jobs")
    first = await _measure("first page of 50", table, client.jobs.list)
    await _measure("the page after it", table, lambda: client.jobs.list(after=first.next))
    dead = JobFilter(states=("dead",), types=("charge-card",))
    await _measure("dead jobs of one type", table, lambda: client.jobs.list(dead))
    await _measure("count, 100,000 entries at most", table, client.jobs.count)


async def _measure(what: str, table: _Counted, step: Callable[[], Awaitable[Any]]) -> Any:
    before, began_s = table.requests, time.perf_counter()
    found = await step()
    took_s = time.perf_counter() - began_s
    requests = table.requests - before
    print(f"  {what:<32} {took_s:7.3f} s  {requests:6,} requests", flush=True)
    return found


async def fill(table: AsyncDynamoTable, numbers: Sequence[int]) -> None:
    """Write the failures and the ends of jobs that died, one after the other by their time."""
    now, told = datetime.now(UTC), 0

    async def put(batch: Sequence[int]) -> None:
        nonlocal told
        items: Sequence[Item] = [item for number in batch for item in _died(number, now)]
        while items:
            with suppress(TransportError):  # a machine that is busy; the same items are put again
                items = await table.put(items)
        if batch[-1] // _TOLD_EVERY > told:
            told = batch[-1] // _TOLD_EVERY
            print(f"{told * _TOLD_EVERY:,} jobs", file=sys.stderr, flush=True)

    jobs = MAX_PUT // 2
    batches = [numbers[first : first + jobs] for first in range(0, len(numbers), jobs)]
    await Tasks().each(put, batches, at_once=_AT_ONCE)


def _died(number: int, now: datetime) -> Iterator[Item]:
    at = now - timedelta(days=3) + timedelta(seconds=0.2 * number)
    scribe = Scribe(
        job_id=str(uuid4()),
        message_id=str(uuid4()),
        receive=1,
        job_type=TYPES[number % len(TYPES)],
        queue="jobs",
        worker="bench",
        level="outcomes",
        keep=DEFAULT_KEEP,
        retention=_RETENTION,
    )
    error = {"attempt": 1, "error_type": "ConnectionError", "error_message": "the bank is away"}
    yield scribe.mark(Mark.FAILED, at, {**error, "ran_s": 0.1})
    yield scribe.mark(Mark.DEAD, at, {**error, "reason": "attempts-exhausted"})


if __name__ == "__main__":
    main()
