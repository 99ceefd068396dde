"""Guards: one per limit, composed of a key and of a meter for each of the key's values."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from headgate.jobs.execution.delivery import Job
from headgate.jobs.execution.outcome import Crashed, Done, Failed, Outcome
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.workers.limits.keys import CostOf, KeyOf, one_key
from headgate.workers.limits.meters import ONE, Ending, Meter

_FORGOTTEN_AT_ONCE = 2
"""Number of meters looked at when a key is new: as those that count nothing are forgotten, there
are about as many as keys in use."""


@light_dataclass(frozen=True, slots=True)
class Block:
    """A limit, or something like one, that holds a job back."""

    limit: str
    """Its name, as in `jobs.core.events.LimitEvent`, with the key if it counts by key."""
    retry_in_s: float
    """Seconds until it is worth asking again; a guess if that depends on other jobs."""
    places: int
    """Number of jobs that it lets run at once, or start in its window."""
    startable_soon: float = 0.0
    """Number of jobs that it will let start within about a second."""


@dataclass(slots=True)
class Passage:
    """A job's way through one guard."""

    limit: str
    """The guard's name, with the job's key."""
    meter: Meter
    taken: object

    def end(self, ending: Ending, now: float) -> str | None:
        """Give back what the job took.

        Returns:
            the name of the limit that may let another job start for it, or None.
        """
        return self.limit if self.meter.end(self.taken, ending, now) else None


class Guard:
    """One limit.

    Args:
        name: its name.
        key: returns the key of a job, by which jobs are counted separately.
        meter: makes the meter of one key, given the limit's name with it.
        cost: returns the tokens that a job's start takes; None if every start takes one.
    """

    def __init__(
        self, name: str, key: KeyOf, meter: Callable[[str], Meter], cost: CostOf | None = None
    ) -> None:
        self.name = name
        self._key = key
        self._cost = cost
        self._make = meter
        self._meters: OrderedDict[str, Meter] = OrderedDict()
        """By the limit's name with the key, the meter."""
        self.is_keyed = key is not one_key
        if not self.is_keyed:
            self._meters[name] = meter(name)

    def block(self, job: Job, now: float) -> Block | None:
        """Return what holds a job back, or None if it may start now."""
        if (limit := self._limit_of(job)) is None:
            return None
        meter = self._meter(limit, now)
        wait_s = meter.wait_s(now, ONE if self._cost is None else self._cost(job))
        if wait_s <= 0:
            return None
        return Block(limit, wait_s, meter.places, max(0.0, meter.ahead(now)))

    def ahead(self, now: float) -> float:
        """Return how many jobs it would let start within about a second.

        Infinite with a key: where one value lets no job start another may.
        """
        return math.inf if self.is_keyed else self._meters[self.name].ahead(now)

    def start(self, job: Job, now: float) -> Passage | None:
        """Take what a starting job needs; None if the limit does not apply to it."""
        if (limit := self._limit_of(job)) is None:
            return None
        meter = self._meter(limit, now)
        cost = ONE if self._cost is None else self._cost(job)
        return Passage(limit, meter, meter.start(now, cost))

    def in_use(self, limit: str, now: float) -> int:
        """Return the number of tokens that are out under that name."""
        meter = self._meters.get(limit)
        return 0 if meter is None else meter.in_use(now)

    def _limit_of(self, job: Job) -> str | None:
        key = self._key(job)
        if not key:
            return None if key is None else self.name
        return f"{self.name}#{key}"

    def _meter(self, limit: str, now: float) -> Meter:
        if (meter := self._meters.get(limit)) is None:
            self._forget_idle(now)
            meter = self._meters[limit] = self._make(limit)
        return meter

    def _forget_idle(self, now: float) -> None:
        """Forget some meters that count nothing, so that keys of the past take no memory."""
        for _ in range(min(_FORGOTTEN_AT_ONCE, len(self._meters))):
            limit, meter = self._meters.popitem(last=False)
            if not meter.is_idle(now):
                self._meters[limit] = meter


def ending_of(outcome: Outcome, *, retryable: bool) -> Ending:
    """Judge an outcome; a failure that no retry can fix means that the dependencies answered."""
    match outcome:
        case Done():
            return Ending.SUCCESS
        case Failed():
            return Ending.FAILURE if retryable else Ending.SUCCESS
        case Crashed():
            return Ending.FAILURE
        case _:
            return Ending.NOTHING
