"""Loads that a worker group has to follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from headgate import App, Priority
from headgate.infra.fargate.scaling_formulas import LOAD, watched_load
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from tests.support.autoscaling import (
    COUNTS,
    Arrivals,
    Fleet,
    Tracking,
    ideal,
    policies_of,
    scaled,
)

HOUR = 60
"""Minutes."""


def queues_of(groups: int) -> Sequence[QueueSpec]:
    """Return the queues of an app with so many queue groups of four priorities."""
    app = App("shop", stage="prod", priorities="all")
    for number in range(groups):
        app.queue(f"group-{number:02}", priorities=list(Priority))
    return app.topology.queues


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A load on a worker group.

    ``arrivals`` returns the jobs that arrive in a second, of which queue and in which minute.
    """

    name: str
    title: str
    group: WorkerGroup
    arrivals: Arrivals
    groups: int = 1
    minutes: int = 3 * HOUR
    job_s: float | None = None
    """Run time of a job; None: as typical as the group says."""

    def fleet(self) -> Fleet:
        """Return a fleet that has done nothing yet."""
        queues = queues_of(self.groups)
        return Fleet(group=self.group, queues=queues, arrivals=self.arrivals, job_s=self.job_s)

    def scaled(self) -> list[int]:
        """Return the tasks by minute, under the policies of the stack."""
        fleet = self.fleet()
        return scaled(fleet, self.minutes, *policies_of(self.group, fleet.queues))

    def ideal(self) -> list[int]:
        """Return the tasks by minute of a fleet that knows all at once."""
        return ideal(self.fleet(), self.minutes)

    def in_parts(self, parts: int) -> list[int]:
        """Return the tasks by minute, had each part of the queues a policy of its own."""
        fleet = self.fleet()
        _, steps = policies_of(self.group, fleet.queues)
        split = [fleet.queues[part::parts] for part in range(parts)]
        loads = [watched_load(self.group, queues, COUNTS.running) for queues in split]
        tracking = [Tracking(each, target=LOAD / parts) for each in loads]
        return scaled(fleet, self.minutes, tracking, steps)


_STEADY = WorkerGroup(max_tasks=400)
_SLEEPY = replace(_STEADY, min_tasks=0)
_SLOW = replace(_STEADY, typical=timedelta(seconds=60), concurrency=20)

_HIGH, _NORMAL, _LOW = 1, 2, 3
"""Places of a queue group's queues."""


def _from_zero(queue: int, minute: int) -> float:
    return 400.0 if queue == _NORMAL and 20 <= minute < 80 else 0.0


def _burst(queue: int, minute: int) -> float:
    return (300.0 if 30 <= minute < 35 else 20.0) if queue == _HIGH else 0.0


def _slow(queue: int, minute: int) -> float:
    return 40.0 if queue == _LOW and minute < 10 else 0.0


def _one_of_many(queue: int, minute: int) -> float:
    return 400.0 if queue == 4 * 5 + _HIGH and 20 <= minute < 80 else 0.0


SCENARIOS = (
    Scenario(
        name="from-zero",
        title="From zero: 400 jobs a second for an hour",
        group=_SLEEPY,
        arrivals=_from_zero,
    ),
    Scenario(
        name="burst",
        title="Burst: 90,000 urgent jobs within five minutes",
        group=_STEADY,
        arrivals=_burst,
    ),
    Scenario(
        name="slow-drain",
        title="Slow drain: 24,000 jobs of a minute that may wait",
        group=_SLOW,
        arrivals=_slow,
        minutes=5 * HOUR,
    ),
    Scenario(
        name="many-queues",
        title="Many queues: one of 44 gets 400 jobs a second",
        group=_STEADY,
        arrivals=_one_of_many,
        groups=11,
    ),
)
"""The scenarios, each three hours long or more."""

PARTS = 5
"""Policies that 44 queues would take, at nine queues to an alarm."""
