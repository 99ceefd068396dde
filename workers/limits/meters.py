"""Meters: each counts the jobs of one key of a limit, and says when another one may start.

A rate is a `Window`, a concurrency `Slots`, a breaker a `Circuit`; the first two get their tokens
from this worker alone, or as a lease of the fleet's. `workers.limits.guards` joins a meter to a
key. Pure: moments are in seconds on a monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.workers.limits.lease import RENEW_S, Lease

AHEAD_S = 1.0
"""Horizon of the estimates of startable jobs."""

GUESS_S = 1.0
"""Seconds until it is worth asking again about jobs that may have ended."""


class Ending(Enum):
    """The verdict of a finished run on the job's dependencies."""

    SUCCESS = auto()
    FAILURE = auto()
    NOTHING = auto()


@light_dataclass(frozen=True, slots=True)
class TokenCost:
    """The tokens that a job's start takes of a limit, and who need not wait for it."""

    tokens: int
    rank: int = 0
    """The rank of its queue's priority; 0 is the most urgent."""


ONE = TokenCost(1)
"""The cost of every job under a limit without a cost."""


class Meter(Protocol):
    """Counts the jobs of one key of a limit."""

    @property
    def places(self) -> int:
        """The number of jobs that may run at once, or start in its window."""
        ...

    def wait_s(self, now: float, cost: TokenCost = ONE) -> float:
        """Return the seconds until it is worth asking again; 0 if a job may start now."""
        ...

    def ahead(self, now: float) -> float:
        """Return how many jobs it would let start within about a second; it may be negative."""
        ...

    def start(self, now: float, cost: TokenCost = ONE) -> object:
        """Count a job that starts; return what `end` needs."""
        ...

    def end(self, taken: object, ending: Ending, now: float) -> bool:
        """Count a job that has ended; return True if another may start for it."""
        ...

    def in_use(self, now: float) -> int:
        """Return the number of tokens that are out."""
        ...

    def is_idle(self, now: float) -> bool:
        """Return True if it counts nothing, so that a new one would say the same."""
        ...


class Tokens(Protocol):
    """The source of a meter's tokens."""

    renewed_s: float
    """Seconds within which their number may change; infinite if it does not."""

    @property
    def count(self) -> int:
        """The number of tokens, free or out."""
        ...

    def ask(self, *, enough: bool, needs: int | None = None) -> None:
        """Note that jobs wait or are looked for, and whether the tokens were enough.

        Args:
            enough: whether they were.
            needs: the tokens that the next job needs at once, where jobs need several; 0 once it
                has them, and None to leave that as it is.
        """
        ...


class OwnTokens:
    """As many tokens as the limit says, for this worker alone."""

    renewed_s = math.inf

    def __init__(self, count: int) -> None:
        self.count = count

    def ask(self, *, enough: bool, needs: int | None = None) -> None:
        """Do nothing: their number is fixed."""


class LeasedTokens:
    """This worker's part of a fleet limit.

    Args:
        lease: returns the lease; called anew each time, since an unused one is given back.
    """

    renewed_s = RENEW_S

    def __init__(self, lease: Callable[[], Lease]) -> None:
        self._lease = lease
        lease()  # it is renewed from now on

    @property
    def count(self) -> int:
        """The number of tokens that this worker may use now."""
        return self._lease().tokens

    def ask(self, *, enough: bool, needs: int | None = None) -> None:
        """Have the next renewal ask for more if they are not enough."""
        self._lease().ask(enough=enough, needs=needs)
