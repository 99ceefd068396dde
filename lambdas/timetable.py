"""The timetable of an invocation.

    0                    the invocation begins; jobs start as slots come free
    T - 3 s              no job starts any more; running ones are interrupted and given back,
                         or have failed if they had nearly all the time since 0
    T - 2 s              jobs that still run are abandoned; if they could be cancelled, their
                         attempts have failed
    T - 1 s              requests that SQS has not answered are given up
    T - 0.75 s           the function answers, whichever jobs have ended by then
    T                    Lambda would kill the function, and deliver the whole batch again

T is the function's timeout.
"""

from __future__ import annotations

import asyncio
import math
from typing import Self

from headgate.jobs.deployment.groups.consumer_group import GIVE_BACK
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass

MARGIN_S = GIVE_BACK.total_seconds()
"""Seconds before the function's timeout at which jobs are interrupted, to answer in time."""

START_S = 1.0
"""Seconds that a job needs at least to start, or its own timeout if that is shorter."""

LEAST_S = MARGIN_S + START_S + 0.5
"""Seconds that an invocation needs at least; half a second is for getting to the first job."""

_ABANDON_S = 2.0
_SETTLED_S = 1.0
_ANSWER_S = 0.75


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """The times of an invocation's steps, on the event loop's time."""

    began_at: float
    interrupt_at: float
    abandon_at: float
    settled_at: float
    answer_at: float

    @classmethod
    def within(cls, left_s: float) -> Self:
        """Return the timetable of an invocation that begins now, and may take ``left_s``.

        Raises:
            ConfigurationError: no job could start in that time.
        """
        if left_s < LEAST_S:
            # Giving the whole batch back at once would repeat for ever.
            raise ConfigurationError(
                f"the function has {left_s:.1f} s, of which the last {MARGIN_S:g} are for giving "
                f"jobs back: set its timeout to at least {math.ceil(LEAST_S)} s, or more if its "
                "longest job needs it"
            )
        now = asyncio.get_running_loop().time()
        end = now + left_s
        return cls(
            began_at=now,
            interrupt_at=end - MARGIN_S,
            abandon_at=end - _ABANDON_S,
            settled_at=end - _SETTLED_S,
            answer_at=end - _ANSWER_S,
        )

    def left_s(self) -> float:
        """Return the seconds until jobs are interrupted."""
        return max(0.0, self.interrupt_at - asyncio.get_running_loop().time())

    def lets_start(self, needed_s: float) -> bool:
        """Return True if a job that needs at least ``needed_s`` may still start."""
        return asyncio.get_running_loop().time() + needed_s <= self.interrupt_at
