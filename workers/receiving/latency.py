"""The usual time of a receive, from those that had no need to wait for messages.

Pure: it knows no clock and no event loop. Moments are in seconds on a monotonic clock.
"""

from __future__ import annotations

import math

_LEAST_S = 0.001

_GUESS_S = 0.01
"""The latency that is assumed until a receive has been measured."""

_FASTER, _SLOWER = 0.3, 0.05
"""Weights of receives that took less and more than usual. Some receives wait at an empty queue
first, or for a busy event loop, which is no latency."""


class Latency:
    """The usual time of a receive, smoothed."""

    def __init__(self) -> None:
        self.seconds = _GUESS_S
        self._slower_since = -math.inf

    def add(self, began: float, ended: float) -> None:
        """Count a receive.

        Of receives that were under way together at most one raises the latency: what has delayed
        one, such as a server that stood still for a moment, has delayed all of them.
        """
        took_s = min(ended - began, 2 * self.seconds)
        if took_s <= self.seconds:
            weight = _FASTER
        elif began >= self._slower_since:
            weight, self._slower_since = _SLOWER, ended
        else:
            return
        self.seconds = max(_LEAST_S, self.seconds + weight * (took_s - self.seconds))
