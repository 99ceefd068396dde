"""Levels of job records, and their retention."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal, get_args

from headgate.jobs.errors import ConfigurationError, SettingsInvalid
from headgate.jobs.values.durations import Duration, DurationField, duration
from headgate.jobs.values.kinds import check_kind
from headgate.jobs.values.light_dataclass import frozen_dataclass

RecordsLevel = Literal["full", "outcomes", "failures", "off"]
"""The amount that workers record of jobs; each level includes the one after it.

With ``off`` every delivery counts as an attempt, and crashes can't be recognised. A job that kills
its process is then contained by the number of its deliveries; where that says nothing about
attempts (on Lambda, and where a limit, a breaker, isolation or a FIFO group may give messages back
unstarted), only by SQS's 1,000 receives.
"""

MOST_LAST = 1_000
"""The highest ``last`` and ``last_failed`` of a `Keep`; each job beyond is read and deleted."""


@frozen_dataclass(frozen=True)
class Keep:
    """The retention of job records: ``Keep(timedelta(days=7))``, ``Keep(last=100)``,
    ``Keep(last_failed=1_000)``.

    Durations are given in seconds or as timedeltas.

    Raises:
        SettingsInvalid: a duration is negative, or a number of jobs is out of range.
    """

    completed: DurationField = DurationField(timedelta(days=7))
    """Time since a job's completion, result included; 0 keeps nothing if it simply completes."""
    failed: DurationField = DurationField(timedelta(days=30))
    """Time since each event of a job that did not simply complete. At least 12 hours longer than
    its queue keeps messages (4 days and 12 hours for the default queue), since the records count
    the attempts for as long as the message may be delivered again."""
    last: int | None = None
    """Approximate maximum of a type's completed jobs, the newest; None bounds by time only."""
    last_failed: int | None = None
    """Approximate maximum of a type's dead jobs, and of its quarantined ones, the newest; None
    bounds by time only. More are kept as long as their messages may come again: for 12 hours longer
    than the app's queues keep messages."""

    def __post_init__(self) -> None:
        if not self.failed:
            raise SettingsInvalid(
                "Keep(failed=...) must be positive: attempts are counted by what is kept. "
                "records='off' keeps nothing"
            )
        _check_count("last", self.last)
        _check_count("last_failed", self.last_failed)


def _check_count(name: str, count: int | None) -> None:
    check_kind(f"Keep({name}=...)", count, int | None, SettingsInvalid)
    if count is not None and not 1 <= count <= MOST_LAST:
        raise SettingsInvalid(f"Keep({name}=...) must lie between 1 and {MOST_LAST}, got {count}")


DEFAULT_KEEP = Keep()

DEFAULT_KEEP_AUDIT = timedelta(days=365)
"""The retention of the audit."""

_LONGEST_KEEP_AUDIT = timedelta(days=36_525)  # a later time of expiry would not be a table's


def check_keep(owner: str, value: Any) -> Keep | None:
    """Return the `Keep` of a ``keep=`` option: a `Keep`, or completed jobs' retention.

    Raises:
        ConfigurationError: the value is neither.
    """
    if value is None or isinstance(value, Keep):
        return value
    return Keep(duration(f"{owner}: keep", value, error=ConfigurationError))


def check_keep_audit(owner: str, value: Duration) -> timedelta:
    """Return the retention of the audit.

    Raises:
        ConfigurationError: the value is no duration, not positive, or longer than a century.
    """
    kept = duration(f"{owner}: keep_audit", value, positive=True, error=ConfigurationError)
    if kept > _LONGEST_KEEP_AUDIT:
        raise ConfigurationError(f"{owner}: keep_audit is at most a century, got {kept}")
    return kept


def check_level(level: str) -> RecordsLevel:
    """Return the level, checked.

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
