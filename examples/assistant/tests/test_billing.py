"""Usage counts once, and quotas are told of once."""

from __future__ import annotations

from datetime import timedelta

from examples.assistant.billing import (
    QuotaCheck,
    Usage,
    check_quotas,
    record_usage,
    send_notice,
)
from examples.assistant.store import Store, TenantData
from headgate.testing import Harness


def use(jobs: Harness, tokens: int) -> None:
    jobs.client.submit(record_usage, Usage(tokens=tokens), tenant="org-1")
    jobs.drain()


def check(jobs: Harness) -> int:
    handle = jobs.client.submit(check_quotas, QuotaCheck(), tenant="org-1")
    jobs.drain()
    return handle.result()


def test_a_job_that_is_delivered_twice_counts_once(jobs: Harness, data: TenantData) -> None:
    use(jobs, 30_000)
    [waiting] = jobs.completed(record_usage)
    data.usage[waiting.id] = 30_000  # what its second run does
    use(jobs, 20_000)
    assert data.used == 50_000


def test_each_mark_is_told_of_once(jobs: Harness, data: TenantData) -> None:
    use(jobs, 79_999)
    assert (check(jobs), data.notices) == (79, {})
    use(jobs, 1)
    for _ in range(2):
        assert check(jobs) == 80
    assert data.notices == {"quota-80": "80,000 of 100,000 tokens are used"}
    assert len(jobs.completed(send_notice)) == 2


def test_a_tenant_beyond_its_plan_is_suspended_and_let_in_again(
    jobs: Harness, data: TenantData
) -> None:
    use(jobs, 110_000)
    check(jobs)
    assert data.is_suspended
    data.plan.tokens = 200_000
    check(jobs)
    assert not data.is_suspended


def test_every_ten_minutes_all_tenants_are_checked(
    jobs: Harness, store: Store, data: TenantData
) -> None:
    use(jobs, 60_000)
    store.of("org-2")
    jobs.clock.advance(timedelta(minutes=10))
    jobs.drain()
    assert len(jobs.completed(check_quotas)) == 3
    assert list(data.notices) == ["quota-50"]
