"""How long a message that can't start is held, and how long it stays away when it goes back.

    it waits for                 held                            then away
    a slot                       ``give_back_after``             not at all
    a slot, delivered before     12 times that, growing          not at all
    a limit                      12 times that, growing          as the limit says, and briefly
    a limit that lasts longer    not at all                      as the limit says
    a limit, and is too much     two seconds, or not at all      as the limit says, and growing

As much is held as fills all places of a limit once they come free, so that they are taken at once;
it is offered to other workers now and then. What is more is held for a moment, in which the pace
of the limit shows, unless there is far too much. The times grow with each delivery that ended
without a start: so often was nobody there who could have started it. The time away grows no further
than suits the pace at which the limit lets others start.

Pure but for its randomness: it knows no clock and no event loop.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from headgate.jobs.core.topology import MAX_BATCH

_LONGER = 12
"""How many times longer a message is held that was delivered before, or that a limit holds back."""

_GROWTH = 3
"""By how many times ``give_back_after`` that grows with each return."""

_LONGEST = 72
"""How many times longer at most: with the times away, SQS's 1,000 receives last for four days."""

_COSTLY = 5
"""How many times more, and longer, is held where each return counts as an attempt."""

_AHEAD_S = 5.0
"""What a limit will let start within this time is held besides; what goes back is away as long."""

_OF_LIMIT = 2
"""Messages held at least of those that one limit holds back; else as many as it has places."""

_OF_QUEUE = 20 * MAX_BATCH
"""Messages held at most of one queue, for all its limits and their keys, and for a moment."""

MOMENT_S = 2.0
"""Time for which more than that is held, until it shows how fast the limit lets others start."""

_LONGEST_AWAY_S = 300.0
"""How long a message stays away at most, unless its limit says longer."""

_LONGEST_SAID_S = 3600.0
"""A limit that lasts longer is asked again after this: a deploy may have changed it."""

_JITTER = 0.2
"""Spreads the returns of messages, as a part of the time away; by a second at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A message that can't start now, as the policy has to know it."""

    receives: int = 1
    """Deliveries, the present one counted."""
    returns: int = 0
    """Earlier deliveries that ended without a start."""
    is_known: bool = True
    """Records and a large payload have been read."""
    limit_s: float | None = None
    """Time until it is worth asking again the limit that holds it back; None if none does."""
    places: int = 0
    """How many its limit lets run at once, or start in its window."""
    startable_soon: float = 0.0
    """How many messages its limit will let start within about a second."""
    is_costly: bool = False
    """A return counts as an attempt, since no records tell attempts from deliveries."""


class Patience:
    """Decides for one message at a time.

    Args:
        give_back_after_s: how long a message that has just come is held for a slot.
        rng: spreads what goes back.
    """

    def __init__(self, give_back_after_s: float, *, rng: random.Random) -> None:
        self._unit_s = give_back_after_s
        self._rng = rng

    def held_s(self, waiter: Waiter) -> float:
        """Time for which a message is held."""
        if waiter.limit_s is None and waiter.is_known and waiter.receives == 1:
            return self._unit_s
        first = _LONGER * _COSTLY if waiter.limit_s is not None and waiter.is_costly else _LONGER
        return self._unit_s * min(_LONGEST, first + _GROWTH * waiter.returns)

    def most_of_limit(self, waiter: Waiter) -> int:
        """How many messages are held of those that a limit holds back."""
        more = _COSTLY if waiter.is_costly else 1
        return max(_OF_LIMIT, waiter.places) * more + self._soon(waiter)

    def most_of_queue(self, waiter: Waiter) -> int:
        """How many are held at most, even for a moment, of those that limits hold back."""
        return _OF_QUEUE + self._soon(waiter)

    def lasts(self, waiter: Waiter) -> bool:
        """Whether its limit lasts longer than it would be held."""
        return waiter.limit_s is not None and waiter.limit_s > self.held_s(waiter)

    def away_s(self, waiter: Waiter, *, too_much: bool = False) -> int:
        """Time for which it stays away when it goes back, in whole seconds."""
        if waiter.limit_s is None:
            return 0
        least_s = self._unit_s
        if too_much:
            first_s = self._unit_s * (_LONGER if waiter.is_costly else 1)
            longest_s = _LONGEST_AWAY_S / (1 + max(0.0, waiter.startable_soon))
            least_s = max(least_s, min(first_s * 2.0 ** min(waiter.returns, 10), longest_s))
        away_s = max(least_s, min(waiter.limit_s, _LONGEST_SAID_S))
        return math.ceil(away_s) + self._rng.randint(0, max(1, int(away_s * _JITTER)))

    def _soon(self, waiter: Waiter) -> int:
        return math.ceil(max(0.0, waiter.startable_soon) * _AHEAD_S)
