"""``python -m benchmarks.growth``: a job's cost by the number of queues, and by limits.

Each line is a separate worker that processes the same total number of no-op jobs, from that many
queues of one kind. SQS is in memory, so only Headgate's own work is measured; requests are counted
separately, since over a network each has a cost, too. Queues of critical jobs have no guaranteed
shares, those of normal jobs have, and mixed ones are of all four priorities in turn.

With ``--http`` the queues are ElasticMQ's, over sockets, and the numbers of queues take turns: each
figure is the median of five rounds, after one that warms the server up. Requests aren't counted.

With ``--limits`` the jobs come from one queue whose type has a limit: one that never binds, one
that does, or one by tenant, with that many tenants.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pydantic import BaseModel

from benchmarks.stage import REGION, use_test_account
from headgate import App, AsyncClient, Concurrency, Priority
from headgate.jobs.aws.backend import AsyncAwsBackend
from headgate.jobs.core.backend import AsyncBackend
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import Event, Events, JobCompleted
from headgate.jobs.core.limits import LimitOptions
from headgate.jobs.testing import MemoryBackend
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker
from tests.support.java_servers import java_process
from tests.support.queues import Queues

QUEUES = (4, 50, 200)
JOBS = 4_000
KINDS: Mapping[str, Sequence[Priority]] = {
    "normal": [Priority.NORMAL],
    "critical": [Priority.CRITICAL],
    "mixed": list(Priority),
}
ROUNDS = 5
ACTIONS = ("receive", "delete", "change_visibility")

_COLUMNS = "CPU for 1,000 | wall for 1,000 | receives | deletes | visibility changes"


class Note(BaseModel):
    """The payload of these jobs."""


@dataclass(frozen=True, slots=True)
class Limited:
    """A type with a limit."""

    limit: LimitOptions
    tenants: int = 1
    held: int = 0
    """Number of tenants of another type of the queue, each with one job that runs all the time, and
    two that its concurrency holds back."""


LIMITS: Mapping[str, Limited] = {
    "none": Limited({}),
    "never binds": Limited({"concurrency": Concurrency(60)}),
    "binds": Limited({"concurrency": Concurrency(20)}),
    "by tenant": Limited({"concurrency": Concurrency(2, key="tenant")}, 100),
    "by tenant, many": Limited({"concurrency": Concurrency(2, key="tenant")}, 10_000),
    "beside what 25 hold back": Limited({}, held=25),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of processing a backlog."""

    jobs: int
    cpu_s: float
    wall_s: float
    requests: Mapping[str, int] | None
    """Number by action; None if they weren't counted."""


class Rest:
    """Waits until all jobs have completed."""

    def __init__(self, jobs: int) -> None:
        self.none = asyncio.Event()
        self._left = jobs

    def __call__(self, event: Event) -> None:
        """Count completed jobs; called with each event."""
        self._left -= isinstance(event, JobCompleted)
        if not self._left:
            self.none.set()


def main() -> None:
    """Measure, and print a table in the form of benchmarks/README.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queues", type=int, nargs="+", default=list(QUEUES))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--limits", nargs="*", choices=LIMITS, help="measure these, or all")
    parser.add_argument("--http", action="store_true", help="on ElasticMQ, over sockets")
    options = parser.parse_args()
    if options.limits is not None:
        _measure_limits(options.limits or LIMITS, options.jobs)
        return
    print(f"| priorities | queues | {_COLUMNS} |")
    print("|---" * 7 + "|")
    if options.http:
        _measure_over_http(options.kinds, options.queues, options.jobs)
        return
    for kind in options.kinds:
        for queues in options.queues:
            cost = asyncio.run(measure(queues, KINDS[kind], options.jobs // queues))
            print(f"| {kind} | {queues} | {_row(cost)} |", flush=True)


def _measure_over_http(kinds: Iterable[str], numbers: Sequence[int], jobs: int) -> None:
    use_test_account()
    with java_process("elasticmq") as server:
        for kind in kinds:
            rounds = [
                [
                    asyncio.run(
                        measure_over_http(server.endpoint_url, queues, KINDS[kind], jobs // queues)
                    )
                    for queues in numbers
                ]
                for _ in range(1 + ROUNDS)
            ]
            for queues, costs in zip(numbers, zip(*rounds[1:], strict=True), strict=True):
                print(f"| {kind} | {queues} | {_row(_middle(costs))} |", flush=True)


def _measure_limits(names: Iterable[str], jobs: int) -> None:
    print(f"| limit | tenants | {_COLUMNS} |")
    print("|---" * 7 + "|")
    for name in names:
        cost = asyncio.run(measure_limit(LIMITS[name], jobs))
        print(f"| {name} | {LIMITS[name].tenants:,} | {_row(cost)} |", flush=True)


async def measure(queues: int, priorities: Sequence[Priority], each: int) -> Cost:
    """Process a backlog of that many jobs in each queue."""
    app, clock = _app(queues, priorities), SystemClock()
    backend = MemoryBackend(app, clock=clock)
    async with AsyncClient(app, backend=backend) as client:
        for job in app.types.values():
            await client.submit_many(job, [Note()] * each)
    return await _process(app, backend, queues * each)


async def measure_over_http(
    endpoint_url: str, queues: int, priorities: Sequence[Priority], each: int
) -> Cost:
    """Do the same on the queues of a real server, which are created and deleted for it."""
    app = _app(queues, priorities)
    names = [queue.name for queue in app.topology.queues]
    with Queues(endpoint_url, REGION) as admin:
        for name in names:
            admin.create_queue(name)
        try:
            async with AsyncAwsBackend(
                app.topology, endpoint_url=endpoint_url, region=REGION
            ) as backend:
                async with AsyncClient(app, backend=backend) as client:
                    for job in app.types.values():
                        await client.submit_many(job, [Note()] * each)
                return await _process(app, backend, queues * each)
        finally:
            for name in names:
                admin.delete_queue(name)


async def measure_limit(limited: Limited, jobs: int) -> Cost:
    """Process a backlog of jobs whose type has a limit, spread evenly over that many tenants."""
    app, end = App("limited", records="off"), asyncio.Event()
    queue = app.queue("queue", priorities=[Priority.NORMAL])

    @queue.job("long", concurrency=Concurrency(1, key="tenant"))
    async def run_long(_note: Note) -> None:
        await end.wait()

    @queue.job("job", **limited.limit)
    async def work(_note: Note) -> None:
        return None

    backend = MemoryBackend(app, clock=SystemClock())
    async with AsyncClient(app, backend=backend) as client:
        for number in range(limited.held):
            await client.submit_many(run_long, [Note()] * 3, tenant=f"tenant-{number}")
        of_tenants = (f"tenant-{number % limited.tenants}" for number in range(jobs))
        await asyncio.gather(*(client.submit(work, Note(), tenant=name) for name in of_tenants))
    return await _process(app, backend, jobs)


async def _process(app: App, backend: AsyncBackend, jobs: int) -> Cost:
    """Let a worker process all jobs that have been submitted."""
    rest = Rest(jobs)
    worker = Worker(app, backend, WorkerSettings(), events=Events(rest))
    began_s, began_at = time.process_time(), time.monotonic()
    run = asyncio.create_task(worker.run())
    await rest.none.wait()
    cpu_s, wall_s = time.process_time() - began_s, time.monotonic() - began_at
    requests = (
        Counter[str](call.action for call in backend.sqs.calls)
        if isinstance(backend, MemoryBackend)
        else None
    )
    worker.hurry()
    await run
    return Cost(jobs=jobs, cpu_s=cpu_s, wall_s=wall_s, requests=requests)


def _app(queues: int, priorities: Sequence[Priority]) -> App:
    app = App("growing", records="off")
    for number in range(queues):
        priority = priorities[number % len(priorities)]

        @app.queue(f"queue-{number}", priorities=[priority]).job(f"job-{number}")
        async def work(_note: Note) -> None:
            return None

    return app


def _middle(costs: Sequence[Cost]) -> Cost:
    return Cost(
        jobs=costs[0].jobs,
        cpu_s=median(cost.cpu_s for cost in costs),
        wall_s=median(cost.wall_s for cost in costs),
        requests=None,
    )


def _row(cost: Cost) -> str:
    counted = cost.requests
    requests = ("" if counted is None else f"{counted[action]:,}" for action in ACTIONS)
    times = (f"{seconds / cost.jobs * 1_000:.3f} s" for seconds in (cost.cpu_s, cost.wall_s))
    return " | ".join((*times, *requests))


if __name__ == "__main__":
    main()
