"""The number of messages to expect from a queue, from what the last receives from others brought.

Many queues get room by turns, ten messages each. Where those that had it are empty, less is
expected of the others, and so more of them have room at once. Otherwise a queue with work would
wait until all empty ones before it are known to be empty, each as long as an answer may take.

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

from collections import Counter

from headgate.jobs.core.topology import MAX_BATCH
from headgate.workers.dispatch.shares import Peers


class Guesses:
    """A guess for each kind of queues: those of one priority with equal shares."""

    def __init__(self) -> None:
        self._silences: Counter[Peers] = Counter()
        """Number of receives that were expected to bring messages, and brought none or none soon,
        since one that brought any."""

    def of(self, peers: Peers) -> int:
        """Return the most to expect from one receive, 1 to 10."""
        return max(1, MAX_BATCH >> self._silences[peers])

    def is_full(self, peers: Peers) -> bool:
        """Return True unless the last receives brought less than they were expected to."""
        return not self._silences[peers]

    def brought(self, peers: Peers) -> None:
        """Note that a receive has returned messages."""
        self._silences[peers] = 0

    def silent(self, peers: Peers) -> None:
        """Note that a receive has brought none of the messages expected from it."""
        self._silences[peers] += 1
