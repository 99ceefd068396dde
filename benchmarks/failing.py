"""``python -m benchmarks.failing``: the speed of submitters and workers while requests fail.

A proxy in front of ElasticMQ answers a random fraction of the requests with 503. Each line is the
median of several runs, which take turns with those of the other lines: 600 no-op jobs are submitted
by one `submit_many`, and then drained by one worker. Times exclude opening the clients. Brackets
hold the ratio to the client's first line.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Literal

from benchmarks.growth import Note, Rest
from benchmarks.stage import REGION, use_test_account
from headgate import App, AsyncClient, Client, Events, Priority
from headgate.jobs.aws.backend import AsyncAwsBackend, AwsBackend
from headgate.jobs.errors import HeadgateError, PartlySubmitted
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker
from tests.support.java_servers import java_process
from tests.support.proxy import ProxyProcess
from tests.support.queues import Queues

SHARES = (0.0, 0.05, 0.3)
JOBS = 600
ROUNDS = 5

_COLUMNS = ("client", "failing", "submit", "jobs refused", "drain", "requests a job")

Kind = Literal["plain", "async"]
KINDS: tuple[Kind, ...] = ("plain", "async")

app = App("failing", records="off")
queue = app.queue("queue", priorities=[Priority.NORMAL])


@queue.job("job")
async def work(_note: Note) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One backlog, submitted and drained."""

    submit_s: float
    refused: float
    """Number of jobs that were not submitted, after all retries."""
    drain_s: float
    requests: float
    """Requests per job to be submitted, failed requests included."""


def main() -> None:
    """Measure, and print a table in the form of benchmarks/README.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shares", type=float, nargs="+", default=list(SHARES))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    use_test_account()
    print(f"| {' | '.join(_COLUMNS)} |")
    print("|---" * len(_COLUMNS) + "|")
    with java_process("elasticmq") as server, ProxyProcess(server.endpoint_url) as proxy:
        stand = Stand(server.endpoint_url, proxy, options.jobs)
        for kind in options.kinds:
            rounds = [
                [stand.measure(kind, share) for share in options.shares]
                for _ in range(1 + options.rounds)
            ]
            warm = rounds[1:]  # the first round's server has only just started
            runs = [_middle(of_a_share) for of_a_share in zip(*warm, strict=True)]
            for share, run in zip(options.shares, runs, strict=True):
                print(f"| {kind} | {share:.0%} | {_row(run, runs[0])} |", flush=True)


class Stand:
    """The server, and the proxy in front of it.

    Args:
        server: the server's URL.
        proxy: the proxy in front of it.
        jobs: number of jobs of a run.
    """

    def __init__(self, server: str, proxy: ProxyProcess, jobs: int) -> None:
        self._server = server
        self._proxy = proxy
        self._jobs = jobs

    def measure(self, kind: Kind, share: float) -> Run:
        """Submit and drain on an empty queue, while this fraction of requests fails."""
        name = app.topology.queue("queue", Priority.NORMAL).name
        with Queues(self._server, REGION) as admin:
            admin.create_queue(name)
            try:
                return asyncio.run(self._run(kind, share))
            finally:
                self._proxy.fail(0)
                admin.delete_queue(name)

    async def _run(self, kind: Kind, share: float) -> Run:
        before = self._proxy.counts().total()
        self._proxy.fail(share)
        submit_s, refused = await self._submit(kind)
        drain_s = await self._drain(self._jobs - refused)
        requests = self._proxy.counts().total() - before
        return Run(
            submit_s=submit_s, refused=refused, drain_s=drain_s, requests=requests / self._jobs
        )

    async def _submit(self, kind: Kind) -> tuple[float, int]:
        notes = [Note()] * self._jobs
        if kind == "plain":
            return await asyncio.to_thread(self._submit_plainly, notes)
        async with (
            self._aws() as backend,
            AsyncClient(app, events=Events(), backend=backend) as client,
        ):
            began = time.monotonic()
            try:
                await client.submit_many(work, notes)
            except HeadgateError as error:
                return time.monotonic() - began, self._refused(error)
            return time.monotonic() - began, 0

    def _submit_plainly(self, notes: Sequence[Note]) -> tuple[float, int]:
        with (
            AwsBackend(
                app.topology, endpoint_url=self._proxy.endpoint_url, region=REGION
            ) as backend,
            Client(app, events=Events(), backend=backend) as client,
        ):
            began = time.monotonic()
            try:
                client.submit_many(work, notes)
            except HeadgateError as error:
                return time.monotonic() - began, self._refused(error)
            return time.monotonic() - began, 0

    def _aws(self) -> AsyncAwsBackend:
        return AsyncAwsBackend(app.topology, endpoint_url=self._proxy.endpoint_url, region=REGION)

    def _refused(self, error: HeadgateError) -> int:
        return len(error.refusals) if isinstance(error, PartlySubmitted) else self._jobs

    async def _drain(self, jobs: int) -> float:
        rest = Rest(jobs)
        async with self._aws() as backend:
            worker = Worker(app, backend, WorkerSettings(), events=Events(rest))
            began = time.monotonic()
            run = asyncio.create_task(worker.run())
            await rest.none.wait()
            drain_s = time.monotonic() - began
            worker.hurry()
            await run
        return drain_s


def _middle(runs: Sequence[Run]) -> Run:
    """Return the median of each figure; of refused jobs the mean, since most runs have none."""
    return Run(
        submit_s=median(run.submit_s for run in runs),
        refused=mean(run.refused for run in runs),
        drain_s=median(run.drain_s for run in runs),
        requests=median(run.requests for run in runs),
    )


def _row(run: Run, base: Run) -> str:
    cells = (
        f"{run.submit_s:.2f} s ({run.submit_s / base.submit_s:.1f})",
        f"{run.refused:.0f}",
        f"{run.drain_s:.2f} s ({run.drain_s / base.drain_s:.1f})",
        f"{run.requests:.3f} ({run.requests / base.requests:.1f})",
    )
    return " | ".join(cells)


if __name__ == "__main__":
    main()
