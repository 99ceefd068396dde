"""Schedules in words, as people say their times."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from headgate.jobs.definitions.schedules.cron_fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    NTH,
    WEEKDAY,
    YEAR,
    CronField,
)

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_PLACES = ("first", "second", "third", "fourth", "fifth")

_MOST_TIMES = 4
"""The most times of a day that are listed one by one."""

_EVERY_DAY = ("*", "?")


def in_words(expression: str) -> str:
    """Return the times of a schedule in words, such as ``At 09:00, Monday to Friday``.

    Args:
        expression: one that EventBridge Scheduler takes; its time zone is not told.

    Returns:
        the words; empty if the expression itself says it better, or can't be read here.
    """
    kind, _, rest = expression.partition("(")
    inner = rest.removesuffix(")")
    match kind:
        case "rate":
            count, _, unit = inner.partition(" ")
            return f"Every {unit.removesuffix('s') if count == '1' else inner}"
        case "at":
            return f"Once, at {inner.replace('T', ' ')}"
        case _:
            return _cron(inner)


def _cron(inner: str) -> str:
    try:
        return _cron_words(inner.upper().split())
    except ValueError:
        return ""  # AWS accepted it, so its grammar has grown


def _cron_words(fields: Sequence[str]) -> str:
    minute, hour, day, month, weekday, year = fields
    parts = [
        _times(sorted(MINUTE.read(minute)), sorted(HOUR.read(hour))),
        _weekdays(weekday) if day == "?" else _days(day),
        "" if month == "*" else f"in {_listed(MONTH, month, _MONTHS)}",
        "" if year == "*" else f"in {_listed(YEAR, year)}",
    ]
    return ", ".join(filter(None, parts)) if parts[0] else ""


def _times(minutes: Sequence[int], hours: Sequence[int]) -> str:
    """Return the times of a day; empty if they have no regularity that is easily said."""
    if len(minutes) * len(hours) <= _MOST_TIMES:
        return f"At {_joined([f'{hour:02}:{minute:02}' for hour in hours for minute in minutes])}"
    every_minutes, every_hours = _step(minutes, MINUTE), _step(hours, HOUR)
    if every_hours == 1 and every_minutes:
        return _every(every_minutes, "minute", at=minutes[0])
    if every_hours and len(minutes) == 1:
        begin = f" from {hours[0]:02}:{minutes[0]:02}" if hours[0] or minutes[0] else ""
        return f"{_every(every_hours, 'hour')}{begin}"
    if every_minutes and hours[-1] - hours[0] == len(hours) - 1:
        end = f"{hours[-1]:02}:{minutes[-1]:02}"
        return f"{_every(every_minutes, 'minute')} from {hours[0]:02}:{minutes[0]:02} to {end}"
    return ""


def _step(numbers: Sequence[int], field: CronField) -> int:
    """Return the distance of numbers that lie evenly around the whole field; 0 if they don't."""
    every, rest = divmod(len(field.numbers), len(numbers))
    evenly = list(range(numbers[0], len(field.numbers), every))
    return every if not rest and numbers == evenly else 0


def _every(count: int, unit: str, *, at: int = 0) -> str:
    if count == len(MINUTE.numbers):
        return "Every hour" + (f", at minute {at}" if at else "")
    words = f"Every {unit}" if count == 1 else f"Every {count} {unit}s"
    return words + (f", from minute {at} on" if at else "")


def _days(text: str) -> str:
    if text in _EVERY_DAY:
        return ""
    match text:
        case "L":
            return "on the last day of the month"
        case "LW":
            return "on the last weekday of the month"
    if found := re.fullmatch(r"(\d+)W", text):
        return f"on the weekday nearest to day {found[1]} of the month"
    # A list that has such a day too is as it stands.
    days = text if re.search("[LW]", text) else _listed(DAY, text)
    return f"on day{'' if days.isdecimal() else 's'} {days} of the month"


def _weekdays(text: str) -> str:
    if text in _EVERY_DAY:
        return ""
    name, sign, nth = text.partition("#")
    if sign:
        return f"on the {_PLACES[NTH.number(nth) - 1]} {_weekday(name)} of the month"
    if found := re.fullmatch(r"(\w+)L", text):
        return f"on the last {_weekday(found[1])} of the month"
    if text == "L":
        return _WEEKDAYS[-1]
    # A list that has the last of some weekday too is as it stands.
    return text if re.search(r"L(,|$)", text) else _listed(WEEKDAY, text, _WEEKDAYS)


def _weekday(text: str) -> str:
    return _WEEKDAYS[WEEKDAY.number(text) - 1]


def _listed(field: CronField, text: str, names: Sequence[str] = ()) -> str:
    """Return the numbers of a field as a list of their names, with ranges as they are written."""
    return _joined([_part(field, part, names) for part in text.split(",")])


def _part(field: CronField, part: str, names: Sequence[str]) -> str:
    if "/" in part or part == "*":
        return _joined([_named(field, number, names) for number in sorted(field.read(part))])
    ends = [_named(field, field.number(each), names) for each in part.split("-")]
    return " to ".join(ends)


def _named(field: CronField, number: int, names: Sequence[str]) -> str:
    return names[number - field.numbers[0]] if names else str(number)


def _joined(texts: Collection[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last
