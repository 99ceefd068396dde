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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headgate.infra.monitoring.rule import MOST_METRICS
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.groups import WorkerGroup

PERIOD_S = 60
"""Interval at which queues and services publish their metrics."""

LOAD = 1.0
"""Load per group that target tracking aims for."""

_RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A CloudWatch metric, as an expression's variable."""

    name: str
    statistic: str
    queue: str | None = None
    """Physical name of the queue; None: a metric of the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """An expression over metrics."""

    expression: str
    metrics: Mapping[str, Metric]
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


def loads(group: WorkerGroup, queues: Sequence[QueueSpec]) -> list[Formula]:
    """Return a group's load in parts that each fit an expression; their targets add up to `LOAD`.

    The group never gets fewer tasks than by one load of all queues: the largest part is at least
    the mean of the parts, and the policy that asks for most tasks wins.
    """
    sleeps = group.min_tasks == 0
    parts = _parts(queues, (MOST_METRICS - 1) // (2 if sleeps else 1))
    target = LOAD / len(parts)
    return [_load(group, part, target, sleeps=sleeps) for part in parts]


def overdue(queues: Sequence[QueueSpec]) -> list[Formula]:
    """Return formulas, one per part, for the number of queues with overdue jobs.

    The oldest message may be running, for any length of time, or waiting for its next attempt. So
    it counts only while others wait, which they don't for a whole minute if a slot is free.
    """
    return [_overdue(part) for part in _parts(queues, MOST_METRICS // 2)]


def wakes(queues: Sequence[QueueSpec]) -> list[Formula]:
    """Return formulas, one per part, that are 1 while jobs wait and no task runs."""
    return [_wake(part) for part in _parts(queues, MOST_METRICS - 1)]


def alarm_metrics(group: WorkerGroup, queues: Sequence[QueueSpec]) -> int:
    """Return the number of metrics of all alarms that scale a group, each charged for by the month.

    Target tracking has two alarms for each policy, one to grow and one to shrink.
    """
    waking = wakes(queues) if group.min_tasks == 0 else []
    once = [*overdue(queues), *waking]
    twice = loads(group, queues)
    return sum(len(each.metrics) for each in [*once, *twice, *twice])


def _load(
    group: WorkerGroup, queues: Sequence[QueueSpec], target: float, *, sleeps: bool
) -> Formula:
    wanted = _sum(
        f"FILL(visible{at}, 0) / {acceptable_backlog(group, queue):g}"
        for at, queue in enumerate(queues)
    )
    metrics = _visible(queues) | {_RUNNING: _running()}
    load = f"({wanted}) / {_RUNNING}"
    if not sleeps:
        return Formula(expression=load, metrics=metrics, target=target)
    # The last task stays while jobs wait or are in flight: the load then counts as on target.
    metrics |= _each("flying", queues, "ApproximateNumberOfMessagesNotVisible")
    work = _sum(f"FILL({name}, 0)" for name in metrics if name != _RUNNING)
    held = f"IF(({_RUNNING} <= 1) * ({load} < {target:g}) * ({work} > 0), {target:g}, {load})"
    return Formula(expression=held, metrics=metrics, target=target)


def _overdue(queues: Sequence[QueueSpec]) -> Formula:
    late = _sum(
        f"(FILL(visible{at}, 0) > 0) * (FILL(oldest{at}, 0) > {_promise_s(queue):g})"
        for at, queue in enumerate(queues)
    )
    oldest = _each("oldest", queues, "ApproximateAgeOfOldestMessage")
    return Formula(expression=late, metrics=_visible(queues, statistic="Minimum") | oldest)


def _wake(queues: Sequence[QueueSpec]) -> Formula:
    waiting = _sum(f"FILL(visible{at}, 0)" for at in range(len(queues)))
    return Formula(
        expression=f"(FILL({_RUNNING}, 0) < 1) * ({waiting} > 0)",
        metrics=_visible(queues) | {_RUNNING: _running()},
    )


def _promise_s(queue: QueueSpec) -> float:
    return max(queue.lane.start_within.total_seconds(), PERIOD_S)


def _visible(queues: Sequence[QueueSpec], *, statistic: str = "Maximum") -> dict[str, Metric]:
    return _each("visible", queues, "ApproximateNumberOfMessagesVisible", statistic)


def _each(
    variable: str, queues: Sequence[QueueSpec], name: str, statistic: str = "Maximum"
) -> dict[str, Metric]:
    return {
        f"{variable}{at}": Metric(name=name, statistic=statistic, queue=queue.name)
        for at, queue in enumerate(queues)
    }


def _running() -> Metric:
    return Metric(name="CPUUtilization", statistic="SampleCount")


def _parts(queues: Sequence[QueueSpec], most: int) -> list[Sequence[QueueSpec]]:
    """Split the queues into as few parts as possible, of about equal size."""
    count = math.ceil(len(queues) / most)
    return [queues[part::count] for part in range(count)]


def _sum(terms: Iterable[str]) -> str:
    return " + ".join(terms)
