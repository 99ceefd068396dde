"""Counting starts in time: a bucket of tokens, each back a fixed time after it was taken.

Pure: it knows no clock and no event loop. Moments are in seconds on a monotonic clock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

AHEAD_S = 1.0
"""Horizon of the estimates of startable jobs."""


class Window:
    """At most ``capacity`` tokens are out at any moment, hence as many starts in any ``per_s``.

    Args:
        capacity: returns the number of tokens; it may change, and tokens that are out stay out.
        per_s: how long a token is out.
    """

    def __init__(self, capacity: Callable[[], int], per_s: float) -> None:
        self._capacity = capacity
        self._per_s = per_s
        self._soon: deque[float] = deque()
        """When the tokens were taken that were found to come back within `AHEAD_S`."""
        self._later: deque[float] = deque()
        """When those after them were taken."""

    @property
    def capacity(self) -> int:
        """The number of tokens, free or out."""
        return self._capacity()

    def out(self, now: float) -> int:
        """Return the number of tokens that are out."""
        for taken in (self._soon, self._later):
            while taken and taken[0] + self._per_s <= now:
                taken.popleft()
        return len(self._soon) + len(self._later)

    def wait_s(self, now: float) -> float:
        """Return the seconds until a token is free: 0 if one is, infinite without any capacity."""
        out = self.out(now)
        over = out - self._capacity()
        if over < 0:
            return 0.0
        if over >= out:
            return float("inf")
        later = over - len(self._soon)
        taken = self._soon[over] if later < 0 else self._later[later]
        return taken + self._per_s - now

    def ahead(self, now: float) -> int:
        """Return the number of tokens that are free, or will be within a second."""
        out = self.out(now)
        while self._later and self._later[0] + self._per_s <= now + AHEAD_S:
            self._soon.append(self._later.popleft())
        return self._capacity() - out + len(self._soon)

    def take(self, now: float) -> None:
        """Take a token, even if none is free."""
        self._later.append(now)


class Endings:
    """Counts the jobs that ended in the last second, by key, to estimate those of the next."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, str]] = deque()
        self._counts: Counter[str] = Counter()

    def add(self, now: float, key: str = "") -> None:
        """Count a job that has ended."""
        self._forget(now)
        self._recent.append((now, key))
        self._counts[key] += 1

    def count(self, now: float, key: str = "") -> int:
        """Return the number of jobs of a key that have ended in the last second."""
        self._forget(now)
        return self._counts.get(key, 0)

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] + AHEAD_S <= now:
            _, key = self._recent.popleft()
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
