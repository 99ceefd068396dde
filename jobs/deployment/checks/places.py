"""Helpers that several rules share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headgate.jobs.definitions.job_type import LONGEST_TIMEOUT, JobType


def place_of(job: JobType[Any, Any]) -> str:
    """Return the name of a job type in faults."""
    return f"type {job.name}"


def is_endless(timeout: timedelta) -> bool:
    """Return True for the timeout of a type that has none."""
    return timeout == LONGEST_TIMEOUT
