"""Numbers, lengths of time and texts as a page shows them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup

from headgate.jobs.values.texts import printable

UNKNOWN = "?"
"""Stands for a value that nobody told."""

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def shown(value: Any) -> Any:
    """Return what a template's expression puts on the page: texts can't mislead who reads them.

    Control characters and those that change the direction of text are escaped, and None is nothing.
    Markup is that of the templates' own macros.
    """
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


def number(value: float | None) -> str:
    """Return a number in at most five characters: ``9,999``, ``12.3k``, ``4.1M``."""
    if value is None:
        return UNKNOWN
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scaled = value / (1e3 if unit == "k" else size)
            return f"{scaled:.1f}{unit}" if abs(scaled) < 100 else f"{scaled:.0f}{unit}"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 10 else f"{value:.1f}"


def exact(value: float | None) -> str:
    """Return a number in full: ``1,234,567``."""
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def span(value: timedelta | float | None) -> str:
    """Return a length of time in its two largest units: ``2h 5m``, ``340ms``; of seconds too."""
    if value is None:
        return UNKNOWN
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 10:
        return _short(seconds)
    whole = round(seconds)
    parts: list[tuple[int, str]] = []
    for size, unit in _UNITS:
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append((count, unit))
    return " ".join(f"{count}{unit}" for count, unit in parts[:2] if count)


def _short(seconds: float) -> str:
    if seconds == 0:
        return "0s"
    if seconds < 1:
        return f"{max(1, math.floor(seconds * 1000))}ms"
    return f"{math.floor(seconds * 10) / 10:g}s"


def exact_span(value: timedelta | float | None) -> str:
    """Return a length of time in full, as in ``1 day, 2:03:04``."""
    if value is None:
        return "unknown"
    length = value if isinstance(value, timedelta) else timedelta(seconds=value)
    return str(length)


def moment(at: datetime | None) -> str:
    """Return a time in full, in UTC."""
    if at is None:
        return "unknown"
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def machine_time(at: datetime) -> str:
    """Return a time as HTML's ``datetime`` attribute takes it."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


def clock_time(at: datetime, now: datetime) -> str:
    """Return a time of day, with the date unless it is today's: ``14:03:22``."""
    at = at.astimezone(UTC)
    same_day = at.date() == now.astimezone(UTC).date()
    return at.strftime("%H:%M:%S") if same_day else at.strftime("%b %d %H:%M")


def plural(count: float, one: str, many: str = "") -> str:
    """Return a count with its noun: ``1 job``, ``2 jobs``."""
    return f"{exact(count)} {one if count == 1 else many or f'{one}s'}"
