"""A retry budget: where in time there is room for another retry.

Time is cut into windows that follow each other; a retry takes a place of the window in which it
becomes due, and where that is full a place of a later one.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headgate.jobs.core.clock import Clock

_NONE: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class Place:
    """When a retry may come."""

    delay_s: int
    is_put_off: bool
    """It would have come sooner, had there been room."""


class Budget(Protocol):
    """A retry budget at work."""

    async def take(self, delay_s: int, *, longest_s: float) -> Place | None:
        """Take a place for a retry that is to come after ``delay_s``.

        Args:
            delay_s: what its policy says.
            longest_s: how far it may be put off; there it comes, full or not. 0 gives it up where
                its own window has no room: None.
        """
        ...

    def left(self) -> int:
        """How many more fit into the present window, as far as this worker knows."""
        ...

    def hurry(self) -> None:
        """Wait for nobody any more."""
        ...


class Book:
    """How many places of each window are taken. Pure: moments are seconds on any clock.

    Args:
        limit: places of one window.
        per_s: how long a window is.
        rng: spreads what is put off over its window.
    """

    def __init__(self, limit: int, per_s: float, *, rng: random.Random) -> None:
        self._limit = limit
        self._per_s = per_s
        # What becomes due just before a window ends would begin in the next one.
        self._margin_s = min(2.0, per_s / 10)
        self._rng = rng
        self._taken: Counter[int] = Counter()

    def window(self, moment: float) -> int:
        """The window in which a retry begins that becomes due then."""
        return math.floor((moment + self._margin_s) / self._per_s)

    def left(self, now: float) -> int:
        """How many places of the present window are left."""
        return max(0, self._limit - self._taken[math.floor(now / self._per_s)])

    def first_with_room(
        self, window: int, last: int, besides: Mapping[int, int] = _NONE
    ) -> int | None:
        """The first from ``window`` to ``last`` with a place, if these are taken ``besides``."""
        for each in range(window, last + 1):
            if self._taken[each] + besides.get(each, 0) < self._limit:
                return each
        return None

    def add(self, window: int, count: int = 1) -> None:
        """So many places of it have been taken."""
        self._taken[window] += count

    def learn(self, taken: Mapping[int, int]) -> None:
        """So many places of these windows are taken in all."""
        self._taken.update({window: count - self._taken[window] for window, count in taken.items()})

    def place(self, window: int, due: float, now: float) -> Place:
        """When a retry comes that was due then and has got a place of that window."""
        due = max(due, now)
        if window > math.floor(due / self._per_s):
            start, room_s = window * self._per_s, self._per_s - self._margin_s
            is_put_off = window > self.window(due)
            due = start + (self._rng.random() * room_s if is_put_off else 0)
            return Place(math.ceil(due - now), is_put_off)
        return Place(math.ceil(due - now), is_put_off=False)

    def forget(self, now: float) -> None:
        """Drop what is past."""
        current = math.floor(now / self._per_s)
        for window in [window for window in self._taken if window < current]:
            del self._taken[window]


class WorkerBudget:
    """A `Budget` of one worker by itself, in windows of its monotonic clock."""

    def __init__(self, limit: int, per_s: float, *, clock: Clock, rng: random.Random) -> None:
        self._book = Book(limit, per_s, rng=rng)
        self._clock = clock

    async def take(self, delay_s: int, *, longest_s: float) -> Place | None:
        """At once; see `Budget.take`."""
        now = self._clock.monotonic()
        due = now + delay_s
        self._book.forget(now)
        first, last = self._book.window(due), self._book.window(max(due, now + longest_s))
        window = self._book.first_with_room(first, last)
        if window is None:
            if not longest_s:
                return None
            window = last
        self._book.add(window)
        return self._book.place(window, due, now)

    def left(self) -> int:
        """How many more fit into the present window."""
        return self._book.left(self._clock.monotonic())

    def hurry(self) -> None:
        """It never waits."""
