"""The jobs in what a deployment would remove, counted on AWS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from headgate.jobs.core.backend import Ports
from headgate.jobs.core.naming import physical_name
from headgate.jobs.core.topology import Priority
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.removals import QUEUE, SCHEDULE_GROUP, Removal
from headgate.jobs.errors import ConfigurationError, QueueMissing, ScheduleGroupMissing
from headgate.jobs.schedules.delayed_job import PREFIX as DELAYED
from headgate.jobs.schedules.registry import PREFIX as MADE_LATER
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class CountedRemoval:
    """A removal, and the jobs that it concerns."""

    removal: Removal
    jobs: int | None
    """Number of messages, or of delayed jobs and of schedules made at run time; None if it can't be
    counted. SQS's counts are approximate."""

    @property
    def is_harmless(self) -> bool:
        """True if no job is lost, and none waits where no worker looks."""
        if self.jobs is None:
            return self.removal.kept
        return self.jobs == 0


@light_dataclass(frozen=True, slots=True, kw_only=True)
class StackRemovals:
    """The resources that a deployment would remove from one stack."""

    stack: str
    region: str | None
    """The stack's region; None: the one of AWS's settings."""
    found: Sequence[CountedRemoval] | None
    """None: the stack is not deployed there."""


def keeping(app: App) -> Mapping[str, str]:
    """Return what to write so that the app has the queues of its groups' other priorities.

    Returns:
        By the name of each queue and dead-letter queue that the app could have and doesn't.
    """
    return {
        name: (
            f'write App(..., priorities="all"), or other_priorities=[{str(priority)!r}] on a type'
            if queue.lists_none
            else f"add {str(priority)!r} to the priorities= of the queue {group!r}"
        )
        for group, queue in app.queues.items()
        for priority in Priority
        if priority not in queue.lanes
        for name in _names(app, group, priority, fifo=queue.fifo)
    }


def _names(app: App, group: str, priority: Priority, *, fifo: bool) -> Iterator[str]:
    with suppress(ConfigurationError):  # no queue has a name that is too long for SQS
        parts = (app.name, app.stage, group, str(priority))
        yield physical_name(*parts, fifo=fifo)
        yield physical_name(*parts, "dlq", fifo=fifo)


def count_jobs(removals: Iterable[Removal], ports: Ports) -> list[CountedRemoval]:
    """Count the jobs in each.

    Raises:
        TransportError: AWS could not be asked, or refused.
    """
    return [CountedRemoval(removal=each, jobs=_jobs(each, ports)) for each in removals]


def _jobs(removal: Removal, ports: Ports) -> int | None:
    if removal.kind == QUEUE:
        return _messages(removal.name, ports)
    return _schedules(removal.name, ports) if removal.kind == SCHEDULE_GROUP else None


def _messages(queue: str, ports: Ports) -> int:
    try:
        return ports.transport.depth(queue).total
    except QueueMissing:
        return 0


def _schedules(group: str, ports: Ports) -> int:
    try:
        return sum(
            len(ports.scheduler.names(group, prefix=prefix)) for prefix in (DELAYED, MADE_LATER)
        )
    except ScheduleGroupMissing:
        return 0
