"""The limits that let no job start, as their events tell."""

from __future__ import annotations

from datetime import UTC, datetime

from headgate.jobs.core.events import (
    BreakerClosed,
    BreakerOpened,
    BreakerProbing,
    LimitCleared,
    LimitReached,
    LoopBlocked,
)
from headgate.jobs.records.fleet.worker_status import LimitState
from headgate.workers.observability.limit_states import LimitStates

AT = datetime(2026, 11, 1, tzinfo=UTC)
RATE, BREAKER = "rate:queue:mail", "breaker:type:charge"


def opened(key: str) -> BreakerOpened:
    return BreakerOpened(at=AT, limit=BREAKER, key=key, failures=5, runs=10, open_for_s=60)


def test_a_limit_holds_from_when_it_is_reached_until_it_clears() -> None:
    states = LimitStates()
    states(LoopBlocked(at=AT, blocked_s=2, job_types=()))
    assert states.now == {}
    states(LimitReached(at=AT, limit=RATE, retry_in_s=1))
    assert states.now == {RATE: LimitState.HOLDING}
    states(LimitCleared(at=AT, limit=RATE))
    assert states.now == {}


def test_a_breaker_is_open_while_any_of_its_keys_is_and_comes_first() -> None:
    states = LimitStates()
    states(LimitReached(at=AT, limit=RATE, retry_in_s=1))
    for key in ("org-1", "org-2"):
        states(opened(key))
    states(BreakerProbing(at=AT, limit=BREAKER, key="org-1"))
    assert states.now == {BREAKER: LimitState.OPEN, RATE: LimitState.HOLDING}
    assert list(states.now) == [BREAKER, RATE]
    states(BreakerClosed(at=AT, limit=BREAKER, key="org-2"))
    assert states.now[BREAKER] is LimitState.PROBING
    states(BreakerClosed(at=AT, limit=BREAKER, key="org-1"))
    assert states.now == {RATE: LimitState.HOLDING}
