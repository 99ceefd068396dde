"""The patience with messages that can't start: the time each is held, and then stays away.

    it waits for                 held                            then away
    a slot                       ``give_back_after``             not at all
    a slot, delivered before     12 times that, growing          not at all
    a limit                      12 times that, growing          as the limit says, and briefly
    a limit that lasts longer    not at all                      as the limit says
    a limit, and is too much     two seconds, or not at all      as the limit says, and growing

Enough messages are held to fill all places of a limit as soon as they come free; these are offered
to other workers now and then. Any surplus is held for a moment, until the limit's pace is known,
unless there is far too much of it. The times grow with each delivery that ended without a start,
since each time no worker could start the message. The time away is capped by the pace at which the
limit lets other messages start.

Pure but for its randomness: it knows no clock and no event loop.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from headgate.jobs.core.topology import MAX_BATCH

_LONGER = 12
"""Multiple of ``give_back_after`` for messages delivered before, or held back by a limit."""

_GROWTH = 3
"""Multiple of ``give_back_after`` by which the time held grows with each return."""

_LONGEST = 72
"""Largest such multiple: with the times away, SQS's 1,000 receives last for four days."""

_COSTLY = 5
"""Factor on the number of messages held, and on their time, where a return counts as an attempt."""

_AHEAD_S = 5.0
"""Period whose starts under a limit are held in addition; returned messages stay away as long."""

_OF_LIMIT = 2
"""Minimum number of messages held for one limit; otherwise as many as it has places."""

_OF_QUEUE = 20 * MAX_BATCH
"""Maximum number of limited messages held of one queue, across limits and keys, even briefly."""

MOMENT_S = 2.0
"""Time for which a surplus is held, until it shows how fast the limit lets messages start."""

_LONGEST_AWAY_S = 300.0
"""Longest time a message stays away, unless its limit lasts longer."""

_LONGEST_SAID_S = 3600.0
"""Time after which a limit that lasts longer is checked again: a deploy may have changed it."""

_JITTER = 0.2
"""Jitter on the time away, as a fraction of it; at least one second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A message that can't start now, described for the policy."""

    receives: int = 1
    """Number of deliveries, including the present one."""
    returns: int = 0
    """Number of earlier deliveries that ended without a start."""
    is_known: bool = True
    """True once its records and a large payload have been read."""
    limit_s: float | None = None
    """Seconds until its limit is worth asking again; None if no limit holds it back."""
    places: int = 0
    """Number of jobs that its limit lets run at once, or start in its window."""
    startable_soon: float = 0.0
    """Number of messages that its limit will let start within about a second."""
    is_costly: bool = False
    """True if a return counts as an attempt, since no records tell attempts from deliveries."""


class Patience:
    """Decides for one message at a time.

    Args:
        give_back_after_s: the time for which a message on its first delivery waits for a slot.
        rng: adds jitter to the time away.
    """

    def __init__(self, give_back_after_s: float, *, rng: random.Random) -> None:
        self._unit_s = give_back_after_s
        self._rng = rng

    def held_s(self, waiter: Waiter) -> float:
        """Return the time for which a message is held, in seconds."""
        if waiter.limit_s is None and waiter.is_known and waiter.receives == 1:
            return self._unit_s
        first = _LONGER * _COSTLY if waiter.limit_s is not None and waiter.is_costly else _LONGER
        return self._unit_s * min(_LONGEST, first + _GROWTH * waiter.returns)

    def most_of_limit(self, waiter: Waiter) -> int:
        """Return the number of messages to hold for a limit."""
        more = _COSTLY if waiter.is_costly else 1
        return max(_OF_LIMIT, waiter.places) * more + self._soon(waiter)

    def most_of_queue(self, waiter: Waiter) -> int:
        """Return the maximum number of limited messages to hold of a queue, even for a moment."""
        return _OF_QUEUE + self._soon(waiter)

    def lasts(self, waiter: Waiter) -> bool:
        """Return True if the message's limit lasts longer than the message would be held."""
        return waiter.limit_s is not None and waiter.limit_s > self.held_s(waiter)

    def away_s(self, waiter: Waiter, *, too_much: bool = False) -> int:
        """Return the time for which a returned message stays away, in whole seconds."""
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
