"""Words and questions that several rules have in common."""

from __future__ import annotations

from typing import Any

from headgate.jobs.definitions.job_type import LONGEST_TIMEOUT, JobType


def place_of(job: JobType[Any, Any]) -> str:
    """A job type, as a fault names it."""
    return f"type {job.name}"


def is_endless(timeout_s: float) -> bool:
    """True for the timeout that a type has without any."""
    return timeout_s == LONGEST_TIMEOUT.total_seconds()
