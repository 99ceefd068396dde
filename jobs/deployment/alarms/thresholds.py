"""Thresholds of the alarms, and which of them page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from datetime import timedelta
from typing import ClassVar, Literal

from pydantic import ConfigDict

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.durations import Duration, DurationField
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import frozen_dataclass

MAX_IN_FLIGHT = 120_000
"""Messages that SQS allows in flight in one queue, standard or FIFO. Beyond that a long poll
returns nothing, and no error.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-fifo.html"""

MOST_METRICS = 10
"""Metrics in the expression of one alarm, and so of one scaling policy, which is made of alarms; a
hard limit.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html"""

AlarmKind = Literal[
    "depth",
    "oldest",
    "late",
    "failing",
    "dead",
    "critical-dead",
    "dead-letters",
    "in-flight",
    "silent",
    "errors",
    "bridge",
    "schedules",
    "failed-firings",
    "quarantine",
    "failed-sweeps",
    "sweep",
    "demand",
]
"""Kinds of alarms; one of a queue, a worker group or a consumer is named after it as well."""

Severity = Literal["page", "ticket"]
"""Severities of alarms: one that somebody has to look at now, or one for working hours."""

PAGES: tuple[AlarmKind, ...] = (
    "oldest",
    "late",
    "failing",
    "critical-dead",
    "in-flight",
    "silent",
    "errors",
    "bridge",
    "schedules",
)
"""Kinds that page by default: jobs are not run, or soon won't be. What has ended already, such as a
dead letter, is there in the morning too."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class QueueThresholds:
    """Thresholds for one queue group; None: those of all queues.

    Raises:
        ConfigurationError: a number is not positive, or can never be reached.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    depth: int | None = None
    """Jobs waiting in one of its queues, for five minutes."""
    oldest: Duration | None = None
    """Wait of the oldest job, in seconds or as a timedelta."""
    dead_letters: int | None = None
    """Dead letters of one of its queues."""
    failed_percent: float | None = None
    """Percentage of failures among the runs that ended in 15 minutes."""

    def __post_init__(self) -> None:
        check_kinds("the thresholds of a queue", self)
        _check_positive("a queue's", self)
        _check_percent("a queue's", "failed_percent", self.failed_percent)


@frozen_dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Thresholds of the alarms, except that for a job's start, which is `Lane.start_within`.

    Raises:
        ConfigurationError: a number is not positive, or can never be reached.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    depth: int = 5_000
    """Jobs waiting in one queue, for five minutes."""
    oldest: DurationField = DurationField(timedelta(minutes=30))
    """Wait of a queue's oldest job, in seconds or as a timedelta."""
    dead_letters: int = 100
    """Dead letters of one queue. One is too many already where jobs of a type with
    ``alert_at_once=True`` go."""
    all_dead_letters: int = 500
    """Dead letters of all queues together, with the quarantine and failed firings."""
    failed_percent: float = 5
    """Percentage of failures among the runs of a queue's jobs that ended in 15 minutes."""
    schedules_percent: float = 1
    """Percentage of failures among the firings of schedules and events in 15 minutes."""
    in_flight: int = 100_000
    """Jobs of one queue that run, are held, or wait for a retry; SQS stops at 120,000."""
    queues: Mapping[str, QueueThresholds] = field(default_factory=dict, hash=False)
    """Thresholds of their own for queue groups, by name."""
    by_tenant: bool = True
    """True to leave noisy tenants out of ``late`` and ``oldest`` in standard queues: while one has
    a backlog, these go off by the jobs of the others. Without ``tenant=`` in any submission no
    tenant is noisy; False then saves two metrics of each of these alarms.
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html"""
    pages: tuple[AlarmKind, ...] = PAGES
    """Kinds of alarms that page; all others open a ticket."""

    def __post_init__(self) -> None:
        check_kinds("the thresholds", self)
        _check_positive("the", self)
        if self.in_flight >= MAX_IN_FLIGHT:
            raise ConfigurationError(
                f"the threshold in_flight must be under SQS's limit of {MAX_IN_FLIGHT}, or it is "
                f"never reached; got {self.in_flight}"
            )
        for name in ("failed_percent", "schedules_percent"):
            _check_percent("the", name, getattr(self, name))

    def of(self, group: str) -> Thresholds:
        """Return the thresholds for the queues of a group."""
        if (own := self.queues.get(group)) is None:
            return self
        values = ((each.name, getattr(own, each.name)) for each in fields(own))
        return replace(self, **{name: value for name, value in values if value is not None})


def _check_positive(whose: str, thresholds: Thresholds | QueueThresholds) -> None:
    for each in fields(thresholds):
        value = getattr(thresholds, each.name)
        number = value.total_seconds() if isinstance(value, timedelta) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        if not number > 0:
            raise ConfigurationError(f"{whose} threshold {each.name} must be positive, got {value}")


def _check_percent(whose: str, name: str, value: float | None) -> None:
    if value is not None and value >= 100:
        raise ConfigurationError(
            f"{whose} threshold {name} must be under 100, or it is never reached; got {value}"
        )
