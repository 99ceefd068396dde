"""The pool of child processes alone: replacement of children, and failure to start any."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, AsyncClient
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.app_path import app_path, load_app
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Deferred, Done, Outcome
from headgate.jobs.execution.run import Run
from headgate.jobs.testing import MemorySqs
from headgate.workers.isolation.child_pool import ChildPool
from tests.support import isolated_app
from tests.support.backends import async_over
from tests.support.isolated_app import Work, app
from tests.support.journal import GENEROUS_S

CLOCK = SystemClock()


@asynccontextmanager
async def pool_of(
    path: str = "tests.support.isolated_app:app", **options: Any
) -> AsyncIterator[tuple[ChildPool, list[str]]]:
    """Yield a running pool, and the errors that it reported."""
    faults: list[str] = []
    pool = ChildPool(
        path,
        clock=CLOCK,
        rng=random.Random(1),  # noqa: S311 - spreads pauses
        on_fault=faults.append,
        **({"size": 1} | options),
    )
    await pool.start()
    try:
        yield pool, faults
    finally:
        await pool.close()


async def echo(pool: ChildPool) -> Outcome:
    """Run one job in the pool."""
    sqs = MemorySqs(CLOCK)
    sqs.provision(app.topology)
    async with AsyncClient(app, backend=async_over(sqs)) as client:
        await client.submit(isolated_app.echo, Work())
    queue = app.topology.queue("work", isolated_app.echo.priority)
    [message] = await sqs.receive(queue.name, limit=1, wait_s=0)
    means = Means(app=app, clock=CLOCK, events=Events(), call_isolated=pool.call)
    delivery = Delivery(message=message, queue=queue, received_at=CLOCK.monotonic())
    async with asyncio.timeout(GENEROUS_S):
        return (await Run(Executor(means), delivery).verdict()).outcome


async def pid_of(pool: ChildPool) -> int:
    """Return the id of the process that runs a job now."""
    outcome = await echo(pool)
    assert isinstance(outcome, Done)
    return int(outcome.result["pid"])


async def test_a_child_is_replaced_after_so_many_jobs() -> None:
    async with pool_of(jobs_per_child=3) as (pool, faults):
        pids = [await pid_of(pool) for _ in range(7)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]
    assert faults == []


async def test_a_child_that_has_grown_beyond_its_limit_is_replaced() -> None:
    async with pool_of(max_rss_mb=1) as (pool, _):
        assert len({await pid_of(pool) for _ in range(3)}) == 3


async def test_children_that_can_not_import_the_app_defer_jobs_with_the_reason() -> None:
    async with pool_of("tests.support.nowhere:app", ready_s=30) as (pool, faults):
        outcome = await echo(pool)
        assert pool.capacity == 0
    assert isinstance(outcome, Deferred)
    assert outcome.after_s >= timedelta(seconds=1).total_seconds()
    assert "no child process could be started" in outcome.reason
    assert "tests.support.nowhere" in faults[0]


async def test_a_pool_that_is_closed_takes_no_job() -> None:
    async with pool_of() as (pool, _):
        await pid_of(pool)
    assert pool.capacity == 0
    assert isinstance(await echo(pool), Deferred)
    await pool.close()  # closing again is safe


def test_the_app_is_found_where_a_module_has_it() -> None:
    assert load_app(app_path(app)) is app  # whichever module imports it


def test_an_app_that_no_module_has_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="make it a variable at the top level"):
        app_path(App("nowhere"))
