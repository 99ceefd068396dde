"""The tenants of which most messages are in flight: SQS counts noisy ones, and names none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.jobs.client.overview.queues import QueueStatus
from headgate.jobs.core.topology import Priority
from headgate.jobs.values.light_dataclass import light_dataclass

_SHOWN = 10

_NOISY_SHARE, _NOISY_HELD = 0.1, 30
"""Share of what is in flight, and messages, above which SQS takes a tenant for noisy. It does so
too for a tenant's share of the time that consumers take, which nobody here knows.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues-detailed.html"""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class TenantRow:
    """One tenant of one lane as a row of a table."""

    tenant: str
    priority: Priority
    held: int
    """Messages that live workers hold, at least."""
    share: float | None
    """Part of the lane's messages in flight, 1 at most; None if these are unknown."""
    is_noisy: bool
    """True if SQS takes it for noisy by the messages that it has in flight."""


def tenants_of(queues: Iterable[QueueStatus]) -> Sequence[TenantRow]:
    """Return the tenants with most messages in flight, most first."""
    rows = [
        _row(queue, tenant, held)
        for queue in queues
        for tenant, held in (queue.tenants or {}).items()
    ]
    return sorted(rows, key=lambda row: row.held, reverse=True)[:_SHOWN]


def _row(queue: QueueStatus, tenant: str, held: int) -> TenantRow:
    # Workers tell of some seconds ago, so they may hold more than is in flight by now.
    share = min(1.0, held / queue.in_flight) if queue.in_flight else None
    return TenantRow(
        tenant=tenant,
        priority=queue.priority,
        held=held,
        share=share,
        is_noisy=share is not None and share > _NOISY_SHARE and held >= _NOISY_HELD,
    )
