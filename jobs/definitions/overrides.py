"""What one submission may decide instead of its job type."""

from __future__ import annotations

from datetime import datetime, timedelta

from headgate.jobs.core.context import Tenant
from headgate.jobs.core.topology import Priority, PriorityName
from headgate.jobs.definitions.uniqueness import UniqueOptions


class Overrides(UniqueOptions, total=False):
    """What one submission may decide instead of its job type; None: not said."""

    delay: timedelta | None
    """Not before this long from now. Over 15 minutes, and on a FIFO queue, a one-time schedule of
    EventBridge Scheduler holds the job meanwhile, which is charged for as a request of its own."""
    at: datetime | None
    """Not before this time; aware. A past one means now."""
    priority: Priority | PriorityName | None
    max_attempts: int | None
    """Runs in all, the first included."""
    timeout: timedelta | None
    """The longest that one attempt may take."""
    tenant: str | Tenant | None
    """Whose job it is; SQS's fair queues keep one tenant's flood from delaying the others."""
    group: str | None
    """On a FIFO queue, the group whose jobs run one at a time and in order; without it the type's
    ``group_by`` is asked, and then the tenant is taken."""
