"""The policy for messages that can't start: hold one, or give it back, and for how long.

    it waits for                 held                            then away
    a slot                       ``give_back_after``             not at all
    a slot, delivered before     12 times that, growing          not at all
    a limit                      12 times that, growing          as the limit says, and briefly
    a limit that lasts longer    not at all                      as the limit says
    a limit, and is too much     two seconds, or not at all      as the limit says, and growing
    others of its FIFO group     as long as they, and see below  not at all
    others of its batch          as its type says                not at all
    its time                     not at all                      until then
    the end of a pause           not at all                      as the pause says, ever longer

Enough messages are held to fill all places of a limit, or of each key's, as soon as they come free;
these are offered to other workers now and then. Any surplus is held for a moment, until the limit's
pace is known, unless there is far too much of it. SQS delivers a message only so often, so the
times grow with each delivery that ended without a start, since each time no worker could start the
message. The time away is capped by the pace at which the limit lets other messages start.

What has been held for so long that its receipt would not last for its run goes back when it could
start (`workers.dispatch.freshness`).

Pure but for its randomness: it knows no clock and no event loop.
"""

from __future__ import annotations

import math
import random

from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.workers.limits.guards import Block

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
"""Maximum number of limited messages held of one queue, even briefly, besides those that start
within `_AHEAD_S`, and `_OF_LIMIT` for each of up to `_LIMITS` further limits or keys."""

_LIMITS = 100

_MOMENT_S = 2.0
"""Time for which a surplus is held, until it shows how fast the limit lets messages start."""

_LONGER_AWAY, _RETURNS = 1.5, 15
"""Factor by which the time away grows with each return, and the last return that it grows with: a
message is away for about half as long as it has waited, so no turn of its key is missed by more."""

_LONGEST_AWAY_S = 300.0
"""Longest time a message stays away, unless its limit lasts longer."""

_LONGEST_SAID_S = 3600.0
"""Time after which a limit that lasts longer is checked again: a deploy may have changed it."""

_JITTER = 0.2
"""Jitter on the time away, as a fraction of it; at least one second."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A message that can't start now, described for the policy."""

    waited_s: float = 0.0
    """Seconds since it was received, or became the first of its FIFO group."""
    receives: int = 1
    """Number of deliveries, including the present one."""
    attempts: int | None = 0
    """Number of earlier deliveries that were attempts. None if no records tell: then each return
    counts as an attempt."""
    is_known: bool = True
    """True once its records and a large payload have been read."""
    is_lost: bool = False
    """True if SQS no longer accepts its receipt."""
    is_behind: bool = False
    """True while it may not start before others of its FIFO group, or waits for a batch."""
    is_stopping: bool = False
    """True once the worker starts nothing more."""
    due_in_s: float = 0.0
    """Seconds until its job may run."""
    paused_s: float = 0.0
    """Seconds for which its pause keeps it away; 0 if it is not paused."""
    block: Block | None = None
    """The limit that holds it back, if any."""
    of_limit: int = 0
    """Number of messages of its queue that its limit holds back, up to and including it."""
    of_queue: int = 0
    """The same for all limits together."""
    limits: int = 1
    """Number of limits, or of keys of one, that hold back messages of its queue."""

    @property
    def returns(self) -> int:
        """The number of earlier deliveries that ended without a start."""
        return max(0, self.receives - 1 - (self.attempts or 0))

    @property
    def is_costly(self) -> bool:
        """True if a return counts as an attempt."""
        return self.attempts is None


@light_dataclass(frozen=True, slots=True)
class Stays:
    """The message is held."""

    is_surplus: bool = False
    """True if it is held only for a moment, since enough are held for its limit."""


@light_dataclass(frozen=True, slots=True)
class GoesBack:
    """The message is given back unstarted."""

    away_s: int = 0
    """Seconds until SQS delivers it again."""


class Patience:
    """Decides for one message at a time whether it is held or given back.

    Args:
        give_back_after_s: the time for which a message on its first delivery waits for a slot.
        rng: adds jitter to the time away.
    """

    def __init__(self, give_back_after_s: float, *, rng: random.Random) -> None:
        self._unit_s = give_back_after_s
        self._rng = rng

    def decide(self, waiter: Waiter) -> Stays | GoesBack:
        """Decide what becomes of a message that can't start now."""
        if waiter.is_stopping or waiter.is_lost:
            return GoesBack()
        if waiter.due_in_s > 0:
            return GoesBack(math.ceil(waiter.due_in_s))
        if waiter.paused_s > 0:
            return self._away_for(waiter.paused_s)
        if waiter.is_behind:
            return Stays()  # no other worker could start it either, or should
        if waiter.block is not None:
            return self._decide_limited(waiter, waiter.block)
        return Stays() if waiter.waited_s <= self._held_s(waiter) else GoesBack()

    def _decide_limited(self, waiter: Waiter, block: Block) -> Stays | GoesBack:
        if waiter.of_queue > _most_of_queue(waiter, block):
            return self._away(waiter, block, is_too_much=True)
        held_s = self._held_s(waiter)
        if block.retry_in_s > held_s:
            return self._away(waiter, block)
        if waiter.of_limit > _most_of_limit(waiter, block):
            if waiter.waited_s <= _MOMENT_S:
                return Stays(is_surplus=True)
            return self._away(waiter, block, is_too_much=True)
        return Stays() if waiter.waited_s <= held_s else self._away(waiter, block)

    def _held_s(self, waiter: Waiter) -> float:
        """Return the time for which a message is held, in seconds."""
        if waiter.block is None and waiter.is_known and waiter.receives == 1:
            return self._unit_s
        first = _LONGER * _COSTLY if waiter.block is not None and waiter.is_costly else _LONGER
        return self._unit_s * min(_LONGEST, first + _GROWTH * waiter.returns)

    def _away(self, waiter: Waiter, block: Block, *, is_too_much: bool = False) -> GoesBack:
        """Send the message away for as long as its limit says, and for longer if it is too much."""
        least_s = self._unit_s
        if is_too_much:
            first_s = self._unit_s * (_LONGER if waiter.is_costly else 1)
            longest_s = _LONGEST_AWAY_S / (1 + block.startable_soon)
            away_s = first_s * _LONGER_AWAY ** min(waiter.returns, _RETURNS)
            least_s = max(least_s, min(away_s, longest_s))
        return self._away_for(max(least_s, min(block.retry_in_s, _LONGEST_SAID_S)))

    def _away_for(self, away_s: float) -> GoesBack:
        jitter_s = self._rng.randint(0, max(1, int(away_s * _JITTER)))
        return GoesBack(math.ceil(away_s) + jitter_s)


def _most_of_limit(waiter: Waiter, block: Block) -> int:
    """Return the number of messages of a queue to hold for a limit."""
    more = _COSTLY if waiter.is_costly else 1
    return max(_OF_LIMIT, block.places) * more + _started_ahead(block)


def _most_of_queue(waiter: Waiter, block: Block) -> int:
    """Return the number of limited messages of a queue to hold, as though all keys had one pace."""
    at_least = _OF_LIMIT * min(waiter.limits - 1, _LIMITS)
    return _OF_QUEUE + at_least + waiter.limits * _started_ahead(block)


def _started_ahead(block: Block) -> int:
    """Return the number of messages that a limit will let start within `_AHEAD_S`."""
    return math.ceil(block.startable_soon * _AHEAD_S)
