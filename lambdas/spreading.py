"""When messages that an invocation had no time for are seen again."""

from __future__ import annotations

import math
import random

MOST_S = 900
"""The longest that one stays away."""


def away_s(*, unstarted: int, started: int, at_once: int, took_s: float, rng: random.Random) -> int:
    """The delay of one message of a surplus, in seconds, at least 1.

    The surplus comes back about as fast as the function runs jobs: spread over the time that as
    many invocations like this one would take.

    Args:
        unstarted: messages that go back, this one included.
        started: jobs that this invocation had time for.
        at_once: how many it runs side by side; that many it could start at the least.
        took_s: how long it went on before it started no more.
        rng: draws the place within the spread.
    """
    rounds = unstarted / max(started, min(at_once, unstarted))
    spread_s = min(math.ceil(took_s * rounds), MOST_S)
    return rng.randint(1, max(1, spread_s))
