"""The part of the benchmark that measures the CPU of this process alone, side by side in one run.

`benchmarks.cpu` has the work and its server, which answers at once. Each is done in turn with what
does the same without a library: a loop of aiobotocore's calls, or boto3's. So their ratios say the
same on a slow machine and on a loaded one, where seconds don't.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from benchmarks import bundled, cpu, growth, instructions, steady
from benchmarks.contestants import BARE, BARE_BOTO3, HEADGATE, Contestant
from benchmarks.cost_rows import COUNTED_DRAINS, GATHERS, QUEUES, STEADY_RATES
from benchmarks.counted import BARE_LOOP
from benchmarks.results import Collector
from benchmarks.scale import Scale
from headgate.jobs.core.topology import Priority
from tests.support.prompt_aws import PromptAws

_WORK: dict[str, tuple[str, Contestant]] = {
    "a bare loop of aiobotocore's": ("cost-drain", BARE),
    "a worker's drain": ("cost-drain", HEADGATE),
    "the same, full records": ("cost-records", HEADGATE),
    "the same, once=True": ("cost-once", HEADGATE),
    "a worker's drain, jobs of 1 KB": ("cost-long", HEADGATE),
    "the same, in bundles": ("cost-bundled", HEADGATE),
    "boto3: send_message": ("cost-submit", BARE_BOTO3),
    "Client.submit": ("cost-submit", HEADGATE),
    "boto3: send_message_batch of ten": ("cost-submit-many", BARE_BOTO3),
    "Client.submit_many": ("cost-submit-many", HEADGATE),
}
"""The cell of the table for each work of `benchmarks.cpu`: row and contestant."""


class Costs:
    """These measurements.

    Args:
        scale: number of jobs and rounds.
        results: collects the figures.
        say: receives progress messages.
    """

    def __init__(self, scale: Scale, results: Collector, say: Callable[[str, str], None]) -> None:
        self._scale = scale
        self._results = results
        self._say = say

    def costs(self) -> None:
        """Measure all kinds of jobs and submissions, and jobs from one queue and from many."""
        jobs = self._scale.cost_jobs
        with PromptAws() as server:
            os.environ["AWS_ENDPOINT_URL"] = server.endpoint_url
            for number in range(1 + self._scale.rounds):  # the first of them warms up
                for name, (row, contestant) in _WORK.items():
                    self._say(row, contestant.name)
                    cost_ms = cpu.measured(name, jobs).cpu_ms
                    if number:
                        self._results.add(row, contestant.name, cost_ms)
            del os.environ["AWS_ENDPOINT_URL"]
        for _ in range(self._scale.rounds):
            for queues in QUEUES:
                self._say(f"cost-queues-{queues}", HEADGATE.name)
                cost = asyncio.run(growth.measure(queues, [Priority.NORMAL], jobs // queues))
                row = f"cost-queues-{queues}"
                self._results.add(row, HEADGATE.name, 1_000 * cost.cpu_s / cost.jobs)

    def virtual(self) -> None:
        """Count the requests of jobs in bundles, and of those that come one by one."""
        self._say("bundled", HEADGATE.name)
        jobs = self._scale.jobs
        self._results.add(
            "bundled", HEADGATE.name, bundled.measured(bundled.together, jobs, bundled=True)
        )
        for rate in STEADY_RATES:
            for name, gather in GATHERS.items():
                row = f"steady-{rate}-{name}"
                self._say(row, HEADGATE.name)
                load = steady.measured(rate, min(jobs, 2_000), *gather)
                self._results.add(row, HEADGATE.name, load.requests)
                late_ms = 1_000 * load.pickup_s(Priority.NORMAL, 0.99)
                self._results.add(f"{row}-p99", HEADGATE.name, late_ms)

    def instructions(self) -> None:
        """Count the instructions of imports, submissions and drains, where that can be had."""
        counted = {name: (name, HEADGATE) for name in ("import", "submit", *COUNTED_DRAINS)}
        counted[BARE_LOOP] = ("drain", BARE)
        for name, (row, contestant) in counted.items():
            self._say("instructions", name)
            try:
                thousands = instructions.instructions(name) / 1_000
            except instructions.NoCounter as reason:
                self._say("instructions", f"not counted: {reason}")
                return
            self._results.add(f"instructions-{row}", contestant.name, thousands)
