"""Counting starts in time: a bucket of tokens, each back a fixed time after it was taken.

Pure: it knows no clock and no event loop. Moments are in seconds on a monotonic clock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

AHEAD_S = 1.0
"""How far ahead it is reckoned what could start."""


class Window:
    """At most ``capacity`` tokens are out at any moment, hence as many starts in any ``per_s``.

    Args:
        capacity: how many tokens there are; it may change, and what is out stays out.
        per_s: how long a token is out.
    """

    def __init__(self, capacity: Callable[[], int], per_s: float) -> None:
        self._capacity = capacity
        self._per_s = per_s
        self._taken: deque[float] = deque()

    @property
    def capacity(self) -> int:
        """How many tokens there are."""
        return self._capacity()

    def out(self, now: float) -> int:
        """Tokens that are out."""
        while self._taken and self._taken[0] + self._per_s <= now:
            self._taken.popleft()
        return len(self._taken)

    def wait_s(self, now: float) -> float:
        """How long until there is a token: 0 if there is one, infinite without any capacity."""
        over = self.out(now) - self._capacity()
        if over < 0:
            return 0.0
        if over >= len(self._taken):
            return float("inf")
        return self._taken[over] + self._per_s - now

    def ahead(self, now: float) -> int:
        """How many tokens there are, or will be within a second."""
        out = self.out(now)
        back = 0
        for taken in self._taken:
            if taken + self._per_s > now + AHEAD_S:
                break
            back += 1
        return self._capacity() - out + back

    def take(self, now: float) -> None:
        """Take one, though there be none."""
        self._taken.append(now)

    @property
    def last_back_at(self) -> float:
        """When the last token that is out will be back; in the past if none is."""
        return self._taken[-1] + self._per_s if self._taken else float("-inf")


class Endings:
    """What has ended within the last second, by key: about as much will in the next one."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, str]] = deque()
        self._counts: Counter[str] = Counter()

    def add(self, now: float, key: str = "") -> None:
        """One has ended."""
        self._forget(now)
        self._recent.append((now, key))
        self._counts[key] += 1

    def count(self, now: float, key: str = "") -> int:
        """How many of that key have ended."""
        self._forget(now)
        return self._counts.get(key, 0)

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] + AHEAD_S <= now:
            _, key = self._recent.popleft()
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
