"""Retries of a call to AWS: the failures that are retried, and the pauses before each try.

The pauses are those of AWS's SDKs since 2026, so that one failed request among many costs next to
nothing, and throttling still gets its time:
https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headgate.jobs.aws.connections.faults import FOREIGN, fault
from headgate.jobs.errors import Throttled

T = TypeVar("T")

_BASE_S, _THROTTLED_BASE_S = 0.05, 1.0
_LONGEST_S = 20.0


def pause_s(error: Exception, tries: int, rng: random.Random) -> float | None:
    """Return the seconds until a call that failed ``tries`` times is repeated; None for never.

    Doubles with each try, with full jitter, from 50 ms, or from one second if AWS throttles.
    """
    known = fault(error, action="", target="")
    if not known.transient:
        return None
    base_s = _THROTTLED_BASE_S if isinstance(known, Throttled) else _BASE_S
    return rng.random() * min(base_s * 2.0 ** (tries - 1), _LONGEST_S)


async def tried(
    call: Callable[[], Awaitable[T]],
    *,
    attempts: int,
    pause: Callable[[float], Awaitable[None]],
    rng: random.Random,
) -> T:
    """Make a call up to ``attempts`` times, as long as its failures are transient."""
    for tries in range(1, attempts):
        try:
            return await call()
        except FOREIGN as error:
            if (wait_s := pause_s(error, tries, rng)) is None:
                raise
        await pause(wait_s)
    return await call()
