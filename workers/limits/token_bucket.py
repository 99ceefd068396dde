"""Counting starts in a sliding window: a bucket of tokens, each back a fixed time after its taking.

A start takes one token of a `Window`, and as many as the job costs of a `CostWindow`.

Pure: it knows no clock and no event loop. Moments are in seconds on a monotonic clock.
"""

from __future__ import annotations

import math
from collections import deque

from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.workers.limits.meters import AHEAD_S, ONE, Ending, TokenCost, Tokens

_SAVED_S = 1.0
"""Time for which tokens stay saved up for a job that could have started: it is asked about as soon
as it can, unless it has gone back to its queue meanwhile."""


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
        """Times at which the tokens were taken that were found to come back within `AHEAD_S`."""
        self._later: deque[float] = deque()
        """Times at which those after them were taken."""

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

    def wait_s(self, now: float, cost: TokenCost = ONE) -> float:
        """Return the seconds until a token is free, or their number may change; 0 if one is."""
        del cost
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

    def start(self, now: float, cost: TokenCost = ONE) -> object:
        """Take a token, even if none is free."""
        del cost
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


@light_dataclass(frozen=True, slots=True)
class _Saving:
    """Tokens that are saved up for a job that needs more than are free."""

    cost: TokenCost
    enough_at: float

    def keeps_out(self, cost: TokenCost, now: float) -> bool:
        """Return True if a job would take of what is saved up for one that came before it."""
        if cost == self.cost or now >= self.enough_at + _SAVED_S:
            return False
        return cost.rank >= self.cost.rank


class CostWindow:
    """A `Meter` of starts whose costs in any ``per_s`` add up to the number of tokens at most.

    While a job waits for its tokens none starts that came after it, unless it is more urgent: a
    stream of small jobs would otherwise leave a large one waiting for ever.

    Args:
        tokens: the tokens; their number may change, and those that are out stay out.
        per_s: how long a token is out.
    """

    def __init__(self, tokens: Tokens, per_s: float) -> None:
        self._tokens = tokens
        self._per_s = per_s
        self._starts: deque[tuple[float, int]] = deque()
        """The starts whose tokens are out: their times and costs."""
        self._out = 0
        self._usual = 1.0
        """The mean cost of the last starts."""
        self._saving: _Saving | None = None

    @property
    def places(self) -> int:
        """The number of jobs of the usual cost that may start in its window."""
        return max(1, int(self._tokens.count / self._usual))

    def in_use(self, now: float) -> int:
        """Return the number of tokens that are out."""
        while self._starts and self._starts[0][0] + self._per_s <= now:
            self._out -= self._starts.popleft()[1]
        return self._out

    def wait_s(self, now: float, cost: TokenCost = ONE) -> float:
        """Return the seconds until the job's tokens are free, or their number may change."""
        if not cost.tokens:
            return 0.0
        if (saving := self._saving) is not None and saving.keeps_out(cost, now):
            self._tokens.ask(enough=False, needs=saving.cost.tokens)
            return max(0.0, saving.enough_at - now) + _SAVED_S
        wait_s = min(self._wait_s(now, cost.tokens), self._tokens.renewed_s)
        self._tokens.ask(enough=wait_s == 0, needs=cost.tokens if wait_s else None)
        if wait_s:
            self._saving = _Saving(cost, now + wait_s)
        return wait_s

    def ahead(self, now: float) -> float:
        """Return the number of jobs of the usual cost that may start within a second."""
        if (saving := self._saving) is not None and now < saving.enough_at + _SAVED_S:
            return 0
        free = self._tokens.count - self.in_use(now)
        for taken_at, cost in self._starts:
            if taken_at + self._per_s > now + AHEAD_S:
                break
            free += cost
        self._tokens.ask(enough=free >= 1)
        return math.ceil(free / self._usual)

    def start(self, now: float, cost: TokenCost = ONE) -> object:
        """Take a job's tokens, even if they are not free."""
        if self._saving is not None and self._saving.cost == cost:
            self._saving = None
            self._tokens.ask(enough=True, needs=0)
        if cost.tokens:
            self._starts.append((now, cost.tokens))
            self._out += cost.tokens
            self._usual = self._out / len(self._starts)
        return None

    def end(self, taken: object, ending: Ending, now: float) -> bool:
        """Do nothing: the tokens come back after their period."""
        del taken, ending, now
        return False

    def is_idle(self, now: float) -> bool:
        """Return True if no token is out."""
        return not self.in_use(now)

    def _wait_s(self, now: float, cost: int) -> float:
        """Return the seconds until that many tokens are free; infinite if there are fewer."""
        lacking = self.in_use(now) + cost - self._tokens.count
        if lacking <= 0:
            return 0.0
        for taken_at, back in self._starts:
            lacking -= back
            if lacking <= 0:
                return taken_at + self._per_s - now
        return math.inf
