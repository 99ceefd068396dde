"""The delays of messages that an invocation had no time for."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from headgate.jobs.execution.delivery import Delivery
from headgate.lambdas.source import Line

MOST_S = 900
"""Longest delay, in seconds."""


def spread(
    lines: Sequence[Line], *, started: int, at_once: int, took_s: float, rng: random.Random
) -> list[tuple[Delivery, int]]:
    """Return each message of a surplus with its delay; see `away_s`.

    Only the first of a FIFO group is delayed, since the others come behind it.
    """
    unstarted = sum(map(len, lines))
    returns: list[tuple[Delivery, int]] = []
    for line in filter(None, lines):
        delay_s = away_s(
            unstarted=unstarted, started=started, at_once=at_once, took_s=took_s, rng=rng
        )
        returns += ((delivery, 0 if at else delay_s) for at, delivery in enumerate(line))
    return returns


def away_s(*, unstarted: int, started: int, at_once: int, took_s: float, rng: random.Random) -> int:
    """Return the delay of one message of a surplus, in seconds, at least 1.

    The surplus comes back about as fast as the function runs jobs: spread over the time that it
    would take in invocations like this one.

    Args:
        unstarted: number of messages that go back, including this one.
        started: number of jobs that this invocation had time for.
        at_once: number of jobs that it runs side by side, and could therefore at least start.
        took_s: seconds until it started no more jobs.
        rng: draws the place within the spread.
    """
    rounds = unstarted / max(started, min(at_once, unstarted))
    spread_s = min(math.ceil(took_s * rounds), MOST_S)
    return rng.randint(1, max(1, spread_s))
