"""Counting what runs at once. Pure: moments are in seconds on a monotonic clock."""

from __future__ import annotations

from collections import deque

from headgate.workers.limits.meters import AHEAD_S, GUESS_S, ONE, Ending, TokenCost, Tokens


class Slots:
    """A `Meter` of runs: at most as many at once as there are tokens.

    Args:
        tokens: the tokens; their number may shrink below those in use.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._running = 0
        self._ended: deque[float] = deque()
        """Times at which jobs ended in the last second, to estimate the next one's."""

    @property
    def places(self) -> int:
        """The number of slots, free or in use."""
        return self._tokens.count

    @property
    def free(self) -> int:
        """The number of free slots; negative if there are fewer than are in use."""
        return self._tokens.count - self._running

    def in_use(self, now: float) -> int:
        """Return the number of slots in use."""
        del now
        return self._running

    def wait_s(self, now: float, cost: TokenCost = ONE) -> float:
        """Return 0 if a slot is free, else a guess: the ends of jobs are unknown."""
        del now, cost
        enough = self.free > 0
        self._tokens.ask(enough=enough)
        return 0.0 if enough else GUESS_S

    def ahead(self, now: float) -> float:
        """Return the free slots plus those freed in the last second, as an estimate of the next."""
        free = self.free
        self._tokens.ask(enough=free > 0)
        self._forget(now)
        return free + len(self._ended)

    def start(self, now: float, cost: TokenCost = ONE) -> object:
        """Take a slot."""
        del now, cost
        self._running += 1
        return None

    def end(self, taken: object, ending: Ending, now: float) -> bool:
        """Give the slot to another job."""
        del taken, ending
        self._running -= 1
        self._forget(now)
        self._ended.append(now)
        return True

    def is_idle(self, now: float) -> bool:
        """Return True if no slot is in use, nor was in the last second."""
        self._forget(now)
        return not self._running and not self._ended

    def _forget(self, now: float) -> None:
        while self._ended and self._ended[0] + AHEAD_S <= now:
            self._ended.popleft()
