"""What runs an app's jobs on AWS: worker services, Lambda functions, alerts, as values.

Read by CDK, by ``headgate check`` and by ``headgate cost``, so that what is provisioned, checked
and paid for is the same. No AWS in here. ``cdk.json`` may hold one for all stages, and more for
each::

    "context": {
      "headgate:app": "shop.app:app",
      "headgate:deployment": {"alerts_to": ["oncall@example.com"]},
      "headgate:stages": {"prod": {"workers": [{"name": "workers", "least": 2, "most": 20}]}}
    }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from jobs.errors import ConfigurationError
from jobs.topology import MAX_SCHEDULER_NAME, Priority, QueueSpec, Topology, check_name

FARGATE_MEMORY_MB: Mapping[int, range | tuple[int, ...]] = {
    256: (512, 1024, 2048),
    512: range(1024, 4096 + 1, 1024),
    1024: range(2048, 8192 + 1, 1024),
    2048: range(4096, 16384 + 1, 1024),
    4096: range(8192, 30720 + 1, 1024),
    8192: range(16384, 61440 + 1, 4096),
    16384: range(32768, 122880 + 1, 8192),
}
"""The memory that a task of so many CPU units may have.
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-tasks-services.html"""

SETTLE = timedelta(seconds=8)
"""What interruption and the last settlements may take after a worker's drain."""

_MOST_TASKS = 5_000
_MOST_STOP_TIMEOUT = timedelta(seconds=120)
_LEAST_STOP_TIMEOUT = timedelta(seconds=30)
_MOST_FUNCTION_TIMEOUT = timedelta(minutes=15)
_LEAST_FUNCTION_TIMEOUT = timedelta(seconds=5)
_MOST_FUNCTION_MB = 10_240
_LEAST_FUNCTION_MB = 128
_MOST_BATCH = 10_000
_MOST_WINDOW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Queues by group and priority; all that have both."""

    queues: tuple[str, ...] | None = None
    """The queue groups; None: all of the app's."""
    priorities: tuple[Priority, ...] | None = None
    """Of these groups, the priorities; None: all that they have."""

    def of(self, topology: Topology) -> tuple[QueueSpec, ...]:
        """The queues of that topology.

        Raises:
            UnknownQueue: a group is not one of the app's.
            ConfigurationError: no queue has both.
        """
        found = tuple(
            spec
            for spec in topology.select(self.queues)
            if self.priorities is None or spec.priority in self.priorities
        )
        if not found:
            raise ConfigurationError(
                f"none of the queues {', '.join(self.queues or topology.groups)} has the priority "
                f"{' or '.join(self.priorities or ())}"
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroup:
    """Worker tasks of one kind on ECS Fargate, and how many.

    Raises:
        ConfigurationError: a value is out of range, or two contradict each other.
    """

    name: str = "workers"
    queues: tuple[str, ...] | None = None
    """The queue groups that they serve; None: all of the app's."""
    priorities: tuple[Priority, ...] | None = None
    """Of these groups, the priorities; None: all that they have."""
    cpu: int = 256
    """CPU units of a task, 1,024 to the vCPU."""
    memory_mb: int = 512
    concurrency: int = 50
    """Jobs at once in each worker process."""
    processes: int = 1
    """Worker processes in a task; one to the vCPU is a good number."""
    least: int = 1
    """Tasks when there is nothing to do. 0 lets an idle group cost nothing, and its first job wait
    for a task to start, which takes a minute or two."""
    most: int = 10
    """Tasks at most."""
    typical: timedelta = timedelta(seconds=1)
    """How long a typical job runs. With "start within" it says how many waiting jobs are too many
    for a task."""
    spot: bool = False
    """Run on spare capacity, at about a third of the price, which AWS takes back with two minutes'
    notice. At most 120 s of that can be used for draining."""
    stop_timeout: timedelta = timedelta(seconds=30)
    """How long after SIGTERM ECS waits before it kills, 30 to 120 s; jobs may finish for all of it
    but the last 8 s."""

    def __post_init__(self) -> None:
        check_name("worker group", self.name)
        memories = FARGATE_MEMORY_MB.get(self.cpu)
        if memories is None:
            raise ConfigurationError(
                f"the worker group {self.name!r}: cpu must be one of "
                f"{', '.join(map(str, FARGATE_MEMORY_MB))}, got {self.cpu}"
            )
        if self.memory_mb not in memories:
            raise ConfigurationError(
                f"the worker group {self.name!r}: a task with {self.cpu} CPU units may have "
                f"{_listed(memories)} MB, got {self.memory_mb}"
            )
        if not 0 <= self.least <= self.most <= _MOST_TASKS or self.most < 1:
            raise ConfigurationError(
                f"the worker group {self.name!r}: tasks must be 0 <= least <= most <= "
                f"{_MOST_TASKS}, with most at least 1, got {self.least} and {self.most}"
            )
        if self.concurrency < 1 or self.processes < 1:
            raise ConfigurationError(
                f"the worker group {self.name!r}: concurrency and processes are at least 1, got "
                f"{self.concurrency} and {self.processes}"
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

    @property
    def lanes(self) -> Lanes:
        """The queues that they serve."""
        return Lanes(queues=self.queues, priorities=self.priorities)

    @property
    def drain(self) -> timedelta:
        """How long running jobs may go on after SIGTERM."""
        return self.stop_timeout - SETTLE

    @property
    def slots(self) -> int:
        """Jobs at once in one task."""
        return self.concurrency * self.processes


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A Lambda function that runs jobs of some queues, which SQS hands to it.

    Raises:
        ConfigurationError: a value is out of range, or two contradict each other.
    """

    name: str
    handler: str
    """What `lambdas.consume.consumer` returned, as ``module.attribute``."""
    source: str = "."
    """The directory of the user's code, relative to where CDK runs; what ``.dockerignore``
    names there is left out."""
    requirements: str | None = None
    """The user's dependencies: a requirements file, relative to where CDK runs."""
    queues: tuple[str, ...] | None = None
    priorities: tuple[Priority, ...] | None = None
    timeout: timedelta = timedelta(seconds=30)
    """The function's, 5 s to 15 min; at most the visibility timeout of each of its queues."""
    memory_mb: int = 512
    batch: int = 10
    """Messages of one invocation, 1 to 10,000; 10 at most of a FIFO queue or without a window."""
    window: timedelta = timedelta(0)
    """How long messages are gathered for a batch, up to 5 min."""
    most: int = 10
    """Invocations at once of each queue, 2 to 1,000 (MaximumConcurrency)."""

    def __post_init__(self) -> None:
        check_name("consumer", self.name)
        if not _LEAST_FUNCTION_TIMEOUT <= self.timeout <= _MOST_FUNCTION_TIMEOUT:
            raise ConfigurationError(
                f"the consumer {self.name!r}: timeout must lie between 5 s and 15 min, Lambda's "
                f"limit, got {self.timeout}"
            )
        if not _LEAST_FUNCTION_MB <= self.memory_mb <= _MOST_FUNCTION_MB:
            raise ConfigurationError(
                f"the consumer {self.name!r}: memory_mb must lie between {_LEAST_FUNCTION_MB} and "
                f"{_MOST_FUNCTION_MB}, got {self.memory_mb}"
            )
        if not timedelta(0) <= self.window <= _MOST_WINDOW:
            raise ConfigurationError(
                f"the consumer {self.name!r}: window must lie between 0 and 5 min, got "
                f"{self.window}"
            )
        most = _MOST_BATCH if self.window >= timedelta(seconds=1) else 10
        if not 1 <= self.batch <= most:
            raise ConfigurationError(
                f"the consumer {self.name!r}: batch must lie between 1 and {most}"
                f"{'' if most > 10 else ' unless window is at least 1 s'}, got {self.batch}"
            )
        if not 2 <= self.most <= 1_000:
            raise ConfigurationError(
                f"the consumer {self.name!r}: most must lie between 2 and 1,000, got {self.most}"
            )

    @property
    def lanes(self) -> Lanes:
        """The queues whose jobs it runs."""
        return Lanes(queues=self.queues, priorities=self.priorities)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What one stage of an app has on AWS beside its queues, table, bucket and schedules.

    Raises:
        ConfigurationError: two groups of one name, or a value is out of range.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    workers: tuple[WorkerGroup, ...] = (WorkerGroup(),)
    """None of them: the workers run elsewhere, with `JobSystem.grant_work`."""
    consumers: tuple[ConsumerGroup, ...] = ()
    dockerfile: str = "Dockerfile"
    """The workers' image is built by it, from the directory where CDK runs."""
    alerts_to: tuple[str, ...] = ()
    """E-mail addresses that are told of alarms, and of a month that costs too much."""
    budget_usd: int = 150
    """A month's costs at which to tell; 0: no budget."""
    standby: bool = False
    """A region that waits to take over: the job types' schedules are there, and switched off, since
    the other region's fire."""

    def __post_init__(self) -> None:
        names = [group.name for group in self.workers] + [each.name for each in self.consumers]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(f"two worker groups or consumers are called {name!r}")
        if self.budget_usd < 0:
            raise ConfigurationError(f"budget_usd must not be negative, got {self.budget_usd}")
        if malformed := [address for address in self.alerts_to if "@" not in address]:
            raise ConfigurationError(f"not an e-mail address: {malformed[0]!r}")

    @classmethod
    def parse(cls, *layers: Mapping[str, Any]) -> Deployment:
        """One of JSON, such as ``cdk.json``'s; a later layer's fields replace an earlier's whole.

        Raises:
            ConfigurationError: a field is unknown, of another type, or out of range; it says which.
        """
        fields: dict[str, Any] = {}
        for layer in layers:
            fields |= layer
        try:
            return _ADAPTER.validate_python(fields)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ConfigurationError(
                f"the deployment's {where}: {first['msg'].lower()}, got {first['input']!r}"
            ) from error


def worker_service_name(topology: Topology, group: WorkerGroup) -> str:
    """The ECS service of a worker group: app, stage and name."""
    return _named(topology, group.name)


def function_name(topology: Topology, name: str) -> str:
    """A Lambda function of the app: app, stage and name.

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


_ADAPTER = TypeAdapter(Deployment)
