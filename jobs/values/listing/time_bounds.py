"""Bounds of a filter by time: an aware time, or an age."""

from __future__ import annotations

from datetime import MINYEAR, UTC, datetime, timedelta

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.durations import Duration, duration

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def check_bound(
    owner: str, name: str, value: datetime | Duration | None
) -> datetime | timedelta | None:
    """Return a bound, an age as a timedelta.

    Raises:
        ConfigurationError: a time has no time zone, or an age is not a duration.
    """
    if value is None:
        return None
    if not isinstance(value, datetime):
        return duration(f"{owner}: {name}", value, error=ConfigurationError)
    if value.utcoffset() is None:
        raise ConfigurationError(
            f"{owner}: {name} has no time zone, got {value.isoformat()}: write "
            "datetime(..., tzinfo=UTC)"
        )
    return value


def check_order(
    owner: str, since: datetime | Duration | None, until: datetime | Duration | None
) -> None:
    """Check that two times, or two ages, leave time between them.

    Raises:
        ConfigurationError: they don't.
    """
    match since, until:
        case datetime(), datetime():
            is_never = since >= until
        case timedelta(), timedelta():
            is_never = since <= until
        case _:
            is_never = False
    if is_never:
        raise ConfigurationError(
            f"{owner}: nothing is both since {since} and until {until}: "
            "since is the earlier of the two"
        )


def moment_of(bound: datetime | Duration | None, now: datetime) -> datetime | None:
    """Return the time of a bound, in UTC: itself, or the one that was an age ago.

    One that the calendar does not reach in UTC becomes its first or last moment.
    """
    if bound is None:
        return None
    if isinstance(bound, datetime):
        return _in_utc(bound)
    try:
        return now - duration("age", bound)
    except OverflowError:  # before the year 1
        return _FIRST


def end_by(bound: datetime | Duration | None, now: datetime) -> datetime:
    """Return the time of an upper bound, in UTC, or now if it is later or None.

    What a filter selects now is selected by it for good: of what comes to be as old as an age, or
    comes at all, nothing more.
    """
    return min(now, moment_of(bound, now) or now)


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:  # an offset leads it out of the calendar
        return _FIRST if at.year == MINYEAR else _LAST
