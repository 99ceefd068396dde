"""An hour of load in small: the promises behind `make simulate`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.simulation import findings
from benchmarks.simulation.run import simulate
from benchmarks.simulation.world import Scenario, Span
from headgate import Priority
from headgate.jobs.core.topology import DEFAULT_LANES

SMALL = Scenario(
    name="small",
    minutes=9,
    jobs_per_minute=300,
    workers=1,
    concurrency=6,
    overload=Span(start_s=60, end_s=300),
    outage=Span(start_s=360, end_s=480),
)


@pytest.fixture(scope="module")
def protected() -> dict[str, Any]:
    return simulate(replace(SMALL, protected=True))


@pytest.fixture(scope="module")
def bare() -> dict[str, Any]:
    return simulate(SMALL)


def test_every_job_is_completed_whatever_the_hour_brings(
    protected: dict[str, Any], bare: dict[str, Any]
) -> None:
    for hour in (protected, bare):
        assert hour["completed"] == hour["submitted"] > 1_000
        assert hour["dead"] == 0


def test_breaker_and_budget_keep_an_outage_from_the_service_that_has_it(
    protected: dict[str, Any], bare: dict[str, Any]
) -> None:
    assert findings.outage_calls(protected) < findings.outage_calls(bare) / 10


def test_in_overload_priorities_get_their_shares_and_critical_jobs_start(
    protected: dict[str, Any],
) -> None:
    for priority in Priority:
        share = DEFAULT_LANES[priority].share
        assert findings.share_in_overload(protected, priority) >= share * 0.9
    start, end = (int(second) // 60 for second in protected["overload_s"])
    waits = protected["priorities"]["critical"]["waits_p99_s"][start:end]
    assert max(waits) < 1
