"""Starts that are written once a job has run for a while, so that short jobs cost no request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

AFTER_S = 1.0
"""Seconds that a job has to run for its start to be written."""

R = TypeVar("R")


class LateStarts(Generic[R]):
    """Runs whose start has not been written yet; one timer for all of them.

    Args:
        put: writes the start of a run; called with the run and the seconds since it began.
    """

    def __init__(self, put: Callable[[R, float], None]) -> None:
        self._put = put
        self._begun: dict[R, float] = {}
        """Start of each run on the event loop's clock, in that order."""
        self._timer: asyncio.TimerHandle | None = None

    def begun(self, run: R) -> None:
        """Note that a run has begun."""
        loop = asyncio.get_running_loop()
        self._begun[run] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(AFTER_S, self._look)

    def ended(self, run: R) -> None:
        """Note that a run has ended, whether its start was written or not."""
        self._begun.pop(run, None)

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._begun:
            run, at = next(iter(self._begun.items()))
            if at + AFTER_S > now:
                self._timer = loop.call_at(at + AFTER_S, self._look)
                return
            del self._begun[run]
            self._put(run, now - at)
