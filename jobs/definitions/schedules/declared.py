"""A schedule that the code declares for a job type."""

from __future__ import annotations

import re
from typing import Any

from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass

_SUFFIX = r"[a-z0-9]+(-[a-z0-9]+)*"

_RESERVED = ("dynamic", "delay")
"""The first parts of the names of schedules that are made at run time, and of delayed jobs."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSchedule:
    """A schedule of a job type, and the payload of its jobs."""

    name: str
    """The type's name; for a further schedule ``daily-report.berlin``, with its own after a full
    stop, which no type's name can have."""
    when: Schedule
    payload: Any = None
    """The payload of its jobs; None is the model's defaults, as they are when a job runs."""


def own_schedule(job_type: str, when: Schedule | None, payload: Any) -> dict[str, DeclaredSchedule]:
    """Return the schedule that a type's options declare, if any, by its name: the type's."""
    if when is None:
        return {}
    return {job_type: DeclaredSchedule(name=job_type, when=when, payload=payload)}


def further_name(job_type: str, name: object) -> str:
    """Return the whole name of a further schedule of a type.

    Raises:
        ConfigurationError: it is not fit for one.
    """
    fault = f"the type {job_type!r}: the schedule's name {name!r}"
    if not isinstance(name, str) or not re.fullmatch(_SUFFIX, name):
        raise ConfigurationError(
            f"{fault} must be lower-case words joined by hyphens, such as 'berlin'"
        )
    if job_type in _RESERVED:
        raise ConfigurationError(
            f"{fault} would make {job_type}.{name}, and such names are those of schedules made at "
            "run time, or of delayed jobs: rename the type"
        )
    return f"{job_type}.{name}"
