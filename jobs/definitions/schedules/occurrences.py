"""The occurrences of schedule expressions, as EventBridge Scheduler interprets them.

    cron(0 8 * * ? *)          in the calendar of its time zone; a time that the clocks skip in
                               spring is left out, one that they repeat in autumn counts once
    rate(15 minutes)           from its start on, in hours of 60 minutes and days of 24 hours
    at(2026-03-01T08:00:00)    once, in local time of its time zone

https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
"""

from __future__ import annotations

import calendar
import re
import zoneinfo
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from headgate.jobs.definitions.schedules.cron_fields import (
    DAY,
    FIELDS,
    FIRST_YEAR,
    HOUR,
    LAST_YEAR,
    MINUTE,
    MONTH,
    NTH,
    WEEKDAY,
    YEAR,
    CronField,
)
from headgate.jobs.values.light_dataclass import light_dataclass

FIRST_MOMENT = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
"""The earliest moment of any schedule."""

LONGEST_EXPRESSION = 256
"""Maximum characters of an expression.
https://docs.aws.amazon.com/scheduler/latest/APIReference/API_CreateSchedule.html"""

_EXPRESSION = r"(cron|rate|at)\((.*)\)"
_RATE = r"([0-9]{1,9}) (minute|hour|day)s?"
_AT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
_UNITS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
_SATURDAY = 7

# Bounds that include the supported years in every time zone.
_BEGINNING = FIRST_MOMENT - timedelta(days=1)
_END = datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC) + timedelta(days=1)

OnDay = Callable[[date], bool]
"""A predicate for the days on which a schedule has occurrences."""


def occurrences(
    expression: str,
    timezone: str,
    *,
    since: datetime,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Iterator[datetime]:
    """Return the occurrences from ``since`` on, in order; aware, in UTC.

    Args:
        expression: ``cron(...)``, ``rate(...)`` or ``at(...)``.
        timezone: an IANA name.
        since: aware; inclusive.
        start: the earliest occurrence, from which a rate counts; None stands for ``since``.
            One-time schedules have neither start nor end.
        end: the latest occurrence.

    Raises:
        ValueError: the expression can't be read.
    """
    kind, inner = _split(expression)
    zone = UTC if timezone == "UTC" else zoneinfo.ZoneInfo(timezone)
    if kind == "at":
        due = _at_of(inner).replace(tzinfo=zone).astimezone(UTC)
        return iter([due] if due >= since else [])
    since = _within_calendar(since)
    begin = since if start is None else _within_calendar(start)
    if kind == "rate":
        times = _rate_times(_period_of(inner), begin, max(since, begin))
    else:
        times = _cron_times(_cron_of(inner), zone, max(since, begin))
    return _until(times, end)


def check_expression(expression: str) -> None:
    """Check that EventBridge Scheduler would accept an expression, and that it has a meaning.

    Raises:
        ValueError: it can't be read; names the field at fault.
    """
    if len(expression) > LONGEST_EXPRESSION:
        raise ValueError(
            f"has {len(expression)} characters; EventBridge Scheduler takes {LONGEST_EXPRESSION}"
        )
    kind, inner = _split(expression)
    _READERS[kind](inner)


def period_of(expression: str) -> timedelta:
    """Return the time between the occurrences of a ``rate(...)``.

    Raises:
        ValueError: it is not a rate.
    """
    kind, inner = _split(expression)
    if kind != "rate":
        raise ValueError(f"{expression!r} is not a rate expression")
    return _period_of(inner)


def is_one_time(expression: str) -> bool:
    """Return True for an expression that occurs once: ``at(...)``."""
    return expression.startswith("at(")


def _split(expression: str) -> tuple[str, str]:
    if (found := re.fullmatch(_EXPRESSION, expression)) is None or not expression.isascii():
        raise ValueError(
            f"{expression!r} is not a schedule expression: cron(...), rate(...), at(...)"
        )
    return found[1], found[2]


def _within_calendar(moment: datetime) -> datetime:
    """Return the time in UTC, clamped to the supported years."""
    return min(max(moment, _BEGINNING), _END).astimezone(UTC)


def _period_of(text: str) -> timedelta:
    found = re.fullmatch(_RATE, text)
    if found is None or not int(found[1]):
        raise ValueError(f"{text!r} is not a rate: write 1 minute, 15 minutes, 2 hours or 7 days")
    return int(found[1]) * _UNITS[found[2]]


def _at_of(text: str) -> datetime:
    if not re.fullmatch(_AT, text):
        raise ValueError(f"{text!r} is not a time: write 2026-03-01T08:00:00")
    moment = datetime.fromisoformat(text)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"the year {moment.year} lies outside {FIRST_YEAR} to {LAST_YEAR}")
    return moment


def _until(times: Iterator[datetime], end: datetime | None) -> Iterator[datetime]:
    for at in times:
        if end is not None and at > end:
            return
        yield at


def _rate_times(every: timedelta, start: datetime, first: datetime) -> Iterator[datetime]:
    passed = -((start - first) // every)  # rounded up
    while passed <= (_END - start) // every and (at := start + passed * every).year <= LAST_YEAR:
        yield at
        passed += 1


# --- cron ----------------------------------------------------------------------------------------


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Cron:
    times: tuple[time, ...]
    """The times on each day with occurrences."""
    months: frozenset[int]
    years: frozenset[int]
    on_day: OnDay


def _cron_of(text: str) -> _Cron:
    fields = text.split()
    if len(fields) != len(FIELDS):
        raise ValueError(
            f"has {len(fields)} fields; EventBridge takes six: "
            f"{', '.join(each.name for each in FIELDS)}. From crontab's five: put ? for one of "
            "the day fields and add * for the year"
        )
    minute, hour, day, month, weekday, year = fields
    if (day == "?") == (weekday == "?"):
        raise ValueError(
            f"exactly one of day of month ({day}) and day of week ({weekday}) must be ?"
        )
    with _naming(MINUTE, minute):
        minutes = sorted(MINUTE.read(minute))
    with _naming(HOUR, hour):
        hours = sorted(HOUR.read(hour))
    with _naming(MONTH, month):
        months = MONTH.read(month)
    with _naming(YEAR, year):
        years = YEAR.read(year)
    return _Cron(
        times=tuple(time(hour, minute) for hour in hours for minute in minutes),
        months=months,
        years=years,
        on_day=_days_of_week(weekday) if day == "?" else _days_of_month(day),
    )


@contextmanager
def _naming(field: CronField, text: str) -> Iterator[None]:
    """Add the field's name to errors."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"the {field.name} {text!r} is not a cron field: {error}") from error


def _cron_times(cron: _Cron, zone: tzinfo, first: datetime) -> Iterator[datetime]:
    day, last = first.astimezone(zone).date(), date(max(cron.years, default=1970), 12, 31)
    while day <= last:
        if day.year in cron.years and day.month in cron.months and cron.on_day(day):
            for of_day in cron.times:
                wall = datetime.combine(day, of_day)
                utc = wall.replace(tzinfo=zone).astimezone(UTC)
                # A time that the clocks skip converts back to another time, or another day.
                if utc >= first and utc.astimezone(zone).replace(tzinfo=None) == wall:
                    yield utc
        day += timedelta(days=1)


def _days_of_month(text: str) -> OnDay:
    with _naming(DAY, text):
        return _any_of(list(map(_on_day_of_month, text.upper().split(","))))


def _days_of_week(text: str) -> OnDay:
    with _naming(WEEKDAY, text):
        if "#" in text and "," in text:
            raise ValueError("a weekday with # stands alone")  # EventBridge accepts no list of them
        return _any_of(list(map(_on_weekday, text.upper().split(","))))


def _any_of(tests: Sequence[OnDay]) -> OnDay:
    return lambda day: any(test(day) for test in tests)


def _on_day_of_month(part: str) -> OnDay:
    if part == "L":
        return lambda day: day.day == _last_day(day)
    if part == "LW":
        return lambda day: day == _nearest_weekday(day.replace(day=_last_day(day)))
    if part.endswith("W"):
        number = DAY.number(part.removesuffix("W"))
        return lambda day: (
            number <= _last_day(day) and day == _nearest_weekday(day.replace(day=number))
        )
    days = DAY.read(part)
    return lambda day: day.day in days


def _on_weekday(part: str) -> OnDay:
    name, sign, nth = part.partition("#")
    if sign:
        wanted, which = WEEKDAY.number(name), NTH.number(nth)
        return lambda day: _weekday(day) == wanted and (day.day - 1) // 7 + 1 == which
    if part.endswith("L") and part != "L":
        wanted = WEEKDAY.number(part.removesuffix("L"))
        return lambda day: _weekday(day) == wanted and day.day > _last_day(day) - 7
    weekdays = {_SATURDAY} if part == "L" else WEEKDAY.read(part)
    return lambda day: _weekday(day) in weekdays


def _weekday(day: date) -> int:
    """Return the weekday, from 1 for Sunday to 7 for Saturday."""
    return day.isoweekday() % 7 + 1


def _last_day(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _nearest_weekday(day: date) -> date:
    """Return the nearest day from Monday to Friday within the same month."""
    step = {6: -1, 7: 1}.get(day.isoweekday(), 0)
    nearest = day + timedelta(days=step)
    return nearest if nearest.month == day.month else day - timedelta(days=2 * step)


_READERS: Mapping[str, Callable[[str], object]] = {
    "cron": _cron_of,
    "rate": _period_of,
    "at": _at_of,
}
