"""Limits by key: a backlog of many tenants takes hardly longer than their own limits ask for."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from itertools import groupby
from typing import Any

import pytest

from headgate import App, Concurrency, Priority, RateLimit
from headgate.jobs.core.events import JobCompleted
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads


async def drained_s(tenants: list[int], takes_s: float, *, slots: int, **limits: Any) -> float:
    """Return the time in which a worker completes a backlog.

    Args:
        tenants: the tenant of each job, in the order of submission.
        takes_s: the time that a job takes, in seconds.
        slots: the worker's concurrency.
        limits: the limits of the jobs' type.
    """
    app = App("shop")
    calls = app.queue("calls", priorities=[Priority.NORMAL])

    @calls.job("call", **limits)
    async def call(_note: Note) -> None:
        await asyncio.sleep(takes_s)

    rig = Rig(app)
    for tenant, jobs in groupby(tenants):
        await rig.submit(call, *("" for _ in jobs), tenant=f"tenant-{tenant}")
    begun = rig.clock.monotonic()
    async with rig.working(concurrency=slots):
        await rig.happens(JobCompleted, len(tenants))
        return rig.clock.monotonic() - begun


def shuffled(tenants: int, jobs: int) -> list[int]:
    """Return so many jobs of each tenant, as SQS delivers what many have submitted."""
    order = [tenant for tenant in range(tenants) for _ in range(jobs)]
    random.Random(1).shuffle(order)  # noqa: S311 - an order, the same in each run
    return order


async def test_a_hundred_tenants_with_ten_jobs_each_wait_little_longer_than_for_their_turns() -> (
    None
):
    one_after_the_other = [tenant for tenant in range(100) for _ in range(10)]
    limit = Concurrency(1, key="tenant")
    took_s = await drained_s(one_after_the_other, 0.5, slots=100, concurrency=limit)
    assert took_s < 10, "5 s of work for each tenant"


@pytest.mark.parametrize(("jobs", "takes_s"), [(50, 2.0), (30, 6.0)])
async def test_long_backlogs_of_tenants_end_in_less_than_twice_their_own_time(
    jobs: int, takes_s: float
) -> None:
    limit = Concurrency(1, key="tenant")
    took_s = await drained_s(shuffled(20, jobs), takes_s, slots=50, concurrency=limit)
    assert took_s < 1.75 * jobs * takes_s


async def test_tenants_that_use_up_their_rates_get_nearly_all_of_them() -> None:
    limit = RateLimit(2, per=timedelta(seconds=1), key="tenant")
    took_s = await drained_s(shuffled(100, 10), 0.01, slots=50, rate_limit=limit)
    assert took_s < 6, "4 s by the rates"
