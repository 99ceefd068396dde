"""Checks of values read from the table, which anyone with a grant on it may have written.

Each returns the value if it is what Headgate could have written there, else None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headgate.jobs.values.texts import LONGEST

LATEST_S = 253_370_764_800.0
"""Seconds from 1970 to 9999: a later time is no clock's."""

MOST = 2**53
"""A magnitude that no number written by Headgate exceeds."""

_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def text(value: object, most: int = LONGEST) -> str | None:
    """Return a text of at most ``most`` characters."""
    return value if isinstance(value, str) and len(value) <= most else None


def whole(value: object, least: int = 0, most: int = MOST) -> int | None:
    """Return a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if least <= value <= most else None


def number(value: object, least: float = 0.0, most: float = float(MOST)) -> float | None:
    """Return a finite number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and least <= value <= most else None


def epoch_s(value: object) -> float | None:
    """Return a time in seconds since 1970."""
    return number(value, most=LATEST_S)


def moment(value: object) -> datetime | None:
    """Return the aware time that a text in ISO 8601 stands for."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if found is None or found.utcoffset() is None:
        return None
    try:
        return found if _EARLIEST <= found < _LATEST else None
    except OverflowError:  # its UTC would be in the year 0 or 10000
        return None


def mapping(value: object) -> Mapping[str, Any] | None:
    """Return a map, whose names are texts in every item that DynamoDB holds."""
    return value if isinstance(value, Mapping) else None
