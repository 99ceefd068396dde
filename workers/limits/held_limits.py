"""The limits that hold jobs back: reported once, and asked again when they may let go."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Sequence

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, LimitCleared, LimitReached

_SOONEST_S, _LATEST_S = 0.01, 5.0
"""Bounds on the delay after which a limit that holds jobs back is asked again."""


class HeldLimits:
    """Keeps the limits that hold jobs back, by name and key.

    Each is asked again when it says that it is worth it, for itself alone: the cost does not grow
    with the number of keys that hold jobs back meanwhile. A limit counts as cleared once none of
    its keys, asked again, holds a job back any more. Breakers report their state themselves.

    Args:
        clock: tells the time.
        events: receives an event when a limit holds jobs back, and when it no longer does.
        on_due: called with the names of limits to ask again; those that still hold jobs back have
            to be noted before it returns.
    """

    def __init__(
        self, *, clock: Clock, events: Events, on_due: Callable[[Sequence[str]], None]
    ) -> None:
        self._clock = clock
        self._events = events
        self._on_due = on_due
        self._due: dict[str, float] = {}
        """By limit with its key, the time at which it is asked again."""
        self._asked: set[str] = set()
        """Those that are being asked again."""
        self._keys: Counter[str] = Counter()
        """By limit, the number of its keys that hold jobs back."""
        self._heap: list[tuple[float, str]] = []
        """The times and limits; those are stale that `_due` does not confirm."""
        self._alarm: asyncio.TimerHandle | None = None

    def note(self, limit: str, wait_s: float = _LATEST_S) -> None:
        """Note that a limit holds jobs back, and when it is worth asking again."""
        due = self._clock.monotonic() + max(_SOONEST_S, min(wait_s, _LATEST_S))
        known = self._due.get(limit)
        if known is not None and known <= due:
            return
        if known is None and limit not in self._asked:
            self._begin(limit, wait_s)
        self._due[limit] = due
        heapq.heappush(self._heap, (due, limit))
        self._set_alarm()

    def close(self) -> None:
        """Ask no limit again."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._heap.clear()

    def _begin(self, limit: str, wait_s: float) -> None:
        name = _name(limit)
        self._keys[name] += 1
        if self._keys[name] == 1 and not _tells_itself(name):
            self._events.emit(LimitReached(at=self._clock.now(), limit=name, retry_in_s=wait_s))

    def _end(self, limit: str) -> None:
        name = _name(limit)
        self._keys[name] -= 1
        if self._keys[name]:
            return
        del self._keys[name]
        if not _tells_itself(name):
            self._events.emit(LimitCleared(at=self._clock.now(), limit=name))

    def _set_alarm(self) -> None:
        """Have the alarm ring for the earliest limit."""
        loop, wait_s = asyncio.get_running_loop(), self._heap[0][0] - self._clock.monotonic()
        at = loop.time() + max(0.0, wait_s)
        if self._alarm is not None:
            if self._alarm.when() <= at:
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now, due = self._clock.monotonic(), list[str]()
        while self._heap and self._heap[0][0] <= now:
            at, limit = heapq.heappop(self._heap)
            if self._due.get(limit) == at:
                del self._due[limit]
                due.append(limit)
        if due:
            self._ask(due)
        if self._heap:
            self._set_alarm()

    def _ask(self, due: Sequence[str]) -> None:
        self._asked.update(due)
        self._on_due(due)
        self._asked.clear()
        for limit in due:
            if limit not in self._due:
                self._end(limit)


def _name(limit: str) -> str:
    """Return a limit's name without its key."""
    return limit.partition("#")[0]


def _tells_itself(name: str) -> bool:
    return name.startswith("breaker:")
