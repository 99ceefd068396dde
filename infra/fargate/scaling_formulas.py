"""Scaling formulas: a worker group's tasks, from the backlog of its queues and its age.

- A group follows its *load*: the number of tasks that it needs, divided by the running ones.
  Target tracking keeps it at 1. It needs as many as would start all waiting jobs within the time
  that each queue promises: a thousand jobs that may wait a quarter of an hour weigh as much as a
  few urgent ones. And it needs those that the jobs in flight fill, or a fleet that keeps up, so
  that nothing waits, would be taken for idle. These count up to the running tasks: jobs that wait
  for a retry are in flight as well, and more tasks don't help them.
- It grows by a fifth while a job has waited for longer than its queue promises, whatever the load:
  the typical duration of a job is an estimate.
- A group with ``min_tasks=0`` gets its first task once a job has waited for three minutes while
  none runs, and keeps its last one while jobs wait or are in flight.

The depth and age of queues are free metrics, and so is the number of a service's tasks: it is the
number of samples of the service's CPU utilization, one for each task and minute. Container
Insights, which has the number too, is charged for.
https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking-metric-math.html
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/cloudwatch-metrics.html

An alarm reads ten metrics, and that limit can't be raised. Where a group has more queues, a
function adds them up and publishes the sum (`lambdas.demand`). Several policies for one service
would not do: each asks for as many tasks as if it had to bring the whole load to its target alone.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html

Pure: strings and numbers. `infra.fargate.scaling_policies` turns them into resources.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from headgate.infra.monitoring import metrics
from headgate.infra.monitoring.maths import added, filled, numbered
from headgate.infra.monitoring.metrics import Series
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.alarms.thresholds import MOST_METRICS
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.scaling.backlog import acceptable_backlog, is_counted, promise_s

LOAD = 1.0
"""Load per group that target tracking aims for."""

START_S = 120
"""Time until a task has started and shows in the metrics; growth pauses for that long."""

FIRST_S = 300
"""The same for the first task, plus the minutes that its alarm looks back."""

LINGER_S = 300
"""Pause between two steps down: a lull may be over within minutes."""

PATIENCE = 3
"""Consecutive minutes before a group grows on an alarm.

One would not do for the first task: ECS's metrics of the latest minute may not have arrived yet
when SQS's have, and a group at work then looks as if no task ran.
"""

GROWTH_PERCENT = 20
"""Growth while jobs are overdue, by at least one task."""

_RUNNING, _WANTED, _BUSY, _HELD = "running", "wanted", "busy", "held"
_UP_TO_RUNNING = f"IF({_BUSY} < {_RUNNING}, {_BUSY}, {_RUNNING})"
_LOAD = f"IF({_WANTED} > {_HELD}, {_WANTED}, {_HELD}) / {_RUNNING}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """An expression over metrics; an alarm or policy acts on it from `LOAD` on."""

    expression: str
    metrics: Mapping[str, Series]
    """Metrics by variable."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Expressions that it is composed of, by variable; each may use those before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCounts:
    """The metrics that count a group's tasks."""

    running: Series
    """Those that run."""
    wanted: Series
    """Those that would start all waiting jobs in time, published for groups with many queues."""
    busy: Series
    """Those that the jobs in flight fill, likewise."""


def load(group: WorkerGroup, queues: Sequence[QueueSpec], counts: TaskCounts) -> Formula:
    """Return a group's load."""
    if is_counted(queues):
        published = {_WANTED: counts.wanted, _BUSY: counts.busy, _RUNNING: counts.running}
        return Formula(expression=_LOAD, metrics=published, parts={_HELD: _UP_TO_RUNNING})
    return watched_load(group, queues, counts.running)


def watched_load(group: WorkerGroup, queues: Sequence[QueueSpec], running: Series) -> Formula:
    """Return the load from the numbers of the queues themselves, few enough for an alarm."""
    visible = _each("visible", queues, metrics.visible)
    flying = _each("flying", queues, metrics.in_flight)
    wanted = added(
        f"{filled(name)} / {acceptable_backlog(group, queue):g}"
        for name, queue in zip(visible, queues, strict=True)
    )
    busy = f"({added(map(filled, flying))}) / {group.slots}"
    if group.min_tasks == 0:
        # The last task stays while jobs wait or are in flight.
        work = added(map(filled, [*visible, *flying]))
        busy = f"IF({busy} < 1, {work} > 0, {busy})"
    return Formula(
        expression=_LOAD,
        metrics=visible | flying | {_RUNNING: running},
        parts={_WANTED: wanted, _BUSY: busy, _HELD: _UP_TO_RUNNING},
    )


def overdue(queues: Sequence[QueueSpec]) -> list[Formula]:
    """Return formulas, one per part, for the number of queues with overdue jobs.

    The oldest message may be running, for any length of time, or waiting for its next attempt. So
    it counts only while others wait, which they don't for a whole minute if a slot is free. Several
    parts ask for no more than one: they share a policy, which acts once in its cooldown.
    """
    return [_overdue(part) for part in _parts(queues, MOST_METRICS // 2)]


def wake(queues: Sequence[QueueSpec], counts: TaskCounts) -> Formula:
    """Return the formula that is 1 while jobs wait and no task runs."""
    waiting = (
        {_WANTED: counts.wanted}
        if is_counted(queues)
        else _each("visible", queues, metrics.visible)
    )
    return Formula(
        expression=f"({filled(_RUNNING)} < 1) * ({added(map(filled, waiting))} > 0)",
        metrics={**waiting, _RUNNING: counts.running},
    )


def alarm_metrics(group: WorkerGroup, queues: Sequence[QueueSpec]) -> int:
    """Return the number of metrics of all alarms that scale a group, each charged for by the month.

    Target tracking has two alarms, one to grow and one to shrink.
    """
    tracked = load(group, queues, _ANY)
    others = overdue(queues)
    if group.min_tasks == 0:
        others.append(wake(queues, _ANY))
    return sum(len(each.metrics) for each in [*others, tracked, tracked])


_SOME = metrics.running_tasks("any", "any")
_ANY = TaskCounts(running=_SOME, wanted=_SOME, busy=_SOME)


def _overdue(queues: Sequence[QueueSpec]) -> Formula:
    late = added(
        f"({filled(f'visible{at}')} > 0) * ({filled(f'oldest{at}')} > {promise_s(queue):g})"
        for at, queue in enumerate(queues)
    )
    waiting = _each("visible", queues, partial(metrics.visible, statistic="Minimum"))
    oldest = _each("oldest", queues, metrics.oldest_age)
    return Formula(expression=late, metrics=waiting | oldest)


def _each(
    variable: str, queues: Sequence[QueueSpec], metric: Callable[[str], Series]
) -> dict[str, Series]:
    return numbered(variable, (queue.name for queue in queues), metric)


def _parts(queues: Sequence[QueueSpec], most: int) -> list[Sequence[QueueSpec]]:
    """Split the queues into as few parts as possible, of about equal size."""
    count = math.ceil(len(queues) / most)
    return [queues[part::count] for part in range(count)]
