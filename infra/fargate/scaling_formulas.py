"""How many tasks a worker group has: from what waits in its queues, and for how long.

- A group follows its *load*: the tasks that would start all that waits within the time that each
  queue promises, by the tasks that run. Target tracking keeps it at 1. Every queue counts in its
  own measure: a thousand jobs that may wait a quarter of an hour weigh what a few urgent ones do.
- It grows by a fifth while something has waited for longer than its queue promises, whatever the
  load says: how long a typical job takes is a guess.
- One that may have no task gets its first once something has waited for three minutes while none
  runs, and keeps its last one while anything waits or is in flight.

Queues tell their depth and age for nothing, and so does a service how many tasks it has: as the
number of samples of its CPU's utilization, one for each task and minute. Container Insights, which
has the number too, is paid for.
https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking-metric-math.html
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/cloudwatch-metrics.html

Pure: strings and numbers. `infra.fargate.scaling_policies` makes resources of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headgate.infra.monitoring.rule import MOST_METRICS
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.groups import WorkerGroup

PERIOD_S = 60
"""How often queues and services tell their numbers."""

LOAD = 1.0
"""What target tracking keeps a group's load at."""

_RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of CloudWatch's, as an expression's variable."""

    name: str
    statistic: str
    queue: str | None = None
    """The physical name; None: the service's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """One expression over metrics."""

    expression: str
    metrics: Mapping[str, Metric]
    """The variables."""
    target: float = LOAD
    """What it has to reach for a group to grow."""


def acceptable_backlog(group: WorkerGroup, queue: QueueSpec) -> float:
    """How many waiting jobs of a queue one task can start in time.

    A new task takes as many at once as it has slots; from then on each slot takes the next one
    whenever a job ends. What should start at once has one period: nobody hears of it sooner.
    """
    return group.slots * max(1.0, _promise_s(queue) / group.typical.total_seconds())


def loads(group: WorkerGroup, queues: Sequence[QueueSpec]) -> list[Formula]:
    """A group's load, in as many parts as its queues' metrics need; each part has its part of 1.

    That is no less than one load of all: the largest part is at least the parts' mean, and the
    policy that asks for most tasks wins.
    """
    sleeps = group.min_tasks == 0
    parts = _parts(queues, (MOST_METRICS - 1) // (2 if sleeps else 1))
    target = LOAD / len(parts)
    return [_load(group, part, target, sleeps=sleeps) for part in parts]


def overdue(queues: Sequence[QueueSpec]) -> list[Formula]:
    """How many of the queues keep jobs waiting longer than they promise, in parts.

    The oldest message may be one that runs, for as long as it likes, or waits for its next attempt:
    so it counts only while others wait, which they don't for a whole minute at a free slot.
    """
    return [_overdue(part) for part in _parts(queues, MOST_METRICS // 2)]


def wakes(queues: Sequence[QueueSpec]) -> list[Formula]:
    """Whether something waits and no task runs, in parts."""
    return [_wake(part) for part in _parts(queues, MOST_METRICS - 1)]


def alarm_metrics(group: WorkerGroup, queues: Sequence[QueueSpec]) -> int:
    """The metrics of all alarms that scale a group, each of which is paid for by the month.

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
    # The last task stays: as loaded as it should be, while there is anything.
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
    """As few as can be, of about one size."""
    count = math.ceil(len(queues) / most)
    return [queues[part::count] for part in range(count)]


def _sum(terms: Iterable[str]) -> str:
    return " + ".join(terms)
