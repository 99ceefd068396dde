"""Thresholds of the alarms."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.kinds import check_kinds

MAX_IN_FLIGHT = 120_000
"""Messages that SQS allows in flight in one queue, standard or FIFO. Beyond that a long poll
returns nothing, and no error.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-fifo.html"""


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Thresholds of the alarms, except that for a job's start, which is `Lane.start_within`.

    Raises:
        ConfigurationError: a number is not positive, or can never be reached.
    """

    depth: int = 5_000
    """Jobs waiting in one queue, for five minutes."""
    oldest: DurationField = DurationField(timedelta(minutes=30))
    """Wait of a queue's oldest job, in seconds or as a timedelta."""
    dead_letters: int = 100
    """Dead letters of one queue. One is too many already where jobs of a type with
    ``alert_at_once=True`` go."""
    failed_percent: float = 5
    """Percentage of failures among the runs of a queue's jobs that ended in 15 minutes."""
    schedules_percent: float = 1
    """Percentage of failures among the firings of schedules and events in 15 minutes."""
    in_flight: int = 100_000
    """Jobs of one queue that run, are held, or wait for a retry; SQS stops at 120,000."""

    def __post_init__(self) -> None:
        check_kinds("the thresholds", self)
        for field in fields(self):
            if not getattr(self, field.name) > type(getattr(self, field.name))(0):
                raise ConfigurationError(
                    f"the threshold {field.name} must be positive, got {getattr(self, field.name)}"
                )
        if self.in_flight >= MAX_IN_FLIGHT:
            raise ConfigurationError(
                f"the threshold in_flight must be under SQS's limit of {MAX_IN_FLIGHT}, or it is "
                f"never reached; got {self.in_flight}"
            )
        for name in ("failed_percent", "schedules_percent"):
            if getattr(self, name) >= 100:
                raise ConfigurationError(
                    f"the threshold {name} must be under 100, or it is never reached; "
                    f"got {getattr(self, name)}"
                )
