"""The backlog of a worker group in tasks, for alarms and for the function that counts it.

Pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.jobs.core.existing.arns import is_arn
from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.deployment.alarms.thresholds import MOST_METRICS
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.values.light_dataclass import light_dataclass

PERIOD_S = 60
"""Interval at which queues, services and the function publish their metrics."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class QueueLoad:
    """The jobs of one queue, as SQS counts them."""

    waiting: int
    in_flight: int
    per_task: float
    """Waiting jobs that one task starts in time: `acceptable_backlog`."""


def promise_s(queue: QueueSpec) -> float:
    """Return the seconds within which a queue's jobs have to start, at least one period."""
    return max(queue.lane.start_within.total_seconds(), PERIOD_S)


def acceptable_backlog(group: WorkerGroup, queue: QueueSpec) -> float:
    """Return the number of waiting jobs of a queue that one task can start in time.

    A new task starts one job per slot at once; from then on each slot starts the next one whenever
    a job ends. A queue that promises an immediate start counts with one period: the metrics are no
    faster.
    """
    return group.slots * max(1.0, promise_s(queue) / group.typical.total_seconds())


def tasks_wanted(backlogs: Iterable[QueueLoad]) -> float:
    """Return the number of tasks that would start all waiting jobs in time."""
    return sum(each.waiting / each.per_task for each in backlogs)


def tasks_busy(backlogs: Sequence[QueueLoad], *, slots: int, sleeps: bool) -> float:
    """Return the number of tasks that the jobs in flight fill.

    Args:
        backlogs: the jobs of each of the group's queues.
        slots: jobs that run at once in one task.
        sleeps: whether the group may have no task (``min_tasks=0``). Any work then counts as one
            task, which stays until all is done.
    """
    busy = sum(each.in_flight for each in backlogs) / slots
    if sleeps and any(each.waiting or each.in_flight for each in backlogs):
        return max(1.0, busy)
    return busy


def is_counted(queues: Sequence[QueueSpec]) -> bool:
    """Return True if a function counts a group's jobs: its queues are too many for an alarm.

    It watches two numbers of each queue, and the group's tasks. Nor can a scaling policy see the
    numbers of another account's queue.
    """
    return 2 * len(queues) > MOST_METRICS - 1 or any(is_arn(queue.name) for queue in queues)


def counted_groups(topology: Topology, groups: Sequence[WorkerGroup]) -> list[WorkerGroup]:
    """Return those of an app's worker groups whose jobs a function counts."""
    return [group for group in groups if is_counted(group.selection.of(topology))]
