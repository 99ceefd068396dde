"""Events of limits, breakers, retry budgets and shares of them."""

from __future__ import annotations

from headgate.jobs.core.events.root import Event
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class LimitEvent(Event):
    """Something happened to a limit."""

    limit: str
    """Its name: ``rate:queue:payments``, ``breaker:type:charge-card``, ``concurrency:app``."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(LimitEvent):
    name = "limit.reached"
    retry_in_s: float | None
    """Seconds until it lets work through; None if unknown, since that depends on other jobs."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class LimitCleared(LimitEvent):
    name = "limit.cleared"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class BreakerEvent(LimitEvent):
    """A breaker opened, probes or closed."""

    key: str | None = None
    """The tenant of a breaker with ``key="tenant"``; a hash of another key, since that is made from
    the payload; None for a breaker without a key."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class BreakerOpened(BreakerEvent):
    name = "breaker.opened"
    failures: int
    """Number of failures within the breaker's window, out of ``runs``."""
    runs: int
    open_for_s: float


@light_dataclass(frozen=True, slots=True, kw_only=True)
class BreakerProbing(BreakerEvent):
    name = "breaker.probing"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class BreakerClosed(BreakerEvent):
    name = "breaker.closed"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpent(LimitEvent):
    name = "budget.spent"
    retry_in_s: float
    """Seconds until the next retry fits into the budget."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFailed(LimitEvent):
    name = "lease.failed"
    error: str
