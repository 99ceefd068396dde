"""Time as something that is handed in, so that a test can own it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

SKEW_S = 5.0
"""By how much the wall clocks of two machines may differ, for what is leased to hold."""


class Clock(Protocol):
    """What tells the time. Everything in Headgate that needs it takes one of these."""

    def now(self) -> datetime:
        """The wall clock, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back, so it is what measures durations."""
        ...


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()
