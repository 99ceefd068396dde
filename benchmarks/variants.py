"""Headgate by itself in other settings (slots, processes, payloads, TLS), and its growth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import growth, rows
from benchmarks.contestants import HEADGATE, Contestant
from benchmarks.results import Collector
from benchmarks.scale import Scale
from benchmarks.stage import Stage
from tests.support.raw_server import certificate
from tests.support.tls_front import TlsFront

SLOTS = (10, 200)
"""Numbers of slots other than the usual 50."""

PROCESSES = (1, 2)
PAYLOADS_KB = (1, 20, 200)

_JOB_S = 0.05
_MOST_KB = 400_000
"""What is put into a queue for one drain at most, which the server holds in its memory."""

_RECORDED_KB = 20_000

_TENANTS = (1, 10, 100, 1_000, 10_000)


class Variants:
    """These parts, on one server.

    Args:
        server: the server's URL.
        folder: the folder of the workers' tallies.
        scale: number and length of the drains.
        results: collects the figures.
        say: receives progress messages.
    """

    def __init__(
        self,
        server: str,
        folder: Path,
        scale: Scale,
        results: Collector,
        say: Callable[[str, str], None],
    ) -> None:
        self._server = server
        self._folder = folder
        self._scale = scale
        self._results = results
        self._say = say

    def wide(self) -> None:
        """Measure jobs of 50 ms at other numbers of slots."""
        variants = {f"wide-{slots}": replace(HEADGATE, concurrency=slots) for slots in SLOTS}
        self._in_turn(variants, job_s=_JOB_S)

    def processes(self) -> None:
        """Measure the command line's ``--processes``."""
        self._in_turn({f"processes-{number}": _with_processes(number) for number in PROCESSES})

    def payloads(self) -> None:
        """Measure jobs with payloads of several sizes."""
        for size_kb in PAYLOADS_KB:
            padding = ("BENCH_PADDING", str(size_kb * 1000))
            row = f"payload-{size_kb}"
            self._in_turn({row: replace(HEADGATE, environment=(padding,))}, size_kb=size_kb)

    def tls(self) -> None:
        """Measure a drain over TLS."""
        certified = certificate(self._folder)
        over_tls = replace(HEADGATE, environment=(("AWS_CA_BUNDLE", str(certified)),))
        with TlsFront(self._server, certified) as front:
            self._in_turn({"tls": over_tls}, endpoint_url=front.endpoint_url)

    def growth(self) -> None:
        """Measure the cost of a job by queues, limits and tenants, with SQS in memory."""
        jobs = self._scale.growth_jobs
        asyncio.run(growth.measure(1, growth.KINDS["normal"], jobs))  # warms this process up
        for kind, priorities in growth.KINDS.items():
            self._say("growth-queues", kind)
            costs = [
                (number, asyncio.run(growth.measure(number, priorities, jobs // number)))
                for number in self._scale.growth_queues
            ]
            points = [(number, _us_a_job(cost)) for number, cost in costs]
            self._results.add_curve("growth-queues", kind, points)
        for name, limited in growth.LIMITS.items():
            self._say("growth-limits", name)
            cost = asyncio.run(growth.measure_limit(limited, jobs))
            self._results.add("growth-limits", name, _us_a_job(cost))
        self._say("growth-tenants", HEADGATE.name)
        self._results.add_curve("growth-tenants", HEADGATE.name, self._by_tenants(jobs))

    def _by_tenants(self, jobs: int) -> list[tuple[float, float]]:
        by_tenant = growth.LIMITS["by tenant"]
        return [
            (tenants, _us_a_job(asyncio.run(growth.measure_limit(limited, jobs))))
            for tenants in _TENANTS
            if tenants <= jobs
            for limited in [replace(by_tenant, tenants=tenants)]
        ]

    def _in_turn(
        self,
        variants: Mapping[str, Contestant],
        *,
        job_s: float = 0,
        size_kb: int = 0,
        endpoint_url: str | None = None,
    ) -> None:
        """Drain a queue with each variant in each round; rows have the variants' names."""
        stages = {
            row: Stage(variant, self._server, self._folder, lane=f"-{row}")
            for row, variant in variants.items()
        }
        scale = self._scale
        most, recorded = scale.most, min(1_000, scale.jobs)
        if size_kb:
            most = min(most, _MOST_KB // size_kb)
            recorded = min(recorded, _RECORDED_KB // size_kb)
        for number in range(scale.few_rounds):
            for row in _rotated([*variants], number):
                self._say(row, HEADGATE.name)
                stage = stages[row]
                stage.clear("drain")
                stage.submit("drain", 0, recorded, self._server)
                drained = rows.drain(
                    stage,
                    endpoint_url or self._server,
                    stage.record(stage.queues("drain")[0], recorded),
                    jobs=most,
                    seconds=scale.drain_s,
                    job_s=job_s,
                )
                self._results.add(row, HEADGATE.name, drained.jobs_per_s)
                if not job_s and drained.cpu_s_per_1000 is not None:
                    self._results.add(f"{row}-cpu", HEADGATE.name, drained.cpu_s_per_1000)


def _with_processes(number: int) -> Contestant:
    return replace(
        HEADGATE,
        work=(
            *("-c", "from headgate.ops import main; main()", "worker", "headgate_peer:app"),
            *("--queues", "{group}", "--concurrency", "{concurrency}"),
            *("--processes", str(number)),
        ),
    )


def _us_a_job(cost: growth.Cost) -> float:
    return 1_000_000 * cost.cpu_s / cost.jobs


def _rotated(names: Sequence[str], number: int) -> Sequence[str]:
    first = number % len(names)
    return (*names[first:], *names[:first])
