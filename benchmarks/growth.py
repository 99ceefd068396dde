"""``python -m benchmarks.growth``: a job's cost by the number of queues of its worker.

Each line is a separate worker that processes the same total number of no-op jobs, from that many
queues of one kind. SQS is in memory, so only Headgate's own work is measured; requests are counted
separately, since over a network each has a cost, too. Queues of critical jobs have no guaranteed
shares, those of normal jobs have, and mixed ones are of all four priorities in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from headgate import App, AsyncClient, Priority
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import Event, Events, JobCompleted
from headgate.jobs.testing import MemoryBackend
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker

QUEUES = (4, 50, 200)
JOBS = 4_000
KINDS: Mapping[str, Sequence[Priority]] = {
    "normal": [Priority.NORMAL],
    "critical": [Priority.CRITICAL],
    "mixed": list(Priority),
}
ACTIONS = ("receive", "delete", "change_visibility")


class Note(BaseModel):
    """The payload of these jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of processing a backlog."""

    jobs: int
    cpu_s: float
    requests: Mapping[str, int]


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
    options = parser.parse_args()
    print("| priorities | queues | CPU for 1,000 | receives | deletes | visibility changes |")
    print("|---|---|---|---|---|---|")
    for kind in options.kinds:
        for queues in options.queues:
            cost = asyncio.run(measure(queues, KINDS[kind], options.jobs // queues))
            print(f"| {kind} | {queues} | {_row(cost)} |", flush=True)


async def measure(queues: int, priorities: Sequence[Priority], each: int) -> Cost:
    """Process a backlog of that many jobs in each queue."""
    app, clock = _app(queues, priorities), SystemClock()
    backend = MemoryBackend(app, clock=clock)
    sqs = backend.sqs
    async with AsyncClient(app, backend=backend) as client:
        for job in app.types.values():
            await client.submit_many(job, [Note()] * each)
    rest = Rest(queues * each)
    worker = Worker(app, backend, WorkerSettings(), events=Events(rest))
    began_s = time.process_time()
    run = asyncio.create_task(worker.run())
    await rest.none.wait()
    cpu_s = time.process_time() - began_s
    requests = Counter[str](call.action for call in sqs.calls)
    worker.hurry()
    await run
    return Cost(jobs=queues * each, cpu_s=cpu_s, requests=requests)


def _app(queues: int, priorities: Sequence[Priority]) -> App:
    app = App("growing", records="off")
    for number in range(queues):
        priority = priorities[number % len(priorities)]

        @app.queue(f"queue-{number}", priorities=[priority]).job(f"job-{number}")
        async def work(_note: Note) -> None:
            return None

    return app


def _row(cost: Cost) -> str:
    requests = (f"{cost.requests[action]:,}" for action in ACTIONS)
    return " | ".join((f"{cost.cpu_s / cost.jobs * 1_000:.3f} s", *requests))


if __name__ == "__main__":
    main()
