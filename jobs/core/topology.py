"""An app's resources on AWS: its queues, their numbers and their names. Makes no calls to AWS.

Everything that needs one of these numbers reads it from here: CDK, the heartbeat, the Lambda guard,
the drain limit, the alarms. A visibility timeout is thus changed in one place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Literal

from headgate.jobs.errors import ConfigurationError, UnknownQueue, did_you_mean
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.kinds import check_kinds

MAX_VISIBILITY = timedelta(hours=12)
"""SQS's longest visibility timeout, counted from the receive.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html"""

MAX_DELAY = timedelta(minutes=15)
"""SQS's longest DelaySeconds (same page)."""

MAX_MESSAGE_BYTES = 1_048_576
"""SQS's limit for one message, attributes counted, and for a whole batch (same page)."""

MAX_BATCH = 10
"""Maximum number of entries in one SQS batch request (same page)."""

MAX_SCHEDULER_NAME = 64
"""The longest name of a schedule, a schedule group, a function or a role.
https://docs.aws.amazon.com/scheduler/latest/APIReference/API_CreateSchedule.html
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""

_LONGEST_REGION = len("-ap-southeast-1")

_GATHER = timedelta(milliseconds=50)
"""The pause of a lane that names none; with it jobs are picked up within a tenth of a second."""

QUARANTINE_RETENTION = timedelta(days=14)

PAYLOADS = "payloads/"
"""Key prefix of payloads in the bucket."""

RESULTS = "results/"
"""Key prefix of large results; not below that of payloads, which everyone who submits may write."""

EARLIER_RESULTS = f"{PAYLOADS}results/"
"""Key prefix of the results that earlier versions stored, which expire there."""

DEAD_LETTERS = "dead-letters/"
"""Key prefix of dead letters in the bucket, where they are saved before SQS deletes them."""

JOB, ASKED, UNIQUE, LIMIT, SWEPT = "job#", "asked#", "unique#", "limit#", "dead-letters#"
"""Prefixes of the table's partition keys, by which roles are told apart; a partition that a single
module reads and writes is named there. `infra.data.table_rows` has all of them."""

SWEEP = "sweep"
"""The partition of the sweep's lease."""

DEAD_LETTERS_KEPT = timedelta(days=365)
"""Retention of dead letters in the bucket."""

_DAY = timedelta(days=1)

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MAX_NAME = 128  # of a job type, in the message format; other names are parts of queue names
_MAX_QUEUE_NAME = 80  # quotas-queues.html: 80 characters, ".fifo" included
_MAX_BUCKET_PREFIX = 35  # of S3's 63 characters: account and the longest region take the rest


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


@dataclass(frozen=True, slots=True, init=False)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """One SQS queue with its dead-letter queue: their names and settings."""

    group: str
    priority: Priority
    name: str
    """The physical name of the queue on AWS."""
    dlq_name: str
    """The physical name of its own dead-letter queue."""
    lane: Lane
    max_receive_count: int
    """Receives after which SQS itself moves a message to the dead-letter queue: the most that it
    allows. Only the last backstop: the worker itself dead-letters jobs, and records the reason."""
    fifo: bool = False
    retention: timedelta = timedelta(days=4)
    dlq_retention: timedelta = timedelta(days=14)
    """Longer than ``retention``, since native redrive keeps the original enqueue time."""
    receive_wait: timedelta = timedelta(seconds=20)

    @property
    def visibility_s(self) -> int:
        """The visibility timeout in whole seconds, as SQS takes it."""
        return int(self.lane.visibility.total_seconds())

    @property
    def spare(self) -> timedelta:
        """Minimum time between a message's reappearance and its deletion by SQS.

        It leaves room for waiting in the queue. An hour, or an eighth of a short retention.
        """
        return min(timedelta(hours=1), self.retention / 8)

    @property
    def worn_at(self) -> int:
        """Number of the delivery from which a message is no longer given back to wait.

        The last tenth of SQS's receives is reserved for workers that die and polls that are cut
        off.
        """
        return self.max_receive_count - self.max_receive_count // 10

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
        """Seconds between two extensions: a third of the timeout, so that two may fail."""
        return self.visibility_s / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The S3 bucket of an app; bucket names are globally unique."""

    prefix: str
    """App, stage and ``payloads``; at most 35 characters."""
    name: str | None = None
    """The full name (``HEADGATE_BUCKET``); None builds it from prefix, account and region."""

    def name_in(self, account: str, region: str) -> str:
        """Return the physical name in that account and region.

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
        """
        return self.name or f"{self.prefix}-{account}-{region}"


@dataclass(frozen=True, slots=True, kw_only=True)
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

    @property
    def schedule_group(self) -> str:
        """The name of the app's schedule group: the app's name, and its stage's if any.

        Raises:
            ConfigurationError: the name is longer than AWS allows. `bridge_name` and
                `scheduler_role` raise it likewise.
        """
        return _scheduler_name("group of schedules", self.app, self.stage)

    @property
    def bridge_name(self) -> str:
        """The name of the function that schedules invoke."""
        return _scheduler_name("bridge function", self.app, self.stage, "bridge")

    @property
    def scheduler_role(self) -> str:
        """The name of the role that schedules assume, without the region that its name on AWS ends
        with: roles belong to an account, and the app may be in several of its regions."""
        return _scheduler_name("role", self.app, self.stage, "scheduler", room=_LONGEST_REGION)

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
        of_group = {spec.priority: spec for spec in self.queues if spec.group == group}
        if not of_group:
            raise UnknownQueue(
                f"the app {self.app!r} has no queue {group!r}: {did_you_mean(group, self.groups)}"
            )
        if priority is None and len(of_group) == 1:
            return next(iter(of_group.values()))
        if priority is None:
            raise UnknownQueue(
                f"the queue {group!r} has the priorities {', '.join(of_group)}: name one"
            )
        if priority not in of_group:
            raise UnknownQueue(
                f"the queue {group!r} has no priority {str(priority)!r}: "
                f"it was declared with {', '.join(of_group)}"
            )
        return of_group[Priority(priority)]

    @property
    def bucket(self) -> Bucket:
        """The S3 bucket for data too large for a message or a record."""
        return Bucket(prefix=_bucket_prefix(self.app, self.stage), name=self.bucket_name)

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
                raise UnknownQueue(
                    f"the app {self.app!r} has no queue {group!r}: "
                    f"{did_you_mean(group, self.groups)}"
                )
        return tuple(spec for spec in self.queues if spec.group in wanted)


def _scheduler_name(what: str, *parts: str | None, room: int = 0) -> str:
    name = "-".join(part for part in parts if part)
    if len(name) + room > MAX_SCHEDULER_NAME:
        raise ConfigurationError(
            f"the schedules' {what} {name!r} has {len(name)} characters; AWS allows "
            f"{MAX_SCHEDULER_NAME - room}: shorten the name of the app or the stage"
        )
    return name


def role_in(role: str, region: str) -> str:
    """Return the name on AWS of a role that serves the app in one region."""
    return f"{role}-{region}"


def check_name(kind: str, name: object) -> str:
    """Return a logical name, checked to be safe inside AWS names.

    Raises:
        ConfigurationError: anything but lower-case words of letters and digits joined by hyphens,
            or more than 128 characters.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise ConfigurationError(
            f"{kind} {name!r} must be lower-case letters and digits, joined by single hyphens, "
            f"start with a letter, and have at most {_MAX_NAME} characters"
        )
    return name


def physical_name(app: str, stage: str | None, *parts: str, fifo: bool = False) -> str:
    """Return the name on AWS: app, stage and parts joined by hyphens, ``.fifo`` last.

    Raises:
        ConfigurationError: it would be longer than SQS's 80 characters.
    """
    name = "-".join(part for part in (app, stage, *parts) if part) + (".fifo" if fifo else "")
    if len(name) > _MAX_QUEUE_NAME:
        raise ConfigurationError(
            f"the queue name {name!r} has {len(name)} characters; SQS allows {_MAX_QUEUE_NAME}: "
            "shorten the app, stage or queue name"
        )
    return name


def _bucket_prefix(app: str, stage: str | None) -> str:
    prefix = "-".join(part for part in (app, stage, "payloads") if part)
    if len(prefix) <= _MAX_BUCKET_PREFIX:
        return prefix
    import hashlib  # only for long names

    digest = hashlib.sha256(prefix.encode()).hexdigest()[:8]
    return f"{prefix[: _MAX_BUCKET_PREFIX - 9].rstrip('-')}-{digest}"
