"""The pace of receives from a queue that returns only messages that can't start.

A queue may have thousands of messages that a limit holds back, and among them some that could
start. Receiving goes on, so that those are found, but with pauses that grow while each receive is
in vain: all its messages are held back, and enough of them are held for their limit already.

Pure: it knows no clock and no event loop. Moments are in seconds on a monotonic clock.
"""

from __future__ import annotations

from headgate.jobs.core.topology import Priority

_PAUSES_S = {Priority.CRITICAL: 0.25}
_PAUSE_S = 1.0
"""The longest pause between two receives; for critical queues it is shorter."""

_DOUBLINGS = 4
"""Number of receives in vain until the pauses are at their longest."""


class Pace:
    """The pauses between receives from one queue.

    Args:
        priority: the queue's priority.
    """

    def __init__(self, priority: Priority) -> None:
        self._longest_s = _PAUSES_S.get(priority, _PAUSE_S)
        self._times = 0
        self.is_in_vain = False
        """True if all messages of the last receive were in vain."""
        self._left = 0
        """Number of messages of the last receive that were not in vain, as far as is known."""
        self._until = float("-inf")

    def brought(self, count: int) -> None:
        """Note that a receive has returned ``count`` messages."""
        if self._left or not count:
            self._times, self.is_in_vain = 0, False
        self._left = count

    def in_vain(self, count: int, now: float) -> float:
        """Note that ``count`` of them were in vain; return the pause that follows, 0 if none."""
        before, self._left = self._left, max(0, self._left - count)
        if self._left or not before:
            return 0.0
        doublings = min(self._times, _DOUBLINGS) - _DOUBLINGS
        self._times, self.is_in_vain = self._times + 1, True
        pause_s = self._longest_s * 2.0**doublings
        self._until = now + pause_s
        return pause_s

    def is_pausing(self, now: float) -> bool:
        """Return True if the next receive has to wait."""
        return now < self._until
