"""Limits on how fast work may run, declared on the app, a queue group or a job type.

A job has to fit into the rate limits and the concurrency limits of all three. Of breakers and retry
budgets the most specific one applies: the type's, else the queue's, else the app's.

A job that is held back by a limit waits in its queue. Waiting costs no attempt, and messages that
could not start are not received.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY
from datetime import timedelta
from typing import Any, Literal, Self, TypedDict, get_args

from headgate.jobs.errors import ConfigurationError, SettingsInvalid, did_you_mean
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass
from headgate.jobs.values.texts import kind_of

Scope = Literal["worker", "fleet"]
"""``worker``: each worker process on its own. ``fleet``: all workers of the app together, by leases
in its table; a worker that can't reach the table runs nothing under such a limit."""

LimitKey = Literal["tenant"] | Callable[[Any], str | None] | None
"""Key by which a limit counts jobs separately: ``"tenant"`` is the organisation that a job was
submitted for, a function gets the payload. A job whose key is None is not limited. Without a key
(None, the default) all jobs are counted together."""

LimitCost = int | Callable[[Any], float]
"""The tokens that a job's start takes of a rate limit: a number, or a function of the payload."""

OnExhausted = Literal["wait", "dead-letter"]

LONGEST_LEASED = timedelta(hours=1)
"""The longest window of a fleet-wide limit: when a worker dies, its share is lost for up to this
time."""


@frozen_dataclass(frozen=True)
class RateLimit:
    """At most ``limit`` starts in any ``per``, seconds or a timedelta: ``RateLimit(20, per=1)``.

    A bucket of ``limit`` tokens. Each start takes one, which returns exactly ``per`` later, so the
    bound holds for every window of that length, wherever it begins. With ``key=`` there is a
    bucket for each tenant, or for each value that a function makes of the payload:
    ``RateLimit(20, key=lambda webhook: webhook.endpoint)``.

    ``cost`` has a start take several tokens, so that the limit counts what a job uses up:
    ``RateLimit(200_000, per=60, cost=lambda prompt: prompt.tokens)``. A fraction is rounded up, and
    a job that costs 0 is not limited. A submission whose cost exceeds ``limit`` is refused.

    Raises:
        SettingsInvalid: a value is out of range.
    """

    limit: int
    _: KW_ONLY
    per: DurationField = DurationField(1, positive=True)
    key: LimitKey = None
    cost: LimitCost = 1
    scope: Scope = "worker"

    def __post_init__(self) -> None:
        _check_count("RateLimit", "limit", self.limit)
        _check_key("RateLimit", self.key)
        _check_scope("RateLimit", self.scope, self.per)
        self._check_cost()

    def cost_of(self, payload: Any) -> int:
        """Return the tokens that a job takes, which may be more than there are.

        Raises:
            ValueError: the function's answer is no number, negative, or not finite.
            Exception: whatever the function raises.
        """
        if isinstance(self.cost, int):
            return self.cost
        cost: object = self.cost(payload)
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < math.inf:
            return math.ceil(cost)
        # Only its class: the number may come from the payload.
        raise ValueError(f"not a cost, but {kind_of(cost)}: return 0 or more, and finite")

    def _check_cost(self) -> None:
        if callable(self.cost):
            return
        _check_count("RateLimit", "cost", self.cost)
        if self.cost > self.limit:
            raise SettingsInvalid(
                f"RateLimit(cost=...) of {self.cost} is more than its limit of {self.limit}, so "
                "that no job could start: raise the limit, or lower the cost"
            )


@frozen_dataclass(frozen=True, slots=True)
class Concurrency:
    """At most ``limit`` jobs at once: ``Concurrency(5, key="tenant")``.

    Raises:
        SettingsInvalid: a value is out of range.
    """

    limit: int
    _: KW_ONLY
    key: LimitKey = None
    scope: Scope = "worker"

    def __post_init__(self) -> None:
        _check_count("Concurrency", "limit", self.limit)
        _check_key("Concurrency", self.key)
        _check_scope("Concurrency", self.scope)


@frozen_dataclass(frozen=True)
class RetryBudget:
    """At most ``limit`` retries of a queue group become due in each ``per``.

    In an outage everything fails and is retried; a budget keeps the retries from outweighing new
    work. ``per``, seconds or a timedelta, is counted in consecutive windows: by the worker's own
    clock or, with ``scope="fleet"``, by the time of day, so that all workers share the same ones.

    A fleet-wide budget counts each retry in the table before scheduling it, so it is never
    exceeded, even as workers start, stop or die. A worker makes one request for all the retries
    that it has to place at a time. While the table can't be reached retries wait, for 10 seconds or
    until the worker stops; then each worker applies the limit on its own, so that a window may get
    ``limit`` retries from each of them. Differing clocks shift retries into the adjacent window.

    Raises:
        SettingsInvalid: a value is out of range.
    """

    limit: int
    _: KW_ONLY
    per: DurationField = DurationField(60, positive=True)
    on_exhausted: OnExhausted = "wait"
    """Handling of a retry beyond the budget: ``wait`` postpones it to the next window with room,
    ``dead-letter`` gives the job up, with the reason ``retry-budget``."""
    scope: Scope = "worker"

    def __post_init__(self) -> None:
        _check_count("RetryBudget", "limit", self.limit)
        _check_scope("RetryBudget", self.scope)
        if self.on_exhausted not in get_args(OnExhausted):
            raise SettingsInvalid(
                "RetryBudget(on_exhausted=...) must be 'wait' or 'dead-letter', got "
                f"{self.on_exhausted!r}"
            )


@frozen_dataclass(frozen=True)
class Breaker:
    """Stops a job type while a service that it depends on is down: ``Breaker(open_for=60)``.

    It opens once at least ``min_runs`` runs ended within ``window``, and ``failure_ratio`` or more
    of them failed with an error that a retry may fix. Nothing of the type is received or run for
    ``open_for``. Then ``probes`` jobs run: the breaker closes if all of them succeed, and opens
    again at the first that fails. Where an app or a queue declares a breaker, each of its types has
    its own, in each worker process. ``window`` and ``open_for`` are seconds or timedeltas.

    With ``key=`` each tenant, or each value that a function makes of the payload, has a breaker:
    ``Breaker(key=lambda webhook: webhook.endpoint)`` stops one endpoint's jobs while the others'
    run.

    M. Nygard, Release It!, 2007, chapter 5.2.

    Raises:
        SettingsInvalid: a value is out of range.
    """

    failure_ratio: float = 0.5
    _: KW_ONLY
    window: DurationField = DurationField(30, positive=True)
    min_runs: int = 10
    open_for: DurationField = DurationField(30, positive=True)
    probes: int = 3
    key: LimitKey = None

    def __post_init__(self) -> None:
        if not 0 < self.failure_ratio <= 1:
            raise SettingsInvalid(
                f"Breaker(failure_ratio=...) must lie in (0, 1], got {self.failure_ratio}"
            )
        _check_count("Breaker", "min_runs", self.min_runs)
        _check_count("Breaker", "probes", self.probes)
        _check_key("Breaker", self.key)


class LimitOptions(TypedDict, total=False):
    """The keywords by which an app, a queue or a job type declares limits; None for no limit."""

    rate_limit: RateLimit | None
    concurrency: Concurrency | None
    retry_budget: RetryBudget | None
    breaker: Breaker | None


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that one app, queue or job type has declared."""

    rate_limit: RateLimit | None = None
    concurrency: Concurrency | None = None
    retry_budget: RetryBudget | None = None
    breaker: Breaker | None = None

    @classmethod
    def of(cls, options: LimitOptions) -> Self:
        """Pick the limits from a set of options.

        Raises:
            ConfigurationError: a value is of the wrong class.
        """
        found = {name: options.get(name) for name in _KINDS}
        for name, value in found.items():
            if value is not None and not isinstance(value, _KINDS[name]):
                raise ConfigurationError(f"{name} must be a {_KINDS[name].__name__}, got {value!r}")
        return cls(**found)  # type: ignore[arg-type]  # each has just been checked

    @property
    def of_fleet(self) -> bool:
        """True if any of them is fleet-wide, and so needs the table."""
        scoped = (self.rate_limit, self.concurrency, self.retry_budget)
        return any(limit is not None and limit.scope == "fleet" for limit in scoped)


COST_HINT = (
    "what a job takes of a limit is said there: write rate_limit=RateLimit(..., cost=lambda "
    "payload: payload.tokens)"
)
"""The answer to ``cost=`` that is given to anything but a limit."""

_KINDS: dict[str, type[RateLimit | Concurrency | RetryBudget | Breaker]] = {
    "rate_limit": RateLimit,
    "concurrency": Concurrency,
    "retry_budget": RetryBudget,
    "breaker": Breaker,
}


def check_limit_names(
    options: Mapping[str, object], owner: str, others: Iterable[str] = ()
) -> None:
    """Raise ConfigurationError for a keyword that names no limit.

    Args:
        options: the keywords.
        owner: what they are given to, for the error.
        others: the names of its other options, likewise.
    """
    known = sorted({*_KINDS, *others})
    for name in options:
        if name not in _KINDS:
            hint = COST_HINT if name == "cost" else did_you_mean(name, known)
            all_of_them = "" if hint.startswith("known are") else f" It has {', '.join(known)}"
            raise ConfigurationError(f"{owner} has no option {name!r}: {hint}{all_of_them}")


def _check_count(kind: str, name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingsInvalid(f"{kind}({name}=...) must be at least 1, got {value!r}")


def _check_key(kind: str, key: object) -> None:
    if not (key is None or key == "tenant" or callable(key)):
        raise SettingsInvalid(
            f"{kind}(key=...) must be 'tenant' or a function of the payload, got {key!r}"
        )


def _check_scope(kind: str, scope: str, per: timedelta | None = None) -> None:
    if scope not in get_args(Scope):
        raise SettingsInvalid(f"{kind}(scope=...) must be 'worker' or 'fleet', got {scope!r}")
    if scope == "fleet" and per is not None and per > LONGEST_LEASED:
        raise SettingsInvalid(
            f"{kind}(per=...) of the fleet must be at most {LONGEST_LEASED}, got {per}"
        )
