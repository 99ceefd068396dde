"""Headgate: background jobs on AWS SQS and EventBridge.

Declare an `App`, its queues and job types; submit with `Client` or `AsyncClient`; run with
``headgate worker module:app``. `jobs.errors` has the tree of what may be raised. Importing this
package imports no AWS SDK.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jobs.accepts import Accepts
from jobs.app import App, load_app
from jobs.backoff import Backoff
from jobs.context import JobContext, Tenant
from jobs.errors import Discard, DoNotRetry, HeadgateError, RetryLater
from jobs.job import JobType
from jobs.limits import Breaker, Concurrency, RateLimit, RetryBudget
from jobs.queue import Queue
from jobs.retention import Keep
from jobs.retry import CrashLimit, Retry
from jobs.schedules import Schedule, at, cron, rate
from jobs.topology import Lane, Priority

if TYPE_CHECKING:
    from jobs.aio import AsyncClient
    from jobs.client import Client
    from jobs.events import Event, Events
    from jobs.handle import AsyncJobHandle, JobHandle
    from jobs.spool import Spool
    from jobs.state import JobState

__all__ = [
    "Accepts",
    "App",
    "AsyncClient",
    "AsyncJobHandle",
    "Backoff",
    "Breaker",
    "Client",
    "Concurrency",
    "CrashLimit",
    "Discard",
    "DoNotRetry",
    "Event",
    "Events",
    "HeadgateError",
    "JobContext",
    "JobHandle",
    "JobState",
    "JobType",
    "Keep",
    "Lane",
    "Priority",
    "Queue",
    "RateLimit",
    "Retry",
    "RetryBudget",
    "RetryLater",
    "Schedule",
    "Spool",
    "Tenant",
    "at",
    "cron",
    "load_app",
    "rate",
]


_LATER = {
    "AsyncClient": "jobs.aio",
    "AsyncJobHandle": "jobs.handle",
    "Client": "jobs.client",
    "Event": "jobs.events",
    "Events": "jobs.events",
    "JobHandle": "jobs.handle",
    "JobState": "jobs.state",
    "Spool": "jobs.spool",
}
"""What only those import who submit: a module of contracts must not cost its time."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(_LATER[name]), name)
    return found
