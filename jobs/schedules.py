"""When a job type runs by itself: EventBridge Scheduler's expressions, checked before AWS does.

Syntax: https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
"""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jobs.errors import SettingsInvalid

_CRON_FIELDS = ("minute", "hour", "day of month", "month", "day of week", "year")
_CRON_FIELD = re.compile(r"[0-9A-Za-z*?,/#-]+")
_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When something happens by itself. Made by `cron`, `rate` and `at`."""

    expression: str
    """As EventBridge Scheduler takes it: ``cron(0 8 * * ? *)`` or ``rate(15 minutes)``."""
    timezone: str = "UTC"
    """An IANA name; cron expressions are read in it, daylight saving included."""
    flexible_window: timedelta | None = None
    """Whole minutes, 1 to 1440, over which AWS may spread the firing; None fires to the minute."""
    start: datetime | None = None
    """It does not fire earlier; aware. A rate counts from it, and without it from its creation."""
    end: datetime | None = None
    """It does not fire later; aware."""

    def __post_init__(self) -> None:
        _check_timezone(self.expression, self.timezone)
        if self.flexible_window is not None and (
            not timedelta(minutes=1) <= self.flexible_window <= timedelta(minutes=1440)
            or self.flexible_window % timedelta(minutes=1)
        ):
            raise SettingsInvalid(
                f"{self.expression}: flexible_window must be 1 to 1440 whole minutes, "
                f"got {self.flexible_window}"
            )
        for name, moment in (("start", self.start), ("end", self.end)):
            _check_aware(self.expression, name, moment)
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise SettingsInvalid(
                f"{self.expression}: start ({self.start}) must lie before end ({self.end})"
            )


def _check_timezone(expression: str, name: str) -> None:
    if name == "UTC":
        return  # known even where the system has no time zone data
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SettingsInvalid(
            f"{expression}: {name!r} is no IANA time zone such as Europe/Berlin. (Where the "
            "system has no time zone data at all: pip install tzdata)"
        ) from error


def _check_aware(expression: str, name: str, moment: object) -> None:
    if moment is None:
        return
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise SettingsInvalid(
            f"{expression}: {name} must be a datetime with a time zone, got {moment!r}: write "
            "datetime(..., tzinfo=UTC)"
        )


def cron(
    expression: str,
    *,
    timezone: str = "UTC",
    flexible_window: timedelta | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Schedule:
    """Fire at the times of a six-field cron expression, as in ``cron("0 8 * * ? *")``.

    Args:
        expression: minutes, hours, day of month, month, day of week, year.
        timezone: the IANA zone that the expression is read in.
        flexible_window: how far AWS may spread the firing.
        start: not earlier; aware.
        end: not later; aware.

    Raises:
        SettingsInvalid: not six fields, a field with foreign characters, or both or neither of the
            day fields are ``?`` (EventBridge demands exactly one).
    """
    fields = expression.split()
    if len(fields) != len(_CRON_FIELDS):
        raise SettingsInvalid(
            f"cron({expression!r}) has {len(fields)} fields; EventBridge takes six: "
            f"{', '.join(_CRON_FIELDS)}. From crontab's five: put ? for one of the day fields "
            "and add * for the year"
        )
    for name, value in zip(_CRON_FIELDS, fields, strict=True):
        if not _CRON_FIELD.fullmatch(value):
            raise SettingsInvalid(f"cron({expression!r}): the {name} {value!r} is not a cron field")
    if (fields[2] == "?") == (fields[4] == "?"):
        raise SettingsInvalid(
            f"cron({expression!r}): exactly one of day of month ({fields[2]}) and day of week "
            f"({fields[4]}) must be ?"
        )
    return Schedule(
        expression=f"cron({' '.join(fields)})",
        timezone=timezone,
        flexible_window=flexible_window,
        start=start,
        end=end,
    )


def rate(
    every: timedelta,
    *,
    flexible_window: timedelta | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Schedule:
    """Fire again and again, ``every`` so often: ``rate(timedelta(minutes=15))``.

    The first time is ``start``, or as soon as the schedule exists. Of a declared one the first
    deploy after ``start`` begins a new count, since EventBridge takes no start that is over.

    Raises:
        SettingsInvalid: not a positive number of whole minutes, EventBridge's finest step.
    """
    seconds = every.total_seconds()
    for unit, length in _UNITS:
        if seconds >= length and seconds % length == 0:
            count = int(seconds // length)
            return Schedule(
                expression=f"rate({count} {unit.removesuffix('s') if count == 1 else unit})",
                flexible_window=flexible_window,
                start=start,
                end=end,
            )
    raise SettingsInvalid(
        f"rate({every!r}): EventBridge Scheduler fires by whole minutes, 1 or more"
    )


def at(moment: datetime) -> Schedule:
    """Fire once: ``at(datetime(2026, 3, 1, 8, tzinfo=UTC))``; AWS does within the minute after.

    Raises:
        SettingsInvalid: the time has no time zone.
    """
    _check_aware("at(...)", "the time", moment)
    return Schedule(expression=f"at({moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S})")
