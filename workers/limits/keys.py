"""Keys, by which a limit counts jobs separately, and costs, by which it counts some as several."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from headgate.jobs.core.limits import LimitKey, RateLimit
from headgate.jobs.execution.delivery import Job
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import legible
from headgate.workers.limits.meters import TokenCost

KeyOf = Callable[[Job], str | None]
"""Returns the key of a job; None if the limit does not apply to it."""

CostOf = Callable[[Job], TokenCost]
"""Returns the tokens that a job's start takes of a limit."""

_log = OwnLog("headgate.worker")

_FAULTY = "?"
"""The key of all jobs for which the key function fails."""

_HASHED = 12
"""Characters of a key's hash in events: enough to tell the keys of one limit apart."""

_LONGEST_KEY = 256
"""Maximum characters of a key; with the limit's name far below DynamoDB's 2 KB for its own keys.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html"""


def key_of(limit: str, key: LimitKey) -> KeyOf:
    """Return the function that reads a limit's key off a job.

    Args:
        limit: the limit's name, for the log.
        key: the key as its user declared it.
    """
    if key is None:
        return one_key
    return _of_tenant if key == "tenant" else _PayloadKey(limit, key)


def named_key(declared: LimitKey, key: str) -> str | None:
    """Return a key as events show it: a tenant by its name, and what comes from a payload hashed.

    Args:
        declared: the limit's key as its user declared it.
        key: the key of a job, as `key_of` returns it.
    """
    if declared is None:
        return None
    return key if declared == "tenant" else hashlib.sha256(key.encode()).hexdigest()[:_HASHED]


def cost_of(limit: str, rate: RateLimit) -> CostOf | None:
    """Return the function that reads a job's cost off it; None if every job costs one token.

    Args:
        limit: the limit's name, for the log.
        rate: the limit as its user declared it.
    """
    return None if rate.cost == 1 else _PayloadCost(limit, rate)


def one_key(job: Job) -> str:
    """Return the key of a limit that counts all jobs together."""
    del job
    return ""


def _of_tenant(job: Job) -> str | None:
    return _nameable(job.envelope.tenant.org) if job.envelope.tenant else None


class _PayloadKey:
    """A key that the users' own function makes of a payload."""

    def __init__(self, limit: str, of_payload: Callable[[Any], str | None]) -> None:
        self._limit = limit
        self._of_payload = of_payload
        self._is_told = False
        """True once a failure of the function has been logged."""

    def __call__(self, job: Job) -> str | None:
        try:
            key = self._of_payload(job.payload)
            return None if key is None else _nameable(str(key))
        except Exception as error:  # noqa: BLE001 - the users' code; the job must not be lost for it
            if not self._is_told:
                self._is_told = True
                _log.error(
                    "the key function of %s failed for a job of type %s with %s; such jobs "
                    "share one key",
                    self._limit,
                    job.type.name,
                    type(error).__name__,  # its text may show the payload
                )
            return _FAULTY


class _PayloadCost:
    """A cost, mostly made of a payload by the users' own function.

    A job must not wait for ever: one that costs more than the limit has takes all of it, and one
    whose cost can't be told takes one token. Such submissions are refused, but a limit may be
    lowered while jobs wait, and nothing checks the messages of other senders.
    """

    def __init__(self, limit: str, rate: RateLimit) -> None:
        self._limit = limit
        self._rate = rate
        self._told: set[str] = set()
        """The faults that have been logged."""

    def __call__(self, job: Job) -> TokenCost:
        return TokenCost(self._tokens(job), job.envelope.priority.rank)

    def _tokens(self, job: Job) -> int:
        most = self._rate.limit
        try:
            cost = self._rate.cost_of(job.payload)
        except Exception as error:  # noqa: BLE001 - the users' code; the job must not be lost for it
            # Only the error's class: its text may show the payload.
            self._tell(job, f"failed with {type(error).__name__}", "take one token")
            return 1
        if cost > most:
            self._tell(job, f"returned more than {most}", "take all tokens")
        return min(cost, most)

    def _tell(self, job: Job, fault: str, effect: str) -> None:
        if fault not in self._told:
            self._told.add(fault)
            _log.error(
                "the cost function of %s %s for a job of type %s; such jobs %s",
                self._limit,
                fault,
                job.type.name,
                effect,
            )


def _nameable(key: str) -> str:
    """Return a key, or its hash if it is too long or not legible enough to name a lease.

    Keys come from payloads, and the table would reject an unsuitable one on every request.
    """
    if legible(key, _LONGEST_KEY) == key:
        return key
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
