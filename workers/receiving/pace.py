"""The pace of receives from a queue that brings only what may not start.

A queue may have thousands of messages that a limit holds back, and among them some that could
start. Receiving goes on, so that those are found, but with pauses that grow as long as each receive
is in vain: all that it brought is held back, and more than enough of its kind is held already.

Pure: it knows no clock and no event loop. Moments are in seconds on a monotonic clock.
"""

from __future__ import annotations

from headgate.jobs.core.topology import Priority

_PAUSES_S = {Priority.CRITICAL: 0.25}
_PAUSE_S = 1.0
"""The longest pause between two receives; for critical queues it is shorter."""

_DOUBLINGS = 4
"""So many receives in vain until the pauses are at their longest."""


class Pace:
    """When one queue may be received from again.

    Args:
        priority: the queue's.
    """

    def __init__(self, priority: Priority) -> None:
        self._longest_s = _PAUSES_S.get(priority, _PAUSE_S)
        self._times = 0
        self.is_in_vain = False
        """All that the last receive brought was in vain."""
        self._left = 0
        """What the last receive brought that was not in vain, for all that is known."""
        self._until = float("-inf")

    def brought(self, count: int) -> None:
        """A receive has returned with so many messages."""
        if self._left or not count:
            self._times, self.is_in_vain = 0, False
        self._left = count

    def in_vain(self, count: int, now: float) -> float:
        """So many were; returns how long the pause is that follows, 0 if none."""
        before, self._left = self._left, max(0, self._left - count)
        if self._left or not before:
            return 0.0
        doublings = min(self._times, _DOUBLINGS) - _DOUBLINGS
        self._times, self.is_in_vain = self._times + 1, True
        pause_s = self._longest_s * 2.0**doublings
        self._until = now + pause_s
        return pause_s

    def is_pausing(self, now: float) -> bool:
        """Whether the next receive has to wait."""
        return now < self._until
