"""The cron evaluator against brute force: each minute of each day, checked one by one.

The judge shares no code with the evaluator: it looks at the wall clock at each minute of UTC, and
implements the rules of EventBridge's page independently. The expressions are drawn from one seed,
over zones whose clocks skip and repeat hours, half hours and whole days. Brute force alone decides:
libraries such as croniter read crontab's fields, not EventBridge's, and would be one more
dependency to lock.

https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
"""

from __future__ import annotations

import calendar
import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from headgate.jobs.definitions.schedules.occurrences import occurrences

ZONES = (
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Asuncion",
    "America/Havana",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "UTC",
)
SKIPPED_DAYS = {"Pacific/Apia": date(2011, 12, 30), "Pacific/Kiritimati": date(1994, 12, 31)}
MONTHS = [name.upper() for name in calendar.month_abbr]
WEEKDAYS = ["", "SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
YEARS = (2011, 2026)
"""Years whose clock changes are examined."""


# --- the judge -----------------------------------------------------------------------------------


def stands_for(field: str, value: int, low: int, names: list[str] = []) -> bool:  # noqa: B006 - never changed
    """Return True if a simple field (a list of numbers, ranges and steps) includes a value."""
    return any(_part_includes(part, value, low, names) for part in field.split(","))


def _part_includes(part: str, value: int, low: int, names: list[str]) -> bool:
    if "/" in part:
        first, step = part.split("/")
        begin = low if first == "*" else _value(first, names)
        return value >= begin and (value - begin) % int(step) == 0
    if "-" in part:
        first_, last = (_value(each, names) for each in part.split("-"))
        if first_ <= last:
            return first_ <= value <= last
        return value >= first_ or value <= last  # FRI-MON wraps around
    return part == "*" or value == _value(part, names)


def _value(text: str, names: list[str]) -> int:
    return names.index(text) if text in names else int(text)


def days_meant(of_month: str, of_week: str, years: range) -> set[date]:
    """Return the days selected by the two day fields, one of which is ``?``."""
    meant: set[date] = set()
    for days in _months(years):
        if of_week == "?":
            meant.update(*(_of_month(part, days) for part in of_month.split(",")))
        else:
            meant.update(*(_of_week(part, days) for part in of_week.split(",")))
    return meant


def _months(years: range) -> Iterator[list[date]]:
    """Yield the days of each month."""
    for year in years:
        for month in range(1, 13):
            last = calendar.monthrange(year, month)[1]
            yield [date(year, month, number + 1) for number in range(last)]


def _of_month(part: str, days: list[date]) -> list[date]:
    workdays = [day for day in days if day.weekday() < 5]
    if part == "L":
        return days[-1:]
    if part == "LW":
        return workdays[-1:]
    if part.endswith("W"):
        wanted = int(part[:-1])
        nearest = min(workdays, key=lambda day: abs(day.day - wanted))
        return [nearest] if wanted <= len(days) else []
    return [day for day in days if stands_for(part, day.day, 1)]


def _of_week(part: str, days: list[date]) -> list[date]:
    if part == "L":
        return _named(7, days)
    if "#" in part:
        name, which = part.split("#")
        return _named(_value(name, WEEKDAYS), days)[int(which) - 1 : int(which)]
    if part.endswith("L"):
        return _named(_value(part[:-1], WEEKDAYS), days)[-1:]
    return [day for day in days if stands_for(part, _weekday(day), 1, WEEKDAYS)]


def _named(weekday: int, days: list[date]) -> list[date]:
    return [day for day in days if _weekday(day) == weekday]


def _weekday(day: date) -> int:
    """Return 1 for Sunday up to 7 for Saturday."""
    return (day.toordinal() % 7) + 1  # the first of January of the year 1 was a Monday


def on_the_wall(zone: ZoneInfo, first: date, days: int) -> list[tuple[datetime, datetime]]:
    """Return each minute of UTC with a zone's wall-clock time, except for repeated hours."""
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC)
    minutes = (begin + timedelta(minutes=number) for number in range(days * 1440))
    shown = ((minute, minute.astimezone(zone)) for minute in minutes)
    return [(minute, wall) for minute, wall in shown if wall.fold == 0]


# --- expressions ---------------------------------------------------------------------------------


def drawn(rng: random.Random, low: int, high: int, names: list[str] | None = None) -> str:
    """Draw a simple field: everything, a step, a range, or a list of them."""

    def number(least: int = low) -> str:
        value = rng.randint(least, high)
        return names[value] if names and rng.random() < 0.5 else str(value)

    shapes: list[Callable[[], str]] = [
        lambda: "*",
        lambda: f"{rng.choice(['*', number()])}/{rng.randint(1, high)}",
        lambda: f"{number()}-{number()}",
        lambda: ",".join(number() for _ in range(rng.randint(1, 3))),
    ]
    return rng.choice(shapes)()


def drawn_days(rng: random.Random) -> tuple[str, str]:
    """Draw the fields of day of month and day of week."""
    weekday = rng.choice([*WEEKDAYS[1:], *"1234567"])
    special = [
        ("L", "?"),
        ("LW", "?"),
        (f"{rng.randint(1, 31)}W", "?"),
        (f"{rng.randint(1, 31)},L", "?"),
        ("?", "L"),
        ("?", f"{weekday}L"),
        ("?", f"{weekday}#{rng.randint(1, 5)}"),
    ]
    plain = [(drawn(rng, 1, 31), "?"), ("?", drawn(rng, 1, 7, WEEKDAYS))]
    return rng.choice(special if rng.random() < 0.6 else plain)


# --- the comparison ------------------------------------------------------------------------------


def found(expression: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """Return the evaluator's times from ``begin`` up to, but excluding, ``end``."""
    last = end - timedelta(minutes=1)
    return list(occurrences(f"cron({expression})", zone, since=begin, end=last))


def windows(zone: ZoneInfo) -> Iterator[date]:
    """Yield the first of three days around each clock change of a zone, or a day if it has none."""
    changes = 0
    for year in YEARS:
        noons = [datetime(year, 1, 1, 12, tzinfo=UTC) + timedelta(days=n) for n in range(365)]
        for before, after in pairwise(noons):
            if before.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
                changes += 1
                yield before.date() - timedelta(days=1)
    if not changes:
        yield date(YEARS[0], 6, 1)
    if zone.key in SKIPPED_DAYS:
        yield SKIPPED_DAYS[zone.key] - timedelta(days=1)


@pytest.mark.parametrize("zone", ZONES)
def test_each_minute_around_a_change_of_the_clocks_is_judged_alike(zone: str) -> None:
    rng = random.Random(zone)  # noqa: S311 - draws examples, guards no secret
    for first in windows(ZoneInfo(zone)):
        wall = on_the_wall(ZoneInfo(zone), first, 3)
        for _ in range(8):
            minute, hour = drawn(rng, 0, 59), drawn(rng, 0, 23)
            minutes = {value for value in range(60) if stands_for(minute, value, 0)}
            hours = {value for value in range(24) if stands_for(hour, value, 0)}
            due = [at for at, shown in wall if shown.minute in minutes and shown.hour in hours]
            expression = f"{minute} {hour} * * ? *"
            end = wall[-1][0] + timedelta(minutes=1)
            assert found(expression, zone, wall[0][0], end) == due, f"{expression} in {zone}"


@pytest.mark.parametrize("seed", range(4))
def test_each_day_of_five_years_is_judged_alike(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - draws examples, guards no secret
    begin, end = datetime(2024, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
    for _ in range(20):
        of_month, of_week = drawn_days(rng)
        month, year = drawn(rng, 1, 12, MONTHS), rng.choice(["*", "2025-2027", "2024/3", "2026"])
        expression = f"15 8 {of_month} {month} {of_week} {year}"
        due = [
            datetime(day.year, day.month, day.day, 8, 15, tzinfo=UTC)
            for day in sorted(days_meant(of_month, of_week, range(begin.year, end.year)))
            if stands_for(month, day.month, 1, MONTHS) and stands_for(year, day.year, 1970)
        ]
        assert found(expression, "UTC", begin, end) == due, expression
