"""What happens to a limit, a breaker, a budget, or a share of one."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.jobs.core.events.root import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEvent(Event):
    """Something happened to a limit."""

    limit: str
    """Which one: ``rate:queue:payments``, ``breaker:type:charge-card``, ``concurrency:app``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(LimitEvent):
    name = "limit.reached"
    retry_in_s: float | None
    """None: when that ends can't be told, since it hangs on other jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCleared(LimitEvent):
    name = "limit.cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerOpened(LimitEvent):
    name = "breaker.opened"
    failures: int
    """Within the breaker's window, of so many ``runs``."""
    runs: int
    open_for_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerProbing(LimitEvent):
    name = "breaker.probing"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerClosed(LimitEvent):
    name = "breaker.closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpent(LimitEvent):
    name = "budget.spent"
    retry_in_s: float
    """When the next retry fits into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFailed(LimitEvent):
    name = "lease.failed"
    error: str
