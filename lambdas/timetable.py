"""The time that an invocation has, and what has to happen when.

    0                    the invocation begins; jobs start as slots come free
    T - 3 s              nothing starts any more; what runs is interrupted and given back
    T - 2 s              what still runs is left alone, and its attempt has failed if it could be
                         cancelled
    T - 1 s              requests that SQS has not answered are given up
    T - 0.75 s           the answer, whatever has ended by then
    T                    Lambda would kill the function, and deliver all of it again

T is the function's timeout.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Self

from headgate.jobs.deployment.groups import GIVE_BACK
from headgate.jobs.errors import ConfigurationError

MARGIN_S = GIVE_BACK.total_seconds()
"""How long before the function's timeout jobs are interrupted, so that the answer is in time."""

START_S = 1.0
"""No job starts with less time than this, or than its own timeout if that is shorter."""

LEAST_S = MARGIN_S + START_S + 0.5
"""An invocation that has less is refused; half a second is for getting to the first job."""

_ABANDON_S = 2.0
_SETTLED_S = 1.0
_ANSWER_S = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """When what has to happen, on the event loop's time."""

    began_at: float
    interrupt_at: float
    abandon_at: float
    settled_at: float
    answer_at: float

    @classmethod
    def within(cls, left_s: float) -> Self:
        """Of an invocation that begins now, and may take so long.

        Raises:
            ConfigurationError: no job could start in that time.
        """
        if left_s < LEAST_S:
            # Giving all of it back at once would send it round for ever.
            raise ConfigurationError(
                f"the function has {left_s:.1f} s, of which the last {MARGIN_S:g} are for giving "
                f"jobs back: set its timeout to {math.ceil(LEAST_S)} s at the least, and to what "
                "its longest job needs besides"
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

    def lets_start(self, needed_s: float) -> bool:
        """Whether a job may still start that can't do with less than ``needed_s``."""
        return asyncio.get_running_loop().time() + needed_s <= self.interrupt_at
