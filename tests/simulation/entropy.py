"""Chance by seed: whatever asks the machine for randomness, or for the time, gets it from a seed.

What the code under test draws (job ids, claim names, jitter without a seed of its own) comes from
`os.urandom` or from a `random.Random` made without a seed. Both are replaced at their root, so that
no new use of either can make a life that can't be repeated.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from unittest import mock

from headgate.jobs.core.clock import SystemClock
from headgate.jobs.messages.envelope import new_job_id


class WallClockRead(AssertionError):
    """Something asked for the machine's own time, which no two runs have in common."""


def stream(seed: int, *names: object) -> random.Random:
    """A source of chance of its own for each purpose: what one draws changes no other's."""
    return random.Random("/".join(map(str, (seed, *names))))  # noqa: S311 - a simulation


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let all chance come from a seed, and nobody read the wall clock."""
    source = stream(seed, "entropy")
    real = random.Random

    # A class that is in a variable, since its name is about to be taken.
    class Seeded(real):  # type: ignore[misc, valid-type]
        """`random.Random`, whose default seed is drawn from the life's own."""

        def __init__(self, x: object = None) -> None:
            super().__init__(source.getrandbits(64) if x is None else x)

    def urandom(size: int) -> bytes:
        return source.randbytes(size)

    def refuse(_clock: SystemClock) -> datetime:
        raise WallClockRead("the system's clock was read in a simulated life")

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(random, "Random", Seeded))
        patches.enter_context(mock.patch.object(random, "_urandom", urandom))
        patches.enter_context(mock.patch.object(os, "urandom", urandom))
        patches.enter_context(mock.patch.object(SystemClock, "now", refuse))
        patches.enter_context(mock.patch.object(SystemClock, "monotonic", refuse))
        patches.enter_context(mock.patch.object(new_job_id, "_last_ms", -1))
        yield
