"""Scaling formulas: a worker group's tasks, from the backlog of its queues and its age.

- A group follows its *load*: the number of tasks that would start all waiting jobs within the time
  that each queue promises, divided by the running tasks. Target tracking keeps it at 1. Every queue
  counts by its own promise: a thousand jobs that may wait a quarter of an hour weigh as much as a
  few urgent ones.
- It grows by a fifth while a job has waited for longer than its queue promises, whatever the load:
  the typical duration of a job is an estimate.
- A group with ``min_tasks=0`` gets its first task once a job has waited for three minutes while
  none runs, and keeps its last one while jobs wait or are in flight.

The depth and age of queues are free metrics, and so is the number of a service's tasks: it is the
number of samples of the service's CPU utilization, one for each task and minute. Container
Insights, which has the number too, is charged for.
https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking-metric-math.html
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/cloudwatch-metrics.html

Pure: strings and numbers. `infra.fargate.scaling_policies` turns them into resources.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from headgate.infra.monitoring import metrics
from headgate.infra.monitoring.maths import MOST_METRICS, added, filled, numbered
from headgate.infra.monitoring.metrics import Series
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.groups import WorkerGroup

PERIOD_S = 60
"""Interval at which queues and services publish their metrics."""

LOAD = 1.0
"""Load per group that target tracking aims for."""

_RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """An expression over metrics."""

    expression: str
    metrics: Mapping[str, Series]
    """Metrics by variable."""
    target: float = LOAD
    """The value to reach for a group to grow."""


def acceptable_backlog(group: WorkerGroup, queue: QueueSpec) -> float:
    """Return the number of waiting jobs of a queue that one task can start in time.

    A new task starts one job per slot at once; from then on each slot starts the next one whenever
    a job ends. A queue that promises an immediate start counts with one period: the metrics are no
    faster.
    """
    return group.slots * max(1.0, _promise_s(queue) / group.typical.total_seconds())


def loads(group: WorkerGroup, queues: Sequence[QueueSpec], running: Series) -> list[Formula]:
    """Return a group's load in parts that each fit an expression; their targets add up to `LOAD`.

    The group never gets fewer tasks than by one load of all queues: the largest part is at least
    the mean of the parts, and the policy that asks for most tasks wins.

    Args:
        group: the group.
        queues: its queues.
        running: the number of its tasks.
    """
    sleeps = group.min_tasks == 0
    parts = _parts(queues, (MOST_METRICS - 1) // (2 if sleeps else 1))
    target = LOAD / len(parts)
    return [_load(group, part, running, target, sleeps=sleeps) for part in parts]


def overdue(queues: Sequence[QueueSpec]) -> list[Formula]:
    """Return formulas, one per part, for the number of queues with overdue jobs.

    The oldest message may be running, for any length of time, or waiting for its next attempt. So
    it counts only while others wait, which they don't for a whole minute if a slot is free.
    """
    return [_overdue(part) for part in _parts(queues, MOST_METRICS // 2)]


def wakes(queues: Sequence[QueueSpec], running: Series) -> list[Formula]:
    """Return formulas, one per part, that are 1 while jobs wait and no task runs."""
    return [_wake(part, running) for part in _parts(queues, MOST_METRICS - 1)]


def alarm_metrics(group: WorkerGroup, queues: Sequence[QueueSpec]) -> int:
    """Return the number of metrics of all alarms that scale a group, each charged for by the month.

    Target tracking has two alarms for each policy, one to grow and one to shrink.
    """
    running = metrics.running_tasks("any", "any")
    waking = wakes(queues, running) if group.min_tasks == 0 else []
    once = [*overdue(queues), *waking]
    twice = loads(group, queues, running)
    return sum(len(each.metrics) for each in [*once, *twice, *twice])


def _load(
    group: WorkerGroup, queues: Sequence[QueueSpec], running: Series, target: float, *, sleeps: bool
) -> Formula:
    wanted = added(
        f"{filled(f'visible{at}')} / {acceptable_backlog(group, queue):g}"
        for at, queue in enumerate(queues)
    )
    watched = _each("visible", queues, metrics.visible) | {_RUNNING: running}
    load = f"({wanted}) / {_RUNNING}"
    if not sleeps:
        return Formula(expression=load, metrics=watched, target=target)
    # The last task stays while jobs wait or are in flight: the load then counts as on target.
    watched |= _each("flying", queues, metrics.in_flight)
    work = added(filled(name) for name in watched if name != _RUNNING)
    held = f"IF(({_RUNNING} <= 1) * ({load} < {target:g}) * ({work} > 0), {target:g}, {load})"
    return Formula(expression=held, metrics=watched, target=target)


def _overdue(queues: Sequence[QueueSpec]) -> Formula:
    late = added(
        f"({filled(f'visible{at}')} > 0) * ({filled(f'oldest{at}')} > {_promise_s(queue):g})"
        for at, queue in enumerate(queues)
    )
    waiting = _each("visible", queues, partial(metrics.visible, statistic="Minimum"))
    oldest = _each("oldest", queues, metrics.oldest_age)
    return Formula(expression=late, metrics=waiting | oldest)


def _wake(queues: Sequence[QueueSpec], running: Series) -> Formula:
    visible = _each("visible", queues, metrics.visible)
    return Formula(
        expression=f"({filled(_RUNNING)} < 1) * ({added(map(filled, visible))} > 0)",
        metrics=visible | {_RUNNING: running},
    )


def _promise_s(queue: QueueSpec) -> float:
    return max(queue.lane.start_within.total_seconds(), PERIOD_S)


def _each(
    variable: str, queues: Sequence[QueueSpec], metric: Callable[[str], Series]
) -> dict[str, Series]:
    return numbered(variable, (queue.name for queue in queues), metric)


def _parts(queues: Sequence[QueueSpec], most: int) -> list[Sequence[QueueSpec]]:
    """Split the queues into as few parts as possible, of about equal size."""
    count = math.ceil(len(queues) / most)
    return [queues[part::count] for part in range(count)]
