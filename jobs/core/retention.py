"""What is recorded of jobs, and how long it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from headgate.jobs.errors import ConfigurationError, SettingsInvalid
from headgate.jobs.values.kinds import check_kind

RecordsLevel = Literal["full", "outcomes", "failures", "off"]
"""What workers write of jobs: each level what the next one does, and more.

With ``off`` every delivery counts as an attempt, and nothing tells a crash. A job that kills its
process is then contained by the count of its deliveries; where these say nothing of attempts, on
Lambda and where a limit, a breaker, isolation or a FIFO group may give messages back unstarted,
only by SQS's 1,000 receives.
"""

MOST_LAST = 1_000
"""The most jobs of a type that are kept by count; each that falls out is read and deleted."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How long what is told of a job is kept: ``Keep(timedelta(days=7))``, ``Keep(last=100)``.

    Raises:
        SettingsInvalid: a duration is negative, or ``last`` is out of range.
    """

    completed: timedelta = timedelta(days=7)
    """From when a job completed, with its result; 0 keeps nothing of jobs that simply complete."""
    failed: timedelta = timedelta(days=30)
    """From each thing that happened to a job that did not simply complete; at least 12 hours longer
    than its queue keeps messages, by default 4 days and 12 hours, since attempts are counted by it
    while the message may be delivered again."""
    last: int | None = None
    """At most about so many completed jobs of a type, the newest; None sets no bound but time."""

    def __post_init__(self) -> None:
        for name in ("completed", "failed"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value < timedelta(0):
                raise SettingsInvalid(
                    f"Keep({name}=...) must be a timedelta of 0 or more, got {value!r}"
                )
        if self.failed == timedelta(0):
            raise SettingsInvalid(
                "Keep(failed=...) must be positive: attempts are counted by what is kept. "
                "records='off' keeps nothing"
            )
        check_kind("Keep(last=...)", self.last, int | None, SettingsInvalid)
        if self.last is not None and not 1 <= self.last <= MOST_LAST:
            raise SettingsInvalid(
                f"Keep(last=...) must lie between 1 and {MOST_LAST}, got {self.last}"
            )


DEFAULT_KEEP = Keep()


def check_keep(owner: str, value: Any) -> Keep | None:
    """What ``keep=`` was given: a `Keep`, how long completed jobs are kept, or 0 for not at all.

    Raises:
        ConfigurationError: it is none of these.
    """
    if value is None or isinstance(value, Keep):
        return value
    if isinstance(value, timedelta):
        return Keep(value)
    if value == 0 and not isinstance(value, bool):
        return Keep(timedelta(0))
    raise ConfigurationError(
        f"{owner}: keep must be a timedelta, a Keep or 0, got {value!r}: write "
        "keep=timedelta(days=7)"
    )


def check_level(level: str) -> RecordsLevel:
    """The level, checked.

    Raises:
        ConfigurationError: there is no such level.
    """
    for known in get_args(RecordsLevel):
        if level == known:
            found: RecordsLevel = known
            return found
    raise ConfigurationError(
        f"records must be one of {', '.join(get_args(RecordsLevel))}, got {level!r}"
    )
