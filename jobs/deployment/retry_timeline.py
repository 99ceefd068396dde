"""When a job's attempts come: the retry policy laid out in time, before anything runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any

from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.definitions.job_type import JobType

_LONGEST_S = MAX_VISIBILITY.total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One attempt. All seconds count from the first delivery, if each attempt fails at once."""

    attempt: int
    """From 1."""
    least_wait_s: float
    """The shortest wait before it; 0 for the first. A ``Retry-After`` may ask for more."""
    most_wait_s: float
    """The longest, as SQS's 12 hours cut it without long delays."""
    earliest_s: float
    latest_s: float


def timeline(job: JobType[Any, Any], *, long_delays: bool = False) -> list[Planned]:
    """Each attempt that a job of this type may make, in order.

    Args:
        job: the type.
        long_delays: a one-time schedule holds it where a wait is longer than SQS can hide it.

    Raises:
        SettingsInvalid: a custom backoff failed.
    """
    planned = [Planned(attempt=1, least_wait_s=0, most_wait_s=0, earliest_s=0, latest_s=0)]
    for least, most in islice(job.retry.backoff.bounds(), job.retry.max_attempts - 1):
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
