"""The fleet that runs the jobs: worker tasks and functions, and the number of them needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.costing.load import Load, Stream, typical_s
from headgate.ops.prices import MONTH_S

UTILISATION = 0.7
"""Fraction of a task's slots in use when its group has as many tasks as autoscaling aims for."""

LAMBDA_POLLERS = 5
"""Long polls that Lambda keeps open on an idle queue.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """A worker group with its share of the work."""

    group: WorkerGroup
    queues: tuple[QueueSpec, ...]
    busy_s: Mapping[str, float]
    """Seconds that handlers run in a month, added up over all slots, by job type."""
    peak: float

    @property
    def needed(self) -> float:
        """Tasks needed for the mean load."""
        return sum(self.busy_s.values()) / (MONTH_S * self.group.slots * UTILISATION)

    @property
    def at_peak(self) -> int:
        """Tasks while jobs arrive."""
        wanted = math.ceil(self.needed * self.peak)
        return min(max(wanted, self.group.min_tasks), self.group.max_tasks)

    @property
    def tasks(self) -> float:
        """Tasks on average."""
        return self.at_peak / self.peak + self.group.min_tasks * (1 - 1 / self.peak)

    @property
    def is_overloaded(self) -> bool:
        """True if ``max_tasks`` is too few for the peak."""
        return self.needed * self.peak > self.group.max_tasks

    @property
    def processes(self) -> float:
        """Worker processes on average; each polls all queues of the group."""
        return self.tasks * self.group.processes


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All worker groups and functions that run the app's jobs."""

    crews: tuple[Crew, ...]
    consumers: Mapping[str, tuple[ConsumerGroup, ...]]
    """Consumers by the queue's physical name."""
    run_s: Mapping[str, float]
    """Seconds that a handler runs, by job type; the longest, where several groups and consumers
    that differ run it."""
    streams: tuple[Stream, ...]
    queues: tuple[QueueSpec, ...]

    def workers(self, queue: QueueSpec) -> float:
        """Return the average number of worker processes that poll a queue."""
        return sum(crew.processes for crew in self.crews if queue in crew.queues)

    def pollers(self, queue: QueueSpec) -> float:
        """Return the average number of long polls open on a queue."""
        consumers = self.consumers[queue.name]
        return self.workers(queue) + sum(
            each.pollers.minimum if each.pollers else LAMBDA_POLLERS for each in consumers
        )

    def part_of_workers(self, queue: QueueSpec) -> float:
        """Return the fraction of a queue's jobs that workers run; functions run the others."""
        workers = sum(queue in crew.queues for crew in self.crews)
        functions = len(self.consumers[queue.name])
        return workers / (workers + functions) if workers + functions else 1.0


def fleet_of(
    topology: Topology, deployment: Deployment, load: Load, streams: Sequence[Stream]
) -> Fleet:
    """Assign the jobs to worker groups and functions, evenly where several serve a queue.

    Raises:
        UnknownQueue, ConfigurationError: the deployment names queues that the app doesn't have.
    """
    lanes = {group.name: group.selection.of(topology) for group in deployment.workers}
    consumers = {
        queue.name: tuple(
            each for each in deployment.consumers if queue in each.selection.of(topology)
        )
        for queue in topology.queues
    }
    run_s = {
        stream.job.name: typical_s(
            load,
            [
                *(group for group in deployment.workers if stream.queue in lanes[group.name]),
                *consumers[stream.queue.name],
            ],
        )
        for stream in streams
    }

    def busy(group: WorkerGroup) -> dict[str, float]:
        return {
            stream.job.name: stream.runs * typical_s(load, [group]) / servers(stream.queue)
            for stream in streams
            if stream.queue in lanes[group.name]
        }

    def servers(queue: QueueSpec) -> int:
        return sum(queue in each for each in lanes.values()) + len(consumers[queue.name])

    crews = tuple(
        Crew(group=group, queues=lanes[group.name], busy_s=busy(group), peak=load.peak)
        for group in deployment.workers
    )
    return Fleet(
        crews=crews,
        consumers=consumers,
        run_s=run_s,
        streams=tuple(streams),
        queues=topology.queues,
    )
