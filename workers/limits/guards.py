"""Guards, each enforcing one limit: the check before a job starts, and the tokens it takes."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from headgate.jobs.core.limits import Concurrency
from headgate.jobs.execution.delivery import Job
from headgate.jobs.execution.outcome import Crashed, Done, Failed, Outcome
from headgate.jobs.values.texts import legible
from headgate.workers.limits.circuit_breaker import Circuit, Ending
from headgate.workers.limits.lease import RENEW_S, Lease
from headgate.workers.limits.token_bucket import Endings, Window

LeaseOf = Callable[[str], Lease]
"""Returns the lease of a fleet limit by its name; made on the first call."""

_log = logging.getLogger("headgate.worker")

_FAULTY = "?"

_LONGEST_KEY = 256
"""Maximum characters of a key; with the limit's name far below DynamoDB's 2 KB for its own keys.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html"""

GUESS_S = 1.0
"""Seconds until it is worth asking again about jobs that may have ended."""


@dataclass(frozen=True, slots=True)
class Block:
    """The limit that holds a job back."""

    limit: str
    """Its name, as in `jobs.core.events.LimitEvent`, with the key if it counts by key."""
    retry_in_s: float
    """Seconds until it is worth asking again; a guess if that depends on other jobs."""
    places: int
    """Number of jobs that it lets run at once, or start in its window."""


class Guard(Protocol):
    """A limit that has to let a job through."""

    name: str

    def block(self, job: Job, now: float) -> Block | None:
        """Return what holds a job back, or None if it may start now."""
        ...

    def ahead(self, now: float) -> float:
        """Return how many jobs it would let start within about a second."""
        ...

    def soon(self, limit: str, now: float) -> float:
        """Return the same for only the jobs that it holds back under the name ``limit``."""
        ...

    def start(self, job: Job, now: float) -> object:
        """Take what a starting job needs; return it for `end`."""
        ...

    def end(self, taken: object, outcome: Outcome, *, retryable: bool, now: float) -> str | None:
        """Give back what a job that has ended took.

        Returns:
            the name under which it may let another job start now; None if it lets no more start.
        """
        ...


class RateGuard:
    """Bounds the number of starts in a period."""

    def __init__(self, name: str, window: Window, lease: Lease | None) -> None:
        self.name = name
        self.window = window
        self._lease = lease

    def block(self, job: Job, now: float) -> Block | None:
        """Return a block that lasts until a token is back, or None."""
        del job
        wait_s = self.window.wait_s(now)
        if self._lease is not None:
            self._lease.ask(enough=wait_s == 0)
            wait_s = min(wait_s, RENEW_S)
        return Block(self.name, wait_s, self.window.capacity) if wait_s > 0 else None

    def ahead(self, now: float) -> float:
        """Return the number of tokens that are free, or will be within a second."""
        ahead = self.window.ahead(now)
        if self._lease is not None:
            self._lease.ask(enough=ahead >= 1)
        return ahead

    def soon(self, limit: str, now: float) -> float:
        """Return the same as `ahead`."""
        del limit
        return self.ahead(now)

    def start(self, job: Job, now: float) -> object:
        """Take a token."""
        del job
        self.window.take(now)
        return None

    def end(self, taken: object, outcome: Outcome, *, retryable: bool, now: float) -> None:
        """Do nothing: the token comes back after its period."""


class SlotGuard:
    """Bounds the number of jobs that run at once, in total or by key."""

    def __init__(self, name: str, concurrency: Concurrency, lease_of: LeaseOf | None) -> None:
        self.name = name
        self._limit = concurrency.limit
        self._key = concurrency.key
        self._lease_of = lease_of
        self._running: Counter[str] = Counter()
        self._endings = Endings()
        self._is_told = False
        """True once a failure of the key function has been logged."""

    def block(self, job: Job, now: float) -> Block | None:
        """Return a block whose duration is a guess, or None: the ends of jobs are unknown."""
        del now
        key = self._key_of(job)
        if key is None or self._free(key) > 0:
            return None
        return Block(self._named(key), GUESS_S, self._limit)

    def ahead(self, now: float) -> float:
        """Return the free slots plus those freed in the last second, as an estimate of the next."""
        if self._key is not None:
            return float("inf")  # where one key has no free slot another may have one
        return self._free("") + self._endings.count(now)

    def soon(self, limit: str, now: float) -> float:
        """Return the same as `ahead`, for one key."""
        key = self._key_in(limit)
        return self._free(key) + self._endings.count(now, key)

    def start(self, job: Job, now: float) -> object:
        """Take a slot of the job's key."""
        del now
        if (key := self._key_of(job)) is not None:
            self._running[key] += 1
        return key

    def end(self, taken: object, outcome: Outcome, *, retryable: bool, now: float) -> str | None:
        """Give the slot back, to another job of its key."""
        del outcome, retryable
        if not isinstance(taken, str):
            return None
        self._running[taken] -= 1
        if not self._running[taken]:
            del self._running[taken]
        self._endings.add(now, taken)
        return self._named(taken)

    def in_use(self, lease_name: str) -> int:
        """Return the number of slots taken of one lease."""
        return self._running.get(self._key_in(lease_name), 0)

    def _free(self, key: str) -> int:
        """Return the free slots of a key; negative if the lease has shrunk below those in use."""
        running = self._running.get(key, 0)
        if self._lease_of is None:
            return self._limit - running
        lease = self._lease_of(self._named(key))
        free = lease.tokens - running
        lease.ask(enough=free > 0)
        return free

    def _named(self, key: str) -> str:
        return f"{self.name}#{key}" if key else self.name

    def _key_in(self, name: str) -> str:
        return name.removeprefix(self.name).removeprefix("#")

    def _key_of(self, job: Job) -> str | None:
        match self._key:
            case None:
                return ""
            case "tenant":
                return _nameable(job.envelope.tenant.org) if job.envelope.tenant else None
            case of_payload:
                return self._asked(of_payload, job)

    def _asked(self, of_payload: Callable[[Any], str | None], job: Job) -> str | None:
        try:
            key = of_payload(job.payload)
            return None if key is None else _nameable(str(key))
        except Exception as error:  # noqa: BLE001 - the users' code; the job must not be lost for it
            if not self._is_told:
                self._is_told = True
                _log.error(
                    "the key of %s failed for a job of the type %s with %s: such jobs count as "
                    "one key",
                    self.name,
                    job.type.name,
                    type(error).__name__,  # its text may show the payload
                )
            return _FAULTY


def _nameable(key: str) -> str:
    """Return a key, or its hash if it is too long or not legible enough to name a lease.

    Keys come from payloads, and the table would reject an unsuitable one on every request.
    """
    if legible(key, _LONGEST_KEY) == key:
        return key
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


class BreakerGuard:
    """Lets no job start while its circuit is open."""

    def __init__(self, circuit: Circuit) -> None:
        self.name = circuit.name
        self._circuit = circuit

    def block(self, job: Job, now: float) -> Block | None:
        """Return a block that lasts until the breaker probes, or None."""
        del job
        wait_s = self._circuit.wait_s(now)
        return Block(self.name, wait_s, self._circuit.probes) if wait_s > 0 else None

    def ahead(self, now: float) -> float:
        """Return infinity while closed, 0 while open, or the number of probes left."""
        return self._circuit.ahead(now)

    def soon(self, limit: str, now: float) -> float:
        """Return the same as `ahead`."""
        del limit
        return self.ahead(now)

    def start(self, job: Job, now: float) -> object:
        """Let a job through."""
        del job
        return self._circuit.start(now)

    def end(self, taken: Any, outcome: Outcome, *, retryable: bool, now: float) -> str:
        """Count the outcome of a job, which may close the circuit."""
        self._circuit.end(taken, _ending(outcome, retryable=retryable), now)
        return self.name


def _ending(outcome: Outcome, *, retryable: bool) -> Ending:
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
