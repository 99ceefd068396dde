"""What runs the jobs: worker tasks and functions, and how many of them it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups import ConsumerGroup, WorkerGroup
from headgate.ops.costing.load import Load, Stream, typical_s
from headgate.ops.prices import MONTH_S

UTILISATION = 0.7
"""The part of a task's slots that jobs are in when it has as many as autoscaling lets it have."""

LAMBDA_POLLERS = 5
"""Long polls that Lambda keeps open on a queue that is idle.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """A worker group with its part of the work."""

    group: WorkerGroup
    queues: tuple[QueueSpec, ...]
    busy_s: Mapping[str, float]
    """By job type, seconds that its handlers run in a month, all slots added up."""
    peak: float

    @property
    def needed(self) -> float:
        """Tasks that the mean load keeps busy."""
        return sum(self.busy_s.values()) / (MONTH_S * self.group.slots * UTILISATION)

    @property
    def at_peak(self) -> int:
        """Tasks while jobs come."""
        wanted = math.ceil(self.needed * self.peak)
        return min(max(wanted, self.group.min_tasks), self.group.max_tasks)

    @property
    def tasks(self) -> float:
        """Tasks on average."""
        return self.at_peak / self.peak + self.group.min_tasks * (1 - 1 / self.peak)

    @property
    def is_overloaded(self) -> bool:
        """Whether the most tasks that it may have are too few at the peak."""
        return self.needed * self.peak > self.group.max_tasks

    @property
    def processes(self) -> float:
        """Worker processes on average; each of them polls all of its queues."""
        return self.tasks * self.group.processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All that runs the app's jobs."""

    crews: tuple[Crew, ...]
    consumers: Mapping[str, tuple[ConsumerGroup, ...]]
    """By physical name of the queue."""
    run_s: Mapping[str, float]
    """By job type, how long a handler runs."""
    streams: tuple[Stream, ...]
    queues: tuple[QueueSpec, ...]

    def workers(self, queue: QueueSpec) -> float:
        """Worker processes that have a queue, on average."""
        return sum(crew.processes for crew in self.crews if queue in crew.queues)

    def pollers(self, queue: QueueSpec) -> float:
        """Long polls that are open on a queue at a time, on average."""
        return self.workers(queue) + LAMBDA_POLLERS * len(self.consumers[queue.name])

    def part_of_workers(self, queue: QueueSpec) -> float:
        """The part of a queue's jobs that workers run, where functions have the others."""
        workers = sum(queue in crew.queues for crew in self.crews)
        functions = len(self.consumers[queue.name])
        return workers / (workers + functions) if workers + functions else 1.0


def fleet_of(
    topology: Topology, deployment: Deployment, load: Load, streams: Sequence[Stream]
) -> Fleet:
    """Who runs what; the jobs of a queue that several have are spread evenly over them.

    Raises:
        UnknownQueue, ConfigurationError: the deployment names queues that the app doesn't have.
    """
    lanes = {group.name: group.lanes.of(topology) for group in deployment.workers}
    consumers = {
        queue.name: tuple(each for each in deployment.consumers if queue in each.lanes.of(topology))
        for queue in topology.queues
    }
    run_s = {
        stream.job.name: typical_s(
            load, [group for group in deployment.workers if stream.queue in lanes[group.name]]
        )
        for stream in streams
    }

    def busy(group: WorkerGroup) -> dict[str, float]:
        return {
            stream.job.name: stream.runs * run_s[stream.job.name] / servers(stream.queue)
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
