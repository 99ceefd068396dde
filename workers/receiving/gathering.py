"""Pauses in which messages gather in a queue, so that one receive brings several.

A long poll returns with the first message. Where messages come one by one, each of them takes a
receive of its own, unless the next one begins a moment later.

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

from headgate.jobs.core.topology import MAX_BATCH


class Gathering:
    """The pauses between the receives from one queue.

    None follows a receive that brought as many messages as it asked for, since more wait already.
    Nor does one follow another that took longer than a pause: its messages come too seldom for
    others to gather.

    Args:
        pause_s: the seconds of a pause; 0 for none.
    """

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._is_due = False
        self._since = 0
        """Number of messages since the last pause."""
        self._usual = 0
        """Number of messages between the last two pauses; 0 if they come too seldom for any."""

    @property
    def is_usual(self) -> bool:
        """True unless there are many more messages than gather in a pause, so that a backlog must
        have come."""
        return self._since <= 2 * self._usual

    def brought(self, count: int, *, took_s: float, full: bool) -> None:
        """Note that a receive has returned ``count`` messages.

        Args:
            count: the number of messages.
            took_s: the seconds that it took.
            full: True if it brought as many as it asked for.
        """
        self._since += count
        # One that is full had nothing to wait for: it is SQS that is far away.
        is_seldom = not count or (took_s > self._pause_s and not full)
        self._is_due = not is_seldom and not full
        if is_seldom:
            self._since = self._usual = 0

    def pause_s(self) -> float:
        """Begin a pause if one is due; return its seconds, or 0."""
        if not self._is_due:
            return 0.0
        self._usual = min(self._since, 2 * self._usual + MAX_BATCH)  # a backlog is no measure
        self._is_due, self._since = False, 0
        return self._pause_s
