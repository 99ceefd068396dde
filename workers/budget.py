"""A queue group's retry budget: where in time there is room for another retry.

Pure: it knows no clock and no event loop. Moments are in seconds on a monotonic clock.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable


class Budget:
    """At most ``capacity`` retries in each window of ``per_s``.

    A retry counts in the window in which it becomes due.

    Args:
        capacity: retries of one window; it may change, and what is planned stays so.
        per_s: how long a window is.
        rng: spreads what is put off over its window.
    """

    def __init__(self, capacity: Callable[[], int], per_s: float, *, rng: random.Random) -> None:
        self._capacity = capacity
        self._per_s = per_s
        self._rng = rng
        self._planned: Counter[int] = Counter()

    def left(self, now: float) -> int:
        """How many more fit into the window of now."""
        return max(0, self._capacity() - self._planned[self._window(now)])

    def planned(self, now: float) -> int:
        """How many become due in the fullest window, from that of now on."""
        current = self._window(now)
        return max((n for window, n in self._planned.items() if window >= current), default=0)

    def fits(self, due: float) -> bool:
        """Whether a retry that becomes due then is within the budget."""
        return self._planned[self._window(due)] < self._capacity()

    def plan(self, due: float, *, now: float) -> None:
        """Reckon with a retry that becomes due then."""
        past = [window for window in self._planned if window < self._window(now)]
        for window in past:
            del self._planned[window]
        self._planned[self._window(due)] += 1

    def next_fit(self, due: float, *, until: float) -> float:
        """The first window after ``due`` with room: some moment in it, ``until`` at the latest."""
        window = self._window(due)
        while window * self._per_s < until:
            window += 1
            if self._planned[window] < self._capacity():
                return min(until, (window + self._rng.random()) * self._per_s)
        return until

    def _window(self, moment: float) -> int:
        return math.floor(moment / self._per_s)
