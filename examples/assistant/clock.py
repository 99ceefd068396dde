"""The time, as handlers ask for it; a test's harness has another."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time, in UTC."""
        ...


class SystemClock:
    """The machine's own `Clock`."""

    def now(self) -> datetime:
        return datetime.now(UTC)
