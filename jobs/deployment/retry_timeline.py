"""The times of a job's attempts: its retry policy laid out in time, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.retry.backoff_context import BackoffContext
from headgate.jobs.retry.strategies import Range
from headgate.jobs.values.light_dataclass import frozen_dataclass

_LONGEST_S = MAX_VISIBILITY.total_seconds()


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One attempt; its times are seconds from the first delivery, if each attempt fails at once."""

    attempt: int
    """Number of the attempt, from 1."""
    least_wait_s: float
    """The shortest wait before it; 0 for the first. A ``Retry-After`` may ask for more."""
    most_wait_s: float
    """The longest wait before it, which SQS's limit of 12 hours caps without long delays."""
    earliest_s: float
    latest_s: float


def failures(job: JobType[Any, Any]) -> BackoffContext:
    """Return the failures of a type's jobs, as far as they are known before anything runs."""
    return BackoffContext(
        attempt=1, max_attempts=job.retry.max_attempts, type=job.name, queue=job.queue
    )


def waits(job: JobType[Any, Any]) -> Iterator[Range]:
    """Yield the shortest and the longest wait before each attempt after the first, in seconds.

    Raises:
        SettingsInvalid: a custom backoff failed.
    """
    return islice(job.retry.backoff.bounds(failures(job)), job.retry.max_attempts - 1)


def timeline(job: JobType[Any, Any], *, long_delays: bool = False) -> list[Planned]:
    """Return all attempts that a job of this type may make, in order.

    Args:
        job: the type.
        long_delays: True if a one-time schedule holds a job for waits longer than SQS can hide it.

    Raises:
        SettingsInvalid: a custom backoff failed.
    """
    planned = [Planned(attempt=1, least_wait_s=0, most_wait_s=0, earliest_s=0, latest_s=0)]
    for least, most in waits(job):
        last, most_s = planned[-1], math.inf if long_delays else _LONGEST_S
        shortest, longest = min(least, most_s), min(most, most_s)
        planned.append(
            Planned(
                attempt=last.attempt + 1,
                least_wait_s=shortest,
                most_wait_s=longest,
                earliest_s=last.earliest_s + shortest,
                latest_s=last.latest_s + longest,
            )
        )
    return planned
