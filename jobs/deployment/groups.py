"""Groups of workers and of Lambda functions that run an app's jobs, as values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from headgate.jobs.core.naming import MAX_SCHEDULER_NAME, check_name
from headgate.jobs.core.topology import Priority, QueueSpec, Topology
from headgate.jobs.deployment.pollers import INVOCATIONS_EACH, ProvisionedPollers
from headgate.jobs.deployment.surroundings import (
    Architecture,
    Sidecar,
    check_role,
    check_sidecars,
    check_surroundings,
)
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.kinds import check_kinds

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

FUNCTION_MEMORY_MB = 256
"""Memory of each of Headgate's own functions."""

GIVE_BACK = timedelta(seconds=3)
"""Time from interrupting a function's jobs to its timeout, so that it answers in time."""

FUNCTION_CONCURRENCY = 10
"""Default number of jobs of one invocation that run at once; a batch has ten by default."""

HEALTH_HOSTS = ("127.0.0.1", "0.0.0.0")  # noqa: S104 - opened only by a security group's rule
"""The addresses on which a task may serve its health and its metrics."""

_OWN_FUNCTIONS = ("bridge", "sweep", "demand")

_MAX_CONCURRENCY = 10
_MOST_TASKS = 5_000
_MOST_CONCURRENCY = 1_000
_MOST_PROCESSES = 64
_MOST_STOP_TIMEOUT = timedelta(seconds=120)
_LEAST_STOP_TIMEOUT = timedelta(seconds=30)
_MOST_FUNCTION_TIMEOUT = timedelta(minutes=15)
_LEAST_FUNCTION_TIMEOUT = timedelta(seconds=5)
_MOST_FUNCTION_MB = 10_240
_LEAST_FUNCTION_MB = 128
_MOST_BATCH = 10_000
_MOST_WINDOW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSelection:
    """A selection of queues by group and priority: those that match both."""

    queues: tuple[str, ...] | None = None
    """The queue groups; None: all of the app's."""
    priorities: tuple[Priority, ...] | None = None
    """The priorities within these groups; None: all that they have."""

    def of(self, topology: Topology) -> tuple[QueueSpec, ...]:
        """Return the selected queues of a topology.

        Raises:
            UnknownQueue: a group is not one of the app's.
            ConfigurationError: no queue matches both, or the app has none at all.
        """
        found = tuple(
            spec
            for spec in topology.select(self.queues)
            if self.priorities is None or spec.priority in self.priorities
        )
        if not topology.queues:
            raise ConfigurationError(
                f"the app {topology.app!r} has no queue to work on: declare job types, or import "
                "the modules that do"
            )
        if not found:
            raise ConfigurationError(
                f"none of the queues {', '.join(self.queues or topology.groups)} has the priority "
                f"{' or '.join(self.priorities or ())}"
            )
        return found


@dataclass(frozen=True, kw_only=True)
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
    as a policy; it has to trust ``ecs-tasks.amazonaws.com``. None: a role of its own."""

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


@dataclass(frozen=True, kw_only=True)
class ConsumerGroup:
    """A Lambda function that runs the jobs of some queues, delivered by Lambda's pollers of SQS.

    Durations are given in seconds or as timedeltas.

    Raises:
        ConfigurationError: a value is out of range, or two contradict each other.
    """

    name: str
    handler: str
    """The function that `lambdas.consume.consumer` returned, as ``module.attribute``."""
    source: str = "."
    """The directory of the user's code, relative to where CDK runs; paths that ``.dockerignore``
    names there are left out."""
    requirements: str | None = None
    """The user's dependencies: a requirements file, relative to where CDK runs."""
    queues: tuple[str, ...] | None = None
    priorities: tuple[Priority, ...] | None = None
    timeout: DurationField = DurationField(30)
    """The function's timeout, 5 s to 15 min; at most the visibility timeout of each queue."""
    memory_mib: int = 512
    batch_size: int = 10
    """Messages of one invocation, 1 to 10,000; at most 10 for a FIFO queue or without a window."""
    max_batching_window: DurationField = DurationField(0)
    """Time for which messages are gathered for a batch, up to 5 min."""
    max_concurrency: int | None = None
    """Simultaneous invocations for each queue, 2 to 1,000 (MaximumConcurrency). None: 10, or what
    ``pollers`` allow, which exclude it."""
    pollers: ProvisionedPollers | None = None
    """Dedicated pollers for each queue (provisioned mode); None: Lambda's own."""
    architecture: Architecture = "arm64"
    """The processors that the function runs on, and its dependencies are installed for."""
    tracing: bool = False
    """Sample invocations with AWS X-Ray (active tracing)."""
    concurrency: int = FUNCTION_CONCURRENCY
    """Jobs of one invocation that run at once, 1 to 1,000; the function's environment has it as
    ``HEADGATE_CONCURRENCY``, and ``consumer(app, concurrency=...)`` overrides it."""
    typical: DurationField = DurationField(1)
    """Run time of a typical job. A batch of such jobs has to fit into the function's time."""
    submits: bool = True
    """Its handlers may submit jobs to any of the app's queues (``ctx.submit``)."""
    reserved_concurrency: int | None = None
    """Part of the account's concurrency reserved for the function, at least `most_invocations` for
    each of its queues (ReservedConcurrentExecutions). None reserves nothing: these limit it
    already.
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""

    def __post_init__(self) -> None:
        check_name("consumer", self.name)
        check_kinds(f"the consumer {self.name!r}", self)
        if self.name in _OWN_FUNCTIONS:
            raise ConfigurationError(
                f"a consumer can't be called {self.name!r}: Headgate has a function of that name"
            )
        if not _LEAST_FUNCTION_TIMEOUT <= self.timeout <= _MOST_FUNCTION_TIMEOUT:
            raise ConfigurationError(
                f"the consumer {self.name!r}: timeout must lie between 5 s and 15 min, Lambda's "
                f"limit, got {self.timeout}"
            )
        if not _LEAST_FUNCTION_MB <= self.memory_mib <= _MOST_FUNCTION_MB:
            raise ConfigurationError(
                f"the consumer {self.name!r}: memory_mib must lie between {_LEAST_FUNCTION_MB} and "
                f"{_MOST_FUNCTION_MB}, got {self.memory_mib}"
            )
        if not timedelta(0) <= self.max_batching_window <= _MOST_WINDOW:
            raise ConfigurationError(
                f"the consumer {self.name!r}: max_batching_window must lie between 0 and 5 min, "
                f"got {self.max_batching_window}"
            )
        most = _MOST_BATCH if self.max_batching_window >= timedelta(seconds=1) else 10
        if not 1 <= self.batch_size <= most:
            raise ConfigurationError(
                f"the consumer {self.name!r}: batch_size must lie between 1 and {most}"
                f"{'' if most > 10 else ' unless max_batching_window is at least 1 s'}, got "
                f"{self.batch_size}"
            )
        if self.pollers is not None and self.max_concurrency is not None:
            raise ConfigurationError(
                f"the consumer {self.name!r}: max_concurrency and pollers exclude each other: a "
                f"poller invokes the function up to {INVOCATIONS_EACH} times at once"
            )
        if not 2 <= (self.max_concurrency or 2) <= 1_000:
            raise ConfigurationError(
                f"the consumer {self.name!r}: max_concurrency must lie between 2 and 1,000, got "
                f"{self.max_concurrency}"
            )
        if not 1 <= self.concurrency <= _MOST_CONCURRENCY:
            raise ConfigurationError(
                f"the consumer {self.name!r}: concurrency must lie between 1 and "
                f"{_MOST_CONCURRENCY:,}, got {self.concurrency}"
            )
        if self.typical <= timedelta(0):
            raise ConfigurationError(
                f"the consumer {self.name!r}: typical must be positive, got {self.typical}"
            )

    @property
    def selection(self) -> QueueSelection:
        """The queues whose jobs it runs."""
        return QueueSelection(queues=self.queues, priorities=self.priorities)

    @property
    def most_invocations(self) -> int:
        """Simultaneous invocations for each queue."""
        if self.pollers is not None:
            return INVOCATIONS_EACH * self.pollers.maximum
        return self.max_concurrency or _MAX_CONCURRENCY

    @property
    def longest_job(self) -> timedelta:
        """Time available to a job that begins with the invocation."""
        return self.timeout - GIVE_BACK

    @property
    def typical_batch(self) -> timedelta:
        """Run time of a whole batch of typical jobs, with `concurrency` of them at once."""
        return self.typical * math.ceil(self.batch_size / self.concurrency)

    @property
    def hidden(self) -> timedelta:
        """Time for which a message has to stay hidden, since Lambda holds it while a batch gathers
        and while the function runs; nothing extends it."""
        return self.timeout + self.max_batching_window

    @property
    def advised_visibility(self) -> timedelta:
        """Visibility timeout that AWS advises for a function's queues: six times its timeout, plus
        the window.
        https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""
        return 6 * self.timeout + self.max_batching_window


def worker_service_name(topology: Topology, group: WorkerGroup) -> str:
    """Return the name of a worker group's ECS service: app, stage and name."""
    return _named(topology, group.name)


def function_name(topology: Topology, name: str) -> str:
    """Return the name of one of the app's Lambda functions: app, stage and name.

    Raises:
        ConfigurationError: it is longer than AWS allows.
    """
    return _named(topology, name)


def _named(topology: Topology, name: str) -> str:
    whole = "-".join(part for part in (topology.app, topology.stage, name) if part)
    if len(whole) > MAX_SCHEDULER_NAME:
        raise ConfigurationError(
            f"the name {whole!r} has {len(whole)} characters; AWS allows {MAX_SCHEDULER_NAME}: "
            "shorten the name of the app, the stage or the group"
        )
    return whole


def _listed(memories: range | tuple[int, ...]) -> str:
    if isinstance(memories, range):
        return f"{memories[0]} to {memories[-1]} (in steps of {memories.step})"
    return ", ".join(map(str, memories))
