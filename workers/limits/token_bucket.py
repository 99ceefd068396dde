"""Counting starts in time: a bucket of tokens, each back a fixed time after it was taken.

Pure: it knows no clock and no event loop. Moments are in seconds on a monotonic clock.
"""

from __future__ import annotations

from collections import deque

from headgate.workers.limits.meters import AHEAD_S, Ending, Tokens


class Window:
    """A `Meter` of starts: at most as many in any ``per_s`` as there are tokens.

    Args:
        tokens: the tokens; their number may change, and those that are out stay out.
        per_s: how long a token is out.
    """

    def __init__(self, tokens: Tokens, per_s: float) -> None:
        self._tokens = tokens
        self._per_s = per_s
        self._soon: deque[float] = deque()
        """When the tokens were taken that were found to come back within `AHEAD_S`."""
        self._later: deque[float] = deque()
        """When those after them were taken."""

    @property
    def places(self) -> int:
        """The number of tokens, free or out."""
        return self._tokens.count

    def in_use(self, now: float) -> int:
        """Return the number of tokens that are out."""
        for taken in (self._soon, self._later):
            while taken and taken[0] + self._per_s <= now:
                taken.popleft()
        return len(self._soon) + len(self._later)

    def wait_s(self, now: float) -> float:
        """Return the seconds until a token is free, or their number may change; 0 if one is."""
        wait_s = self._wait_s(now)
        self._tokens.ask(enough=wait_s == 0)
        return min(wait_s, self._tokens.renewed_s)

    def ahead(self, now: float) -> int:
        """Return the number of tokens that are free, or will be within a second."""
        out = self.in_use(now)
        while self._later and self._later[0] + self._per_s <= now + AHEAD_S:
            self._soon.append(self._later.popleft())
        ahead = self._tokens.count - out + len(self._soon)
        self._tokens.ask(enough=ahead >= 1)
        return ahead

    def start(self, now: float) -> object:
        """Take a token, even if none is free."""
        self._later.append(now)
        return None

    def end(self, taken: object, ending: Ending, now: float) -> bool:
        """Do nothing: the token comes back after its period."""
        del taken, ending, now
        return False

    def is_idle(self, now: float) -> bool:
        """Return True if no token is out."""
        return not self.in_use(now)

    def _wait_s(self, now: float) -> float:
        """Return the seconds until a token is free; infinite without any."""
        out = self.in_use(now)
        over = out - self._tokens.count
        if over < 0:
            return 0.0
        if over >= out:
            return float("inf")
        later = over - len(self._soon)
        taken = self._soon[over] if later < 0 else self._later[later]
        return taken + self._per_s - now
