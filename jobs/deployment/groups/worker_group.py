"""Workers on ECS Fargate, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta

from headgate.jobs.core.naming import check_name
from headgate.jobs.core.topology import Priority
from headgate.jobs.deployment.groups.queue_selection import QueueSelection
from headgate.jobs.deployment.surroundings import (
    Sidecar,
    check_role,
    check_sidecars,
    check_surroundings,
)
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import frozen_dataclass

FARGATE_MEMORY_MB: Mapping[int, range | tuple[int, ...]] = {
    256: (512, 1024, 2048),
    512: range(1024, 4096 + 1, 1024),
    1024: range(2048, 8192 + 1, 1024),
    2048: range(4096, 16384 + 1, 1024),
    4096: range(8192, 30720 + 1, 1024),
    8192: range(16384, 61440 + 1, 4096),
    16384: range(32768, 122880 + 1, 8192),
}
"""Memory sizes in MiB that a task may have, by its CPU units.
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-tasks-services.html"""

SETTLE = timedelta(seconds=8)
"""Time for interruption and the last settlements after a worker's drain."""

HEALTH_HOSTS = ("127.0.0.1", "0.0.0.0")  # noqa: S104 - opened only by a security group's rule
"""The addresses on which a task may serve its health and its metrics."""

_MOST_TASKS = 5_000
_MOST_CONCURRENCY = 1_000
_MOST_PROCESSES = 64
_MOST_STOP_TIMEOUT = timedelta(seconds=120)
_LEAST_STOP_TIMEOUT = timedelta(seconds=30)


@frozen_dataclass(frozen=True, kw_only=True)
class WorkerGroup:
    """Worker tasks of one kind on ECS Fargate, and their number.

    Durations are given in seconds or as timedeltas.

    Raises:
        ConfigurationError: a value is out of range, or two contradict each other.
    """

    name: str = "workers"
    queues: tuple[str, ...] | None = None
    """The queue groups that they serve; None: all of the app's."""
    priorities: tuple[Priority, ...] | None = None
    """The priorities within these groups; None: all that they have."""
    cpu: int = 256
    """CPU units of a task, 1,024 to the vCPU."""
    memory_mib: int = 512
    concurrency: int = 50
    """Jobs that run at once in each worker process."""
    processes: int = 1
    """Worker processes in a task; one per vCPU is a good number."""
    min_tasks: int = 1
    """Minimum number of tasks. With 0 an idle group costs nothing, but its first job waits for a
    task to start, which takes some minutes; after six idle hours up to 15 more, since CloudWatch is
    then that late to notice a queue.
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/monitoring-using-cloudwatch.html"""
    max_tasks: int = 10
    """Maximum number of tasks."""
    typical: DurationField = DurationField(1)
    """Run time of a typical job. Together with "start within" it determines how many waiting jobs
    are too many for a task."""
    submits: bool = True
    """Its handlers may submit jobs to any of the app's queues (``ctx.submit``)."""
    spot: bool = False
    """Run on spare capacity, at about a third of the price, which AWS takes back with two minutes'
    notice. At most 120 s of that can be used for draining."""
    stop_timeout: DurationField = DurationField(30)
    """Time from SIGTERM until ECS kills the task, 30 to 120 s; jobs may go on for all of it but the
    last 8 s."""
    health_host: str = HEALTH_HOSTS[0]
    """The address that serves health and metrics in a task: 127.0.0.1, which its own containers
    alone reach, or 0.0.0.0 for a Prometheus in the VPC, once a rule of the service's security group
    lets it in."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Environment variables of this group, in addition to the deployment's or in their place."""
    secrets: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Secrets of this group, likewise."""
    sidecars: tuple[Sidecar, ...] = ()
    """Further containers in each of its tasks."""
    task_role: str | None = None
    """The ARN of an existing role that its tasks assume, which is given the permissions of a worker
    as a managed policy of each stack; it has to trust ``ecs-tasks.amazonaws.com``. None: a role of
    its own."""

    def __post_init__(self) -> None:
        check_name("worker group", self.name)
        check_kinds(f"the worker group {self.name!r}", self)
        check_surroundings(f"the worker group {self.name!r}", self.environment, self.secrets)
        check_role(f"the worker group {self.name!r}", self.task_role)
        check_sidecars(f"the worker group {self.name!r}", self.sidecars, self.memory_mib)
        memories = FARGATE_MEMORY_MB.get(self.cpu)
        if memories is None:
            raise ConfigurationError(
                f"the worker group {self.name!r}: cpu must be one of "
                f"{', '.join(map(str, FARGATE_MEMORY_MB))}, got {self.cpu}"
            )
        if self.memory_mib not in memories:
            raise ConfigurationError(
                f"the worker group {self.name!r}: memory_mib of a task with {self.cpu} CPU units "
                f"may be {_listed(memories)}, got {self.memory_mib}"
            )
        if not 0 <= self.min_tasks <= self.max_tasks <= _MOST_TASKS or self.max_tasks < 1:
            raise ConfigurationError(
                f"the worker group {self.name!r}: tasks must be 0 <= min_tasks <= max_tasks <= "
                f"{_MOST_TASKS}, with max_tasks at least 1, got {self.min_tasks} and "
                f"{self.max_tasks}"
            )
        if not (
            1 <= self.concurrency <= _MOST_CONCURRENCY and 1 <= self.processes <= _MOST_PROCESSES
        ):
            raise ConfigurationError(
                f"the worker group {self.name!r}: concurrency and processes are at least 1, and at "
                f"most {_MOST_CONCURRENCY:,} and {_MOST_PROCESSES}, got {self.concurrency} and "
                f"{self.processes}"
            )
        if self.typical <= timedelta(0):
            raise ConfigurationError(
                f"the worker group {self.name!r}: typical must be positive, got {self.typical}"
            )
        if not _LEAST_STOP_TIMEOUT <= self.stop_timeout <= _MOST_STOP_TIMEOUT:
            raise ConfigurationError(
                f"the worker group {self.name!r}: stop_timeout must lie between 30 and 120 s, "
                f"Fargate's limit, got {self.stop_timeout}"
            )
        if self.health_host not in HEALTH_HOSTS:
            raise ConfigurationError(
                f"the worker group {self.name!r}: health_host is {' or '.join(HEALTH_HOSTS)}, "
                f"since ECS asks the first one for the task's health, got {self.health_host!r}"
            )

    @property
    def selection(self) -> QueueSelection:
        """The queues that its workers serve."""
        return QueueSelection(queues=self.queues, priorities=self.priorities)

    @property
    def on_demand(self) -> int:
        """Tasks that are never on spare capacity, if that many run. On spot it is one for a group
        that always has a task, so that it goes on when there is no spare capacity."""
        return min(1, self.min_tasks) if self.spot else self.max_tasks

    @property
    def drain(self) -> timedelta:
        """Time for which running jobs may go on after SIGTERM."""
        return self.stop_timeout - SETTLE

    @property
    def slots(self) -> int:
        """Jobs that run at once in one task."""
        return self.concurrency * self.processes


def _listed(memories: range | tuple[int, ...]) -> str:
    if isinstance(memories, range):
        return f"{memories[0]} to {memories[-1]} (in steps of {memories.step})"
    return ", ".join(map(str, memories))
