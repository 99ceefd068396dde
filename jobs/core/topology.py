"""An app's resources on AWS: its queues, their numbers and their names. Makes no calls to AWS.

Everything that needs one of these numbers reads it from here: CDK, the heartbeat, the Lambda guard,
the drain limit, the alarms. A visibility timeout is thus changed in one place. Those that bound an
existing queue too are in `jobs.core.existing.resources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import timedelta
from enum import StrEnum
from typing import Literal

from headgate.jobs.core.existing.resources import NOTHING, Existing, ExistingQueue
from headgate.jobs.core.naming import (
    LONGEST_REGION,
    Bucket,
    bucket_prefix,
    physical_name,
    scheduler_name,
)
from headgate.jobs.errors import ConfigurationError, UnknownQueue, did_you_mean
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass

MAX_VISIBILITY = timedelta(hours=12)
"""SQS's longest visibility timeout, counted from the receive.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html"""

MAX_DELAY = timedelta(minutes=15)
"""SQS's longest DelaySeconds (same page)."""

MAX_MESSAGE_BYTES = 1_048_576
"""SQS's limit for one message, attributes counted, and for a whole batch (same page)."""

MAX_BATCH = 10
"""Maximum number of entries in one SQS batch request (same page)."""

_GATHER = timedelta(milliseconds=50)
"""The pause of a lane that names none; with it jobs are picked up within a tenth of a second."""

QUARANTINE_RETENTION = timedelta(days=14)

_DAY = timedelta(days=1)


class Priority(StrEnum):
    """The urgency of a job's start. Iterates from the most to the least urgent."""

    CRITICAL = "critical"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"

    def __init__(self, _value: str) -> None:
        self.rank = len(type(self).__members__)
        """The position by urgency, from 0 for CRITICAL to 3 for LOW."""


PriorityName = Literal["critical", "high", "normal", "low"]
"""The value of a `Priority`, accepted wherever a priority is declared or passed."""


@frozen_dataclass(frozen=True, slots=True, init=False)
class Lane:
    """The numbers of one priority within a queue group.

    Durations are given in seconds or as timedeltas.

    Raises:
        ConfigurationError: a number is out of range.
    """

    visibility: timedelta
    """Time for which a received message stays hidden without a heartbeat."""
    start_within: timedelta
    """Time within which a job should start; alarms and autoscaling are derived from it."""
    share: float
    """Share of all starts, 0 to 1, guaranteed to this priority under any load of higher ones."""
    gather: timedelta | None
    """Pause in which a worker lets messages gather before it receives again, where they come one by
    one, so that they share requests; deletes of finished jobs wait four times as long. At most
    ``start_within`` and a tenth of ``visibility``; 0 for no pause. None means 50 ms, or
    ``start_within`` if that is less, and no pause for critical jobs and FIFO queues."""

    def __init__(
        self,
        *,
        visibility: Duration,
        start_within: Duration,
        share: float,
        gather: Duration | None = None,
    ) -> None:
        object.__setattr__(self, "visibility", duration("a Lane: visibility", visibility))
        object.__setattr__(self, "start_within", duration("a Lane: start_within", start_within))
        object.__setattr__(self, "share", share)
        gathers = None if gather is None else duration("a Lane: gather", gather)
        object.__setattr__(self, "gather", gathers)
        check_kinds("a Lane", self)
        if not timedelta(seconds=1) <= self.visibility <= MAX_VISIBILITY:
            raise ConfigurationError(
                f"visibility must lie between 1 s and 12 h (SQS's limit), got {self.visibility}"
            )
        if not 0 <= self.share < 1:
            raise ConfigurationError(f"share must lie in [0, 1), got {self.share}")
        if self.gather is not None:
            self._check_gather(self.gather)

    def _check_gather(self, gather: timedelta) -> None:
        most = min(self.start_within, self.visibility / 10)
        if not timedelta(0) <= gather <= most:
            raise ConfigurationError(
                f"gather must lie between 0 and {most}, the lesser of start_within and a tenth of "
                f"visibility, got {gather}"
            )


DEFAULT_LANES = {
    Priority.CRITICAL: Lane(visibility=timedelta(seconds=30), start_within=timedelta(0), share=0.0),
    Priority.HIGH: Lane(
        visibility=timedelta(seconds=60), start_within=timedelta(minutes=1), share=0.20
    ),
    Priority.NORMAL: Lane(
        visibility=timedelta(seconds=300), start_within=timedelta(minutes=5), share=0.10
    ),
    Priority.LOW: Lane(
        visibility=timedelta(seconds=600), start_within=timedelta(minutes=15), share=0.05
    ),
}


@light_dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """One SQS queue with its dead-letter queue: their names and settings."""

    group: str
    priority: Priority
    name: str
    """The physical name of the queue on AWS; of an existing one maybe its ARN."""
    dlq_name: str
    """The physical name of its own dead-letter queue, likewise."""
    existing: ExistingQueue | None = None
    """The queue that stands for it, if something else created one."""
    lane: Lane
    max_receive_count: int
    """Receives after which SQS itself moves a message to the dead-letter queue: the most that it
    allows. Only the last backstop: the worker itself dead-letters jobs, and records the reason."""
    fifo: bool = False
    retention: timedelta = timedelta(days=4)
    dlq_retention: timedelta = timedelta(days=14)
    """Longer than ``retention``, since native redrive keeps the original enqueue time."""
    receive_wait: timedelta = timedelta(seconds=20)
    visibility_s: int = field(init=False, repr=False, compare=False)
    """The visibility timeout in whole seconds, as SQS takes it."""
    worn_at: int = field(init=False, repr=False, compare=False)
    """Number of the delivery from which a message is no longer given back to wait. The last tenth
    of SQS's receives is reserved for workers that die and polls that are cut off."""

    def __post_init__(self) -> None:
        # Once and for all, since every job's start asks for them.
        object.__setattr__(self, "visibility_s", int(self.lane.visibility.total_seconds()))
        worn_at = self.max_receive_count - self.max_receive_count // 10
        object.__setattr__(self, "worn_at", worn_at)

    @property
    def spare(self) -> timedelta:
        """Minimum time from a message's reappearance, to wait in the queue, to its deletion by SQS:
        an hour, or an eighth of a short retention."""
        return min(timedelta(hours=1), self.retention / 8)

    @property
    def gather_s(self) -> float:
        """Seconds of the lane's pauses (`Lane.gather`); 0 if it has none."""
        if self.lane.gather is not None:
            return self.lane.gather.total_seconds()
        if self.fifo or self.priority is Priority.CRITICAL:
            return 0.0
        return min(_GATHER, self.lane.start_within).total_seconds()

    @property
    def heartbeat_s(self) -> float:
        """Seconds between two extensions: a third of the timeout, so that some may fail."""
        return self.visibility_s / 3


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """All resources of one app on AWS, in one stage."""

    app: str
    stage: str | None
    queues: tuple[QueueSpec, ...]
    quarantine_name: str
    table_name: str
    """The DynamoDB table of the jobs' records and of items written conditionally."""
    bucket_name: str | None = None
    """The S3 bucket's full name, if it is not built from app, stage, account and region."""
    existing: Existing = NOTHING
    """Those of the resources that something else created."""
    unused_groups: tuple[str, ...] = ()
    """The queue groups without a queue, since no type runs from them."""
    _groups: Mapping[str, Mapping[str, QueueSpec]] = field(init=False, repr=False, compare=False)
    """``queues`` by group and priority: every submission looks for its own."""

    def __post_init__(self) -> None:
        groups: dict[str, dict[str, QueueSpec]] = {}
        for spec in self.queues:
            groups.setdefault(spec.group, {})[spec.priority] = spec
        object.__setattr__(self, "_groups", groups)

    @property
    def schedule_group(self) -> str:
        """The name of the app's schedule group: the app's name, and its stage's if any.

        Raises:
            ConfigurationError: the name is longer than AWS allows. `bridge_name` and
                `scheduler_role` raise it likewise.
        """
        return scheduler_name("group of schedules", self.app, self.stage)

    @property
    def bridge_name(self) -> str:
        """The name of the function that schedules invoke."""
        return scheduler_name("bridge function", self.app, self.stage, "bridge")

    @property
    def scheduler_role(self) -> str:
        """The name of the role that schedules assume, without the region that its name on AWS ends
        with: roles belong to an account, and the app may be in several of its regions."""
        return scheduler_name("role", self.app, self.stage, "scheduler", room=LONGEST_REGION)

    @property
    def signing_secret_name(self) -> str:
        """The name of the secret that CDK creates for the key that signs messages."""
        return physical_name(self.app, self.stage, "signing")

    @property
    def failed_firings_name(self) -> str:
        """The name of the queue that keeps firings which did not become jobs."""
        return physical_name(self.app, self.stage, "schedules-dlq")

    @property
    def failed_sweeps_name(self) -> str:
        """The name of the queue that keeps failed sweeps of the dead letters."""
        return physical_name(self.app, self.stage, "sweep-dlq")

    def queue(self, group: str, priority: Priority | PriorityName | None = None) -> QueueSpec:
        """Return the queue of that group and priority; None: of the only priority that it has.

        Raises:
            UnknownQueue: there is no such group, or the group has no such priority, or several and
                none is named.
        """
        of_group = self._groups.get(group)
        if of_group is None:
            raise UnknownQueue(self._lacks(group))
        if priority is None and len(of_group) == 1:
            return next(iter(of_group.values()))
        if priority is None:
            raise UnknownQueue(
                f"the queue {group!r} has the priorities {', '.join(of_group)}: name one"
            )
        if (found := of_group.get(priority)) is None:
            raise UnknownQueue(
                f"the queue {group!r} has no priority {str(priority)!r}: "
                f"it was declared with {', '.join(of_group)}"
            )
        return found

    @property
    def bucket(self) -> Bucket:
        """The S3 bucket for data too large for a message or a record."""
        return Bucket(prefix=bucket_prefix(self.app, self.stage), name=self.bucket_name)

    @property
    def payload_retention(self) -> timedelta:
        """Retention of a payload in the bucket: the longest life of its message, through its queue
        and dead-letter queue, and through both once more after a replay."""
        longest = max((spec.retention + spec.dlq_retention for spec in self.queues), default=_DAY)
        return 2 * longest

    @property
    def groups(self) -> tuple[str, ...]:
        """The queue groups' names, in the order of their declaration."""
        return tuple(dict.fromkeys(spec.group for spec in self.queues))

    def select(self, groups: Iterable[str] | None) -> tuple[QueueSpec, ...]:
        """Return the queues of these groups, or all of them for None.

        Raises:
            UnknownQueue: a group is not one of this app's.
        """
        if groups is None:
            return self.queues
        wanted = tuple(groups)
        for group in wanted:
            if group not in self.groups:
                raise UnknownQueue(self._lacks(group))
        return tuple(spec for spec in self.queues if spec.group in wanted)

    def _lacks(self, group: str) -> str:
        if group in self.unused_groups:
            return (
                f"no job type of the app {self.app!r} runs from the queue {group!r}, so it has no "
                "priorities: declare its types, or import the modules that do"
            )
        return f"the app {self.app!r} has no queue {group!r}: {did_you_mean(group, self.groups)}"


def how_to_have(priority: Priority | PriorityName) -> str:
    """Return what to write so that the jobs of a type may have a priority that its queue lacks."""
    return (
        f"To have it, declare the type with other_priorities=[{str(priority)!r}], or add it to the "
        'priorities= that the queue lists, or write App(..., priorities="all"); and deploy'
    )
