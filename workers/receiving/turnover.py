"""The number of jobs that end soon, from those that have ended lately.

Pure: it knows no clock and no event loop. Moments are in seconds on a monotonic clock.
"""

from __future__ import annotations

import math

TURNOVER_S = 1.0
"""The window over which the rate is averaged."""

_BURST_S = 0.1
"""A second, shorter window: after an idle time a backlog is noticed in it at once."""

_GRAIN_S = _BURST_S / 100
"""Time within which jobs count as having ended together: the averages need not be worked out anew
for each."""


class Turnover:
    """The number of jobs that end in a time, by averages over a long and a short window.

    Args:
        now: the present moment.
    """

    def __init__(self, now: float) -> None:
        self._at = now
        self._lasting = 0.0
        self._burst = 0.0

    def add(self, now: float) -> None:
        """Count a job that has ended."""
        if now - self._at >= _GRAIN_S:
            self._decay(now)
        self._lasting += 1 / TURNOVER_S
        self._burst += 1 / _BURST_S

    def within(self, seconds: float, now: float) -> float:
        """Return the number of jobs that will end within that time, if it goes on like this.

        A burst is taken to last as long as its window.
        """
        if now - self._at >= _GRAIN_S:
            self._decay(now)
        return max(self._lasting * seconds, self._burst * min(seconds, _BURST_S))

    def _decay(self, now: float) -> None:
        self._lasting *= math.exp((self._at - now) / TURNOVER_S)
        self._burst *= math.exp((self._at - now) / _BURST_S)
        self._at = now
