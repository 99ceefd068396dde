"""Jobs of one tenant, and schedules that stand for all of them."""

from __future__ import annotations

from typing import Any, TypeVar

from examples.assistant.store import Store, TenantData
from headgate import DoNotRetry, JobContext, JobType

P = TypeVar("P")


def data_of(store: Store, ctx: JobContext) -> TenantData:
    """Return the data of the job's tenant.

    Raises:
        DoNotRetry: the job has none; it was submitted without ``tenant=``.
    """
    if ctx.tenant is None:
        raise DoNotRetry(f"a job of the type {ctx.type} needs a tenant")
    return store.of(ctx.tenant.org)


async def for_each_tenant(store: Store, ctx: JobContext, job: JobType[P, Any], payload: P) -> None:
    """Submit a job for each tenant: a schedule fires once, and has no tenant."""
    for tenant in store.tenants():
        await ctx.submit(job, payload, tenant=tenant)
