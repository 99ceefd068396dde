"""Execution of a scenario: real workers, in-memory SQS, and an event loop that skips idle time."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Mapping
from typing import Any

import looptime

from benchmarks.simulation.series import Series
from benchmarks.simulation.world import MIX, Call, Scenario, Service, build, duration_s, poisson
from headgate import AsyncClient, Events, Priority
from headgate.jobs.core.topology import DEFAULT_LANES
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.testing import LoopClock, MemoryBackend
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker

_LAST_S = 3600
"""Maximum number of seconds, after the hour, for the last jobs to end."""


def simulate(scenario: Scenario, *, seed: int = 1) -> dict[str, Any]:
    """Run a scenario to its end; return what was observed, as JSON values."""
    loop = looptime.new_event_loop(start=0, noop_cycles=0)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(_simulate(scenario, random.Random(seed)))  # noqa: S311 - a simulation


async def _simulate(scenario: Scenario, rng: random.Random) -> dict[str, Any]:
    clock, service = LoopClock(), Service(scenario)
    app, types = build(scenario, service)
    backend = MemoryBackend(app, clock=clock)
    backend.rng = rng
    series = Series(clock.now())
    workers = [
        Worker(
            app,
            backend,
            WorkerSettings(concurrency=scenario.concurrency),
            events=Events(series),
        )
        for _ in range(scenario.workers)
    ]
    runs = [asyncio.create_task(worker.run()) for worker in workers]
    async with AsyncClient(app, backend=backend) as client:
        submitted = await _submit(scenario, client, types, rng)
    async with asyncio.timeout(_LAST_S):
        await series.ended(submitted)
    for worker in workers:
        worker.stop()
    await asyncio.gather(*runs)
    return _told(scenario, series, service, submitted)


async def _submit(
    scenario: Scenario,
    client: AsyncClient,
    types: Mapping[Priority, JobType[Call, None]],
    rng: random.Random,
) -> int:
    loop, submitted = asyncio.get_running_loop(), 0
    for second in range(scenario.minutes * 60):
        for priority, part in MIX.items():
            count = poisson(rng, scenario.rate_per_s(second) * part)
            calls = [Call(seconds=duration_s(rng)) for _ in range(count)]
            await client.submit_many(types[priority], calls)
            submitted += count
        await asyncio.sleep(second + 1 - loop.time())
    return submitted


def _told(scenario: Scenario, series: Series, service: Service, submitted: int) -> dict[str, Any]:
    seconds = scenario.minutes * 60
    return {
        "scenario": scenario.name,
        "minutes": scenario.minutes,
        "jobs_per_minute": scenario.jobs_per_minute,
        "slots": scenario.workers * scenario.concurrency,
        "overload_s": [scenario.overload.start_s, scenario.overload.end_s],
        "outage_s": [scenario.outage.start_s, scenario.outage.end_s],
        "submitted": submitted,
        "completed": series.completed,
        "dead": series.dead,
        "calls": service.calls[:seconds],
        "retries": [series.retries[second] for second in range(seconds)],
        "receives": [series.receives[minute] for minute in range(scenario.minutes)],
        "breaker_open_s": series.breaker_open_s,
        "priorities": {
            str(priority): {
                "start_within_s": DEFAULT_LANES[priority].start_within.total_seconds(),
                "share": DEFAULT_LANES[priority].share,
                "starts": [series.starts[priority][minute] for minute in range(scenario.minutes)],
                "waits_p50_s": _quantiles(series, priority, scenario.minutes, 50),
                "waits_p99_s": _quantiles(series, priority, scenario.minutes, 99),
            }
            for priority in Priority
        },
    }


def _quantiles(
    series: Series, priority: Priority, minutes: int, percent: int
) -> list[float | None]:
    return [_quantile(series.waits[priority][minute], percent) for minute in range(minutes)]


def _quantile(values: list[float], percent: int) -> float | None:
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
