"""Starts that are written once a job has run for a while, so that short jobs cost no request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from jobs.ports import Item

AFTER_S = 1.0
"""A job that ends sooner leaves no start."""


@dataclass(frozen=True, slots=True)
class _Begun:
    at: float
    """On the event loop's time."""
    item: Callable[[float], Item]


class LateStarts:
    """What runs and has not been written down yet; one timer for all of it.

    Args:
        put: takes the items.
    """

    def __init__(self, put: Callable[[Item], None]) -> None:
        self._put = put
        self._begun: dict[object, _Begun] = {}
        """In the order in which they began."""
        self._timer: asyncio.TimerHandle | None = None

    def begun(self, run: object, item: Callable[[float], Item]) -> None:
        """A job begins; ``item`` makes its start of so many seconds ago."""
        loop = asyncio.get_running_loop()
        self._begun[run] = _Begun(loop.time(), item)
        if self._timer is None:
            self._timer = loop.call_later(AFTER_S, self._look)

    def ended(self, run: object) -> None:
        """It has ended; no matter if it was written down before."""
        self._begun.pop(run, None)

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._begun:
            run, begun = next(iter(self._begun.items()))
            if begun.at + AFTER_S > now:
                self._timer = loop.call_at(begun.at + AFTER_S, self._look)
                return
            del self._begun[run]
            self._put(begun.item(now - begun.at))
