"""Seeded randomness: the machine's sources of randomness and of time are replaced.

The randomness of the code under test (job ids, claim names, jitter without a seed of its own) comes
from `os.urandom` or from a `random.Random` made without a seed. Both are replaced at their root, so
that no new use of either can make a life irreproducible.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from unittest import mock

from headgate.jobs.core.clock import SystemClock
from headgate.jobs.messages.job_ids import new_job_id


class WallClockRead(AssertionError):
    """The machine's own time was read, which differs between runs."""


def stream(seed: int, *names: object) -> random.Random:
    """Return a source of randomness for one purpose, independent of all others."""
    return random.Random("/".join(map(str, (seed, *names))))  # noqa: S311 - a simulation


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw all randomness from a seed, and forbid reading the wall clock."""
    source = stream(seed, "entropy")
    real = random.Random

    # By way of a variable, since the class's own name is about to be replaced.
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
