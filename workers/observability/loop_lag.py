"""Detection of handlers that block the event loop, and with it heartbeats and all other jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, LoopBlocked

_TICK_S = 0.5
_BLOCKED_S = 1.0
"""Minimum duration of a turn of the loop that is reported."""


class LagWatch:
    """Measures the delay of a timer.

    Args:
        clock: tells the time.
        events: receives an event each time that the loop was blocked.
        running: returns the types of the async handlers that run now.
    """

    def __init__(
        self, *, clock: Clock, events: Events, running: Callable[[], Collection[str]]
    ) -> None:
        self._clock = clock
        self._events = events
        self._running = running

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            # Read before: by the time that the loop turns again, the culprit may have ended.
            suspects, before = self._running(), self._clock.monotonic()
            await asyncio.sleep(_TICK_S)
            blocked_s = self._clock.monotonic() - before - _TICK_S
            if blocked_s >= _BLOCKED_S:
                self._tell(blocked_s, {*suspects, *self._running()})

    def _tell(self, blocked_s: float, suspects: Collection[str]) -> None:
        self._events.emit(
            LoopBlocked(
                at=self._clock.now(), blocked_s=blocked_s, job_types=tuple(sorted(suspects))
            )
        )
