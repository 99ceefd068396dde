"""Starts that are written once a job has run for a while, so that short jobs cost no request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

AFTER_S = 1.0
"""A job that ends sooner leaves no start."""

R = TypeVar("R")


class LateStarts(Generic[R]):
    """What runs and has not been written down yet; one timer for all of it.

    Args:
        put: writes the start of a run that began so many seconds ago.
    """

    def __init__(self, put: Callable[[R, float], None]) -> None:
        self._put = put
        self._begun: dict[R, float] = {}
        """When each began on the event loop's time, in that order."""
        self._timer: asyncio.TimerHandle | None = None

    def begun(self, run: R) -> None:
        """A job begins."""
        loop = asyncio.get_running_loop()
        self._begun[run] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(AFTER_S, self._look)

    def ended(self, run: R) -> None:
        """It has ended; no matter if it was written down before."""
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
