"""A retry budget: places in time for retries.

Time is divided into consecutive windows; a retry takes a place in the window in which it becomes
due, or in a later one if that window is full.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from headgate.jobs.core.clock import Clock
from headgate.jobs.execution.settling.settlement import BudgetAnswer, Exhausted, Granted

_NONE: Mapping[int, int] = {}


class Budget(Protocol):
    """A retry budget in use."""

    @property
    def fault(self) -> str:
        """The reason why retries can't be counted for all workers now; empty if they are."""
        ...

    async def take(self, delay_s: int, *, longest_s: float) -> BudgetAnswer:
        """Take a place for a retry that is to come after ``delay_s``.

        Args:
            delay_s: the delay by its retry policy.
            longest_s: the longest delay; the retry then takes a place even in a full window. With 0
                it is given up if its own window has no room.

        Returns:
            the time of its place, or the refusal if the retry is given up.
        """
        ...

    def left(self) -> int:
        """Return the places left in the present window, as far as this worker knows."""
        ...

    def hurry(self) -> None:
        """Wait only briefly, if at all, from now on."""
        ...


class Book:
    """The number of places taken in each window. Pure: moments are seconds on any clock.

    Args:
        limit: the number of places in one window.
        per_s: the length of a window.
        rng: spreads postponed retries over their window.
    """

    def __init__(self, limit: int, per_s: float, *, rng: random.Random) -> None:
        self._limit = limit
        self._per_s = per_s
        # A retry that becomes due just before a window ends would begin in the next one.
        self._margin_s = min(2.0, per_s / 10)
        self._rng = rng
        self._taken: Counter[int] = Counter()

    def window(self, moment: float) -> int:
        """Return the window in which a retry that is due at ``moment`` begins."""
        return math.floor((moment + self._margin_s) / self._per_s)

    def left(self, now: float) -> int:
        """Return the number of places left in the present window."""
        return max(0, self._limit - self._taken[math.floor(now / self._per_s)])

    def first_with_room(
        self, window: int, last: int, besides: Mapping[int, int] = _NONE
    ) -> int | None:
        """Return the first window up to ``last`` with a place, given those taken ``besides``."""
        for each in range(window, last + 1):
            if self._taken[each] + besides.get(each, 0) < self._limit:
                return each
        return None

    def add(self, window: int, count: int = 1) -> None:
        """Count places of a window as taken."""
        self._taken[window] += count

    def learn(self, taken: Mapping[int, int]) -> None:
        """Set the total number of places taken in these windows."""
        self._taken.update({window: count - self._taken[window] for window, count in taken.items()})

    def place(self, window: int, due: float, now: float) -> Granted:
        """Return the place of a retry that is due at ``due`` and has been given that window."""
        due = max(due, now)
        if window > math.floor(due / self._per_s):
            start, room_s = window * self._per_s, self._per_s - self._margin_s
            is_put_off = window > self.window(due)
            due = start + (self._rng.random() * room_s if is_put_off else 0)
            return Granted(math.ceil(due - now), is_put_off)
        return Granted(math.ceil(due - now), is_put_off=False)

    def forget(self, now: float) -> None:
        """Drop past windows."""
        current = math.floor(now / self._per_s)
        for window in [window for window in self._taken if window < current]:
            del self._taken[window]


class WorkerBudget:
    """A `Budget` of a single worker, in windows of its monotonic clock."""

    fault = ""

    def __init__(self, limit: int, per_s: float, *, clock: Clock, rng: random.Random) -> None:
        self._book = Book(limit, per_s, rng=rng)
        self._clock = clock

    async def take(self, delay_s: int, *, longest_s: float) -> BudgetAnswer:
        """Take a place immediately; see `Budget.take`."""
        now = self._clock.monotonic()
        due = now + delay_s
        self._book.forget(now)
        first, last = self._book.window(due), self._book.window(max(due, now + longest_s))
        window = self._book.first_with_room(first, last)
        if window is None:
            if not longest_s:
                return Exhausted()
            window = last
        self._book.add(window)
        return self._book.place(window, due, now)

    def left(self) -> int:
        """Return the number of places left in the present window."""
        return self._book.left(self._clock.monotonic())

    def hurry(self) -> None:
        """Do nothing: this budget never waits."""
