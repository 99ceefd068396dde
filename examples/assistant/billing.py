"""The queue of usage: tokens are recorded once, and quotas watched."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

from examples.assistant.store import Store, TenantData
from examples.assistant.tenancy import data_of, for_each_tenant
from headgate import Backoff, JobContext, Priority, Queue, Retry, cron

billing = Queue(
    "billing",
    priorities=[Priority.CRITICAL, Priority.HIGH, Priority.NORMAL],
    retry=Retry(max_attempts=10, backoff=Backoff.exponential(base=1, cap=300)),
)


class Usage(BaseModel):
    """The tokens that an answer took."""

    model_config = ConfigDict(frozen=True)

    tokens: int = Field(ge=0)


class QuotaCheck(BaseModel):
    """Shares of a plan at which a tenant is told or stopped, in per cent."""

    model_config = ConfigDict(frozen=True)

    warn_at: tuple[int, ...] = (80, 100)
    suspend_at: int = Field(default=110, ge=1)


class Notice(BaseModel):
    """A text for the tenant's people. The same key is said once."""

    model_config = ConfigDict(frozen=True)

    key: str
    text: str


@billing.job("record-usage", priority=Priority.CRITICAL, timeout=timedelta(seconds=10))
async def record_usage(usage: Usage, store: Store, ctx: JobContext) -> int:
    """Add tokens to the tenant's usage, once for each job; return the sum."""
    data = data_of(store, ctx)
    data.usage[ctx.id] = usage.tokens
    return data.used


@billing.job(
    "check-quotas",
    priority=Priority.NORMAL,
    timeout=timedelta(minutes=1),
    schedule=cron("0/10 * * * ? *"),
    schedule_payload=QuotaCheck(warn_at=(50, 80, 100), suspend_at=120),
)
async def check_quotas(wanted: QuotaCheck, store: Store, ctx: JobContext) -> int:
    """Warn at each mark that was passed, and suspend beyond the last; return the percentage."""
    if ctx.tenant is None:
        await for_each_tenant(store, ctx, check_quotas, wanted)
        return 0
    data = data_of(store, ctx)
    used = per_cent_used(data)
    data.is_suspended = used >= wanted.suspend_at
    passed = [mark for mark in wanted.warn_at if used >= mark]
    if passed:
        text = f"{data.used:,} of {data.plan.tokens:,} tokens are used"
        await ctx.submit(send_notice, Notice(key=f"quota-{max(passed)}", text=text))
    return used


@billing.job("send-notice", priority=Priority.HIGH, timeout=timedelta(seconds=10))
async def send_notice(notice: Notice, store: Store, ctx: JobContext) -> None:
    """Tell a tenant's people, unless they have been told."""
    data_of(store, ctx).notices.setdefault(notice.key, notice.text)


def per_cent_used(data: TenantData) -> int:
    """Return the share of a tenant's plan that is used, rounded down."""
    return 100 * data.used // data.plan.tokens
