"""The pace of a replay: when each of its jobs is to start, and how far ahead of that it is sent.

SQS delays a message by up to 15 minutes, and counts a delayed message like any other. So a job may
be sent before it is due, and nothing has to wait for it. But what SQS has can't be taken back: a
replay that is to stop when its jobs die again sends them no more than `AHEAD_S` before they are
due. All others stay in their dead-letter queue, where they are as safe as before. A one-time
schedule for each would cost 1 USD a million and one request each, and could not be taken back by
the thousand either.
"""

from __future__ import annotations

import math
import random

from headgate.jobs.core.topology import MAX_BATCH

AHEAD_S = 30.0
"""Seconds by which a job is sent before it is due, if the replay may stop of itself."""

LATE_S = 1.0
"""Seconds by which jobs may be late and are still made up for."""

MAX_AHEAD_S = 900.0
"""The same, if it may not: SQS's longest delay."""


class ReplayPace:
    """Says when the jobs of one process's replay are due, on its monotonic clock.

    Time that was lost, by waiting for a canary or for SQS, is not made up for: the jobs that were
    due meanwhile would come all at once. They come later, at the same pace.

    Args:
        interval_s: seconds between two jobs on average; 0 for all at once.
        jitter: place each job at random within its interval, instead of at its start.
        ahead_s: seconds by which a job may be sent before it is due.
        now: the start.
        rng: places the jobs.
    """

    def __init__(
        self, interval_s: float, *, jitter: bool, ahead_s: float, now: float, rng: random.Random
    ) -> None:
        self._interval_s = interval_s
        self._jitter = jitter
        self._ahead_s = ahead_s
        self._start = now
        self._rng = rng
        self._taken = 0
        self._place = self._placed()
        """The next job's place within its interval, 0 to 1: known before it is taken, since a job
        that is due later than SQS can delay it is not taken yet."""

    def wait_s(self, now: float) -> float:
        """Return the seconds to wait before the next letters are taken: a request's worth of them,
        unless the next one would be late."""
        if not self._interval_s:
            return 0.0
        filled = self._next(self._taken + MAX_BATCH - 1) - self._ahead_s
        late = self._due - self._ahead_s / 2
        return max(0.0, min(filled, late) - now)

    def room(self, now: float, most: int | None) -> int | None:
        """Return the number of letters to take now, at most ``most``; None for no limit."""
        if not self._interval_s:
            return most
        self._move_on(now)
        within = (now + self._ahead_s - self._next(self._taken)) / self._interval_s
        # With jitter, the last one may be due as late as the end of its interval.
        room = max(1, math.floor(within) + (not self._jitter))
        return room if most is None else min(most, room)

    def delay_s(self, now: float) -> float:
        """Take the next job's turn; return the seconds until it is due, 0 if that has passed."""
        self._move_on(now)
        due = self._due
        self._taken += 1
        self._place = self._placed()
        return max(0.0, due - now) if self._interval_s else 0.0

    def _move_on(self, now: float) -> None:
        """Let all jobs be due later if the next one is late."""
        if (late_s := now - self._due) > LATE_S:
            self._start += late_s

    @property
    def _due(self) -> float:
        return self._next(self._taken + self._place)

    def _placed(self) -> float:
        return self._rng.random() if self._jitter else 0.0

    def _next(self, turn: float) -> float:
        return self._start + turn * self._interval_s
