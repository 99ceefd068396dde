"""Schedules of job types: EventBridge Scheduler's expressions, checked before AWS does.

Syntax: https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
"""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.light_dataclass import frozen_dataclass

_SECOND = timedelta(seconds=1)
_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60))


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The times at which jobs are submitted automatically. Created by `cron`, `rate` or `at`.

    Raises:
        SettingsInvalid: EventBridge Scheduler would refuse it, or it could never fire.
    """

    expression: str
    """EventBridge Scheduler's expression: ``cron(0 8 * * ? *)`` or ``rate(15 minutes)``."""
    timezone: str = "UTC"
    """The IANA name of the zone for cron expressions, daylight saving included."""
    flexible_window: timedelta | None = None
    """Whole minutes, 1 to 1440, over which AWS may spread the firing; None fires to the minute."""
    start: datetime | None = None
    """The earliest firing; aware. A rate counts from it or, without it, from its creation."""
    end: datetime | None = None
    """The latest firing; aware."""

    def __post_init__(self) -> None:
        _check_expression(self.expression)
        _check_timezone(self.expression, self.timezone)
        _check_window(self.expression, self.flexible_window)
        for name, moment in (("start", self.start), ("end", self.end)):
            if moment is not None:
                _check_moment(self.expression, name, moment)
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise SettingsInvalid(
                f"{self.expression}: start ({self.start}) must lie before end ({self.end})"
            )

    @staticmethod
    def cron(
        expression: str,
        *,
        timezone: str = "UTC",
        flexible_window: Duration | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> Schedule:
        """Fire at the times of a six-field cron expression, as in ``cron("0 8 * * ? *")``.

        Args:
            expression: minutes, hours, day of month, month, day of week, year.
            timezone: the IANA zone that the expression is read in.
            flexible_window: the time over which AWS may spread the firing: whole minutes, in
                seconds or as a timedelta.
            start: the earliest firing; aware.
            end: the latest firing; aware.

        Raises:
            SettingsInvalid: there are not six fields, one can't be read or is out of range, or both
                or neither of the day fields are ``?`` (EventBridge demands exactly one).
        """
        if not isinstance(expression, str):
            raise SettingsInvalid(
                f'cron({expression!r}): the expression must be a string: write cron("0 8 * * ? *")'
            )
        return Schedule(
            expression=f"cron({' '.join(expression.split())})",
            timezone=timezone,
            flexible_window=_window(flexible_window),
            start=start,
            end=end,
        )

    @staticmethod
    def rate(
        every: Duration,
        *,
        flexible_window: Duration | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> Schedule:
        """Fire at a fixed interval: ``Schedule.rate(timedelta(minutes=15))``.

        ``every`` is in seconds or a timedelta. The first firing is at ``start``, to the minute, and
        all others follow from it. Without a ``start`` it is as soon as the schedule exists, and
        again whenever a deploy changes it.

        Raises:
            SettingsInvalid: ``every`` is not a positive number of whole minutes, EventBridge's
                finest step.
        """
        interval = duration("Schedule.rate(every)", every)
        seconds = 0 if interval % _SECOND else interval // _SECOND
        for unit, length in _UNITS:
            if seconds >= length and seconds % length == 0:
                count = seconds // length
                return Schedule(
                    expression=f"rate({count} {unit.removesuffix('s') if count == 1 else unit})",
                    flexible_window=_window(flexible_window),
                    start=start,
                    end=end,
                )
        raise SettingsInvalid(
            "Schedule.rate(every) must be 1 or more whole minutes, EventBridge Scheduler's step, "
            f"got {interval}"
        )

    @staticmethod
    def at(moment: datetime) -> Schedule:
        """Fire once: ``Schedule.at(datetime(2026, 3, 1, 8, tzinfo=UTC))``.

        AWS fires within the minute after that time. A fraction of a second is rounded up, since AWS
        accepts none.

        Raises:
            SettingsInvalid: the time has no time zone, or lies outside the years 1970 to 2199.
        """
        _check_moment("at(...)", "the time", moment)
        rounded_up = moment.astimezone(UTC) + timedelta(
            microseconds=-moment.microsecond % 1_000_000
        )
        return Schedule(expression=f"at({rounded_up:%Y-%m-%dT%H:%M:%S})")


def _check_expression(expression: object) -> None:
    if not isinstance(expression, str):
        raise SettingsInvalid(
            f"a schedule's expression must be a string, got {expression!r}: make the schedule by "
            "cron(...), Schedule.rate(...) or Schedule.at(...)"
        )
    # Where it is used: most apps that are imported declare no schedule.
    from headgate.jobs.definitions.schedules.occurrences import check_expression

    try:
        check_expression(expression)
    except ValueError as error:
        raise SettingsInvalid(f"{expression!r}: {error}") from error


def _check_timezone(expression: str, name: object) -> None:
    if name == "UTC":
        return  # known even if the system has no time zone data
    if not isinstance(name, str):
        raise SettingsInvalid(
            f"{expression}: timezone must be the name of one, such as 'Europe/Berlin', got {name!r}"
        )
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SettingsInvalid(
            f"{expression}: {name!r} is not an IANA time zone such as Europe/Berlin. (Where the "
            "system has no time zone data at all: pip install tzdata)"
        ) from error


def _window(window: Duration | None) -> timedelta | None:
    return None if window is None else duration("flexible_window", window)


def _check_window(expression: str, window: object) -> None:
    if window is None:
        return
    if (
        not isinstance(window, timedelta)
        or not timedelta(minutes=1) <= window <= timedelta(minutes=1440)
        or window % timedelta(minutes=1)
    ):
        raise SettingsInvalid(
            f"{expression}: flexible_window must be 1 to 1440 whole minutes, such as "
            f"timedelta(minutes=15), got {window}"
        )


def _check_moment(expression: str, name: str, moment: object) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise SettingsInvalid(
            f"{expression}: {name} must be a datetime with a time zone, got {moment!r}: write "
            "datetime(..., tzinfo=UTC)"
        )
    from headgate.jobs.definitions.schedules.cron_fields import FIRST_YEAR, LAST_YEAR
    from headgate.jobs.definitions.schedules.occurrences import FIRST_MOMENT

    if not FIRST_MOMENT <= moment < datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC):
        raise SettingsInvalid(
            f"{expression}: {name} must lie in the years {FIRST_YEAR} to {LAST_YEAR}, got {moment}"
        )
    return moment


cron = Schedule.cron
"""Shorthand for the most common kind."""
