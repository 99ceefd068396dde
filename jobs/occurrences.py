"""The times that a schedule's expression stands for, as EventBridge Scheduler reads it.

    cron(0 8 * * ? *)          by the calendar of its time zone; a time that the clocks skip in
                               spring is left out, one that they repeat in autumn counts once
    rate(15 minutes)           from its start on, in hours of 60 minutes and days of 24 hours
    at(2026-03-01T08:00:00)    once, by the clocks of its time zone

https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
"""

from __future__ import annotations

import calendar
import re
import zoneinfo
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

LAST_YEAR = 2199
"""Of the year field of a cron expression."""

FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
"""No cron expression has an earlier date."""

_EXPRESSION = re.compile(r"(cron|rate|at)\((.+)\)")
_RATE = re.compile(r"(\d+) (minute|hour|day)s?")
_UNITS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
_MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
_WEEKDAYS = {"SUN": 1, "MON": 2, "TUE": 3, "WED": 4, "THU": 5, "FRI": 6, "SAT": 7}
_SATURDAY = 7

OnDay = Callable[[date], bool]
"""Whether a schedule has occurrences on a day."""


def occurrences(
    expression: str,
    timezone: str,
    *,
    since: datetime,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Iterator[datetime]:
    """The times from ``since`` on, in order; aware, in UTC.

    Args:
        expression: ``cron(...)``, ``rate(...)`` or ``at(...)``.
        timezone: an IANA name.
        since: aware; a time that equals it counts.
        start: nothing comes earlier, and a rate counts from it; None stands for ``since``.
            One-time schedules have neither start nor end.
        end: nothing comes later.

    Raises:
        ValueError: the expression can't be read.
    """
    kind, inner = _split(expression)
    zone = UTC if timezone == "UTC" else zoneinfo.ZoneInfo(timezone)
    if kind == "at":
        due = datetime.fromisoformat(inner).replace(tzinfo=zone).astimezone(UTC)
        return iter([due] if due >= since else [])
    since = since.astimezone(UTC)
    begin = since if start is None else start.astimezone(UTC)
    if kind == "rate":
        times = _rate_times(period_of(expression), begin, max(since, begin))
    else:
        times = _cron_times(_cron_of(inner), zone, max(since, begin))
    return _until(times, end)


def period_of(expression: str) -> timedelta:
    """How far apart the occurrences of a ``rate(...)`` are.

    Raises:
        ValueError: it is no rate.
    """
    kind, inner = _split(expression)
    found = _RATE.fullmatch(inner) if kind == "rate" else None
    if found is None or not int(found[1]):
        raise ValueError(f"{expression!r} is no rate expression")
    return int(found[1]) * _UNITS[found[2]]


def is_one_time(expression: str) -> bool:
    """Whether it occurs once: ``at(...)``."""
    return expression.startswith("at(")


def _split(expression: str) -> tuple[str, str]:
    if (found := _EXPRESSION.fullmatch(expression)) is None:
        raise ValueError(f"{expression!r} is no schedule expression: cron(...), rate(...), at(...)")
    return found[1], found[2]


def _until(times: Iterator[datetime], end: datetime | None) -> Iterator[datetime]:
    for at in times:
        if end is not None and at > end:
            return
        yield at


def _rate_times(every: timedelta, start: datetime, first: datetime) -> Iterator[datetime]:
    passed = -((start - first) // every)  # rounded up
    at = start + passed * every
    while at.year <= LAST_YEAR:
        yield at
        at += every


# --- cron ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cron:
    times: tuple[time, ...]
    """Of each day that has any."""
    months: frozenset[int]
    years: frozenset[int]
    on_day: OnDay


def _cron_of(text: str) -> _Cron:
    minute, hour, day, month, weekday, year = text.split()
    hours, minutes = _numbers(hour, range(24)), _numbers(minute, range(60))
    return _Cron(
        times=tuple(time(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)),
        months=_numbers(month, range(1, 13), _MONTHS),
        years=_numbers(year, range(1970, LAST_YEAR + 1)),
        on_day=_any_of(_on_weekday, weekday) if day == "?" else _any_of(_on_day_of_month, day),
    )


def _cron_times(cron: _Cron, zone: tzinfo, first: datetime) -> Iterator[datetime]:
    day, last = first.astimezone(zone).date(), date(max(cron.years, default=1970), 12, 31)
    while day <= last:
        if day.year in cron.years and day.month in cron.months and cron.on_day(day):
            for of_day in cron.times:
                at = datetime.combine(day, of_day, zone)
                utc = at.astimezone(UTC)
                # A time that the clocks skip comes back as another one.
                if utc >= first and utc.astimezone(zone).time() == of_day:
                    yield utc
        day += timedelta(days=1)


def _any_of(reader: Callable[[str], OnDay], field: str) -> OnDay:
    tests = [reader(part) for part in field.upper().split(",")]
    return lambda day: any(test(day) for test in tests)


def _on_day_of_month(part: str) -> OnDay:
    if part == "L":
        return lambda day: day.day == _last_day(day)
    if part == "LW":
        return lambda day: day == _nearest_weekday(day.replace(day=_last_day(day)))
    if part.endswith("W"):
        number = int(part.removesuffix("W"))
        return lambda day: (
            number <= _last_day(day) and day == _nearest_weekday(day.replace(day=number))
        )
    days = _numbers(part, range(1, 32))
    return lambda day: day.day in days


def _on_weekday(part: str) -> OnDay:
    name, _, nth = part.partition("#")
    if nth:
        wanted, which = _number(name, _WEEKDAYS), int(nth)
        return lambda day: _weekday(day) == wanted and (day.day - 1) // 7 + 1 == which
    if part.endswith("L") and part != "L":
        wanted = _number(part.removesuffix("L"), _WEEKDAYS)
        return lambda day: _weekday(day) == wanted and day.day > _last_day(day) - 7
    weekdays = {_SATURDAY} if part == "L" else _numbers(part, range(1, 8), _WEEKDAYS)
    return lambda day: _weekday(day) in weekdays


def _weekday(day: date) -> int:
    """1 for Sunday up to 7 for Saturday."""
    return day.isoweekday() % 7 + 1


def _last_day(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _nearest_weekday(day: date) -> date:
    """Monday to Friday, within the same month."""
    step = {6: -1, 7: 1}.get(day.isoweekday(), 0)
    nearest = day + timedelta(days=step)
    return nearest if nearest.month == day.month else day - timedelta(days=2 * step)


def _numbers(field: str, all_: range, names: dict[str, int] | None = None) -> frozenset[int]:
    """What a field stands for: ``*``, ``5``, ``1-5``, ``MON-FRI``, ``0/15``, and lists of them.

    Raises:
        ValueError: it can't be read, or names what there isn't.
    """
    found: set[int] = set()
    for part in field.upper().split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if first == "*":
            start, end = all_[0], all_[-1]
        else:
            start = _number(first, names or {})
            end = _number(last, names or {}) if last else all_[-1] if step else start
        if start not in all_ or end not in all_:
            raise ValueError(f"{part!r} lies outside {all_[0]} to {all_[-1]}")
        wrapped = len(all_) if end < start else 0  # FRI-MON goes over the end
        for number in range(start, end + wrapped + 1, int(step or 1)):
            found.add((number - all_[0]) % len(all_) + all_[0])
    return frozenset(found)


def _number(text: str, names: dict[str, int]) -> int:
    return names[text] if text in names else int(text)
