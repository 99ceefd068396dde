"""A fleet of tasks under Application Auto Scaling, in virtual time.

The model of AWS, as far as its documents tell:

- CloudWatch has a minute's values a minute later. A task shows once it runs, a minute after it was
  asked for.
- Target tracking grows when three values in a row are above the target, and shrinks when fifteen
  are below nine tenths of it; both in proportion. While it cools down from growing, it reckons with
  the tasks that there were before. Of several policies the one that asks for most wins, and all
  have to agree on fewer.
- A step waits for three values in a row, and for its own cooldown.

https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.infra.fargate.scaling_formulas import (
    FIRST_S,
    GROWTH_PERCENT,
    LINGER_S,
    LOAD,
    PATIENCE,
    START_S,
    Formula,
    TaskCounts,
    load,
    overdue,
    wake,
)
from headgate.infra.monitoring.metrics import Series
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.metric_names import NAMESPACE, TASKS_BUSY, TASKS_WANTED
from headgate.jobs.deployment.scaling.backlog import (
    PERIOD_S,
    QueueLoad,
    acceptable_backlog,
    tasks_busy,
    tasks_wanted,
)

TICK_S = 10
_TASK_STARTS_S = 60
_BELOW, _LOW_PERIODS = 0.9, 15

COUNTS = TaskCounts(
    running=Series(
        namespace="AWS/ECS", name="CPUUtilization", statistic="SampleCount", dimensions={}
    ),
    wanted=Series(namespace=NAMESPACE, name=TASKS_WANTED, statistic="Maximum", dimensions={}),
    busy=Series(namespace=NAMESPACE, name=TASKS_BUSY, statistic="Maximum", dimensions={}),
)
"""The metrics of the only service."""

_RUNNING: tuple[str | None, str] = (None, COUNTS.running.name)

Told = Mapping[tuple[str | None, str], float]
"""CloudWatch's values, by queue, or None for the service, and by metric."""

Arrivals = Callable[[int, int], float]
"""Jobs that arrive in a second: of which queue, in which minute."""


def value(formula: Formula, told: Told) -> float:
    """Evaluate an expression as CloudWatch does, FILL and IF included; missing metrics are 0."""
    variables: dict[str, Any] = {
        variable: told.get((metric.dimensions.get("QueueName"), metric.name), 0)
        for variable, metric in formula.metrics.items()
    }
    functions: dict[str, Callable[..., Any]] = {
        "FILL": lambda found, _default: found,
        "IF": lambda condition, then, otherwise: then if condition else otherwise,
    }
    for variable, expression in {**formula.parts, "result": formula.expression}.items():
        # Our own expressions, with arithmetic that Python has too.
        variables[variable] = eval(expression, {"__builtins__": {}}, variables | functions)  # noqa: S307
    return float(variables["result"])


@dataclass(slots=True)
class Tracking:
    """A policy of target tracking."""

    formula: Formula
    target: float = LOAD
    _values: deque[float] = field(default_factory=lambda: deque(maxlen=_LOW_PERIODS))
    _grew_s: float = -math.inf
    _base: int = 0
    """Tasks before the latest growth."""

    def asks(self, told: Told, tasks: int, now_s: float) -> int | None:
        """Return the tasks that it asks for; None: as many as there are, at least."""
        if not told.get(_RUNNING):
            self._values.clear()  # nothing can be divided by no task: there is no data
            return tasks
        latest = value(self.formula, told)
        self._values.append(latest)
        recent = list(self._values)
        if len(recent) >= PATIENCE and min(recent[-PATIENCE:]) > self.target:
            cooling = now_s < self._grew_s + START_S
            base = self._base if cooling else tasks
            if (wanted := math.ceil(base * latest / self.target)) > tasks:
                self._grew_s, self._base = (self._grew_s, base) if cooling else (now_s, tasks)
                return wanted
            return None
        if len(recent) == _LOW_PERIODS and max(recent) < _BELOW * self.target:
            return math.ceil(tasks * latest / self.target)
        return None


@dataclass(slots=True)
class Step:
    """A step that an alarm takes."""

    formulas: Sequence[Formula]
    grow: Callable[[int], int]
    cooldown_s: float
    _on: int = 0
    _taken_s: float = -math.inf

    def asks(self, told: Told, tasks: int, now_s: float) -> int | None:
        """Return the tasks that it asks for; None: it isn't its turn."""
        on = any(value(each, told) >= LOAD for each in self.formulas)
        self._on = self._on + 1 if on else 0
        if self._on < PATIENCE or now_s < self._taken_s + self.cooldown_s:
            return None
        self._taken_s = now_s
        return self.grow(tasks)


@dataclass(slots=True, kw_only=True)
class Fleet:
    """The tasks of a group, and the queues that they work off, the first one first."""

    group: WorkerGroup
    queues: Sequence[QueueSpec]
    arrivals: Arrivals
    starts_s: float = _TASK_STARTS_S
    job_s: float | None = None
    """Run time of a job; None: as typical as the group says."""
    ready: list[float] = field(default_factory=list)
    """The seconds at which its tasks are ready."""
    now_s: float = 0
    done: float = 0
    in_flight: list[float] = field(default_factory=list)
    waiting: list[deque[list[float]]] = field(default_factory=list)
    """Arrivals of each queue that wait: their second and number."""

    def __post_init__(self) -> None:
        self.ready = [0.0] * self.group.min_tasks
        self.waiting = [deque() for _ in self.queues]
        self.in_flight = [0.0] * len(self.queues)

    @property
    def running(self) -> int:
        return sum(ready <= self.now_s for ready in self.ready)

    @property
    def depths(self) -> list[float]:
        return [sum(count for _, count in cohorts) for cohorts in self.waiting]

    def scale(self, tasks: int) -> None:
        """Start tasks, or stop the youngest."""
        tasks = min(max(tasks, self.group.min_tasks), self.group.max_tasks)
        self.ready += [self.now_s + self.starts_s] * (tasks - len(self.ready))
        del self.ready[tasks:]

    def minute(self) -> Told:
        """Let a minute pass; return what CloudWatch is told of it."""
        for _ in range(PERIOD_S // TICK_S):
            self._tick()
        told: dict[tuple[str | None, str], float] = {_RUNNING: self.running}
        backlogs = []
        for at, (queue, depth) in enumerate(zip(self.queues, self.depths, strict=True)):
            oldest_s = self.now_s - self.waiting[at][0][0] if self.waiting[at] else 0
            told[queue.name, "ApproximateNumberOfMessagesVisible"] = depth
            told[queue.name, "ApproximateNumberOfMessagesNotVisible"] = self.in_flight[at]
            told[queue.name, "ApproximateAgeOfOldestMessage"] = oldest_s
            backlogs.append(
                QueueLoad(
                    waiting=math.ceil(depth),
                    in_flight=math.ceil(self.in_flight[at]),
                    per_task=acceptable_backlog(self.group, queue),
                )
            )
        sleeps = self.group.min_tasks == 0
        told[None, TASKS_WANTED] = tasks_wanted(backlogs)
        told[None, TASKS_BUSY] = tasks_busy(backlogs, slots=self.group.slots, sleeps=sleeps)
        return told

    def _tick(self) -> None:
        job_s = self.job_s or self.group.typical.total_seconds()
        for at, cohorts in enumerate(self.waiting):
            if arrived := self.arrivals(at, int(self.now_s // PERIOD_S)) * TICK_S:
                cohorts.append([self.now_s, arrived])
        capacity = self.running * self.group.slots * TICK_S / job_s
        for at, cohorts in enumerate(self.waiting):
            taken = _taken(cohorts, capacity)
            capacity -= taken
            self.done += taken
            self.in_flight[at] = taken * job_s / TICK_S
        self.now_s += TICK_S


def policies_of(
    group: WorkerGroup, queues: Sequence[QueueSpec]
) -> tuple[list[Tracking], list[Step]]:
    """Return the policies that the stack gives a group."""
    steps = [
        Step(overdue(queues), lambda tasks: tasks + max(1, tasks * GROWTH_PERCENT // 100), START_S)
    ]
    if group.min_tasks == 0:
        steps.append(Step([wake(queues, COUNTS)], lambda tasks: tasks + 1, FIRST_S))
    return [Tracking(load(group, queues, COUNTS))], steps


def scaled(
    fleet: Fleet, minutes: int, tracking: Sequence[Tracking], steps: Sequence[Step]
) -> list[int]:
    """Run a fleet under these policies; return the number of its tasks, minute by minute."""
    course, shrunk_s = [], -math.inf
    before: Told = {}
    for _ in range(minutes):
        told, before = before, fleet.minute()
        tasks = len(fleet.ready)
        asked = [each.asks(told, tasks, fleet.now_s) for each in tracking]
        more = [
            each for each in [*asked, *(s.asks(told, tasks, fleet.now_s) for s in steps)] if each
        ]
        fewer = [each for each in asked if each is not None]
        if max(more, default=0) > tasks:
            fleet.scale(max(more))
        elif len(fewer) == len(asked) and max(fewer) < tasks and fleet.now_s >= shrunk_s + LINGER_S:
            shrunk_s = fleet.now_s
            fleet.scale(max(fewer))
        course.append(len(fleet.ready))
    return course


def ideal(fleet: Fleet, minutes: int) -> list[int]:
    """Run a fleet that knows at once what it needs, and whose tasks start at once."""
    fleet.starts_s = 0
    course = []
    for _ in range(minutes):
        told = fleet.minute()
        held = min(told[None, TASKS_BUSY], fleet.running)
        fleet.scale(math.ceil(max(told[None, TASKS_WANTED], held)))
        course.append(len(fleet.ready))
    return course


def _taken(cohorts: deque[list[float]], capacity: float) -> float:
    """Take the oldest jobs, as many as there is capacity for."""
    taken = 0.0
    while cohorts and capacity > taken:
        part = min(cohorts[0][1], capacity - taken)
        taken += part
        cohorts[0][1] -= part
        if cohorts[0][1] <= 1e-9:
            cohorts.popleft()
    return taken
