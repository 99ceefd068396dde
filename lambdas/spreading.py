"""When messages that an invocation had no time for are seen again."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from headgate.jobs.execution.delivery import Delivery
from headgate.lambdas.source import Line

MOST_S = 900
"""The longest that one stays away."""


def spread(
    lines: Sequence[Line], *, started: int, at_once: int, took_s: float, rng: random.Random
) -> list[tuple[Delivery, int]]:
    """Each message of a surplus with its delay; see `away_s`. A group comes when its first does."""
    unstarted = sum(map(len, lines))
    returns: list[tuple[Delivery, int]] = []
    for line in lines:
        delay_s = away_s(
            unstarted=unstarted, started=started, at_once=at_once, took_s=took_s, rng=rng
        )
        returns += ((delivery, 0 if at else delay_s) for at, delivery in enumerate(line))
    return returns


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
