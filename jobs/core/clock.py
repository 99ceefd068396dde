"""Clocks that are passed in as dependencies, so that tests can control time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

SKEW_S = 5.0
"""Seconds by which the wall clocks of two machines may differ without breaking a lease."""


class Clock(Protocol):
    """A source of time. Everything in Headgate that needs the time is given one."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary start; never goes back, so it suits durations."""
        ...


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)
