"""Headgate: background jobs on AWS SQS and EventBridge.

Declare an `App`, its queues and job types; submit with `Client` or `AsyncClient`; run with
``headgate worker module:app``. `jobs.errors` has the tree of what may be raised. Importing this
package imports no AWS SDK.
"""

from typing import TYPE_CHECKING, Any

from jobs.app import App, load_app
from jobs.backoff import Backoff
from jobs.client import Client
from jobs.context import JobContext, Tenant
from jobs.errors import Discard, DoNotRetry, HeadgateError, RetryLater
from jobs.events import Event, Events
from jobs.job import JobType
from jobs.limits import Breaker, Concurrency, RateLimit, RetryBudget
from jobs.queue import Queue
from jobs.retry import CrashLimit, Retry
from jobs.schedules import Schedule, at, cron, rate
from jobs.submission import JobHandle
from jobs.topology import Lane, Priority

if TYPE_CHECKING:
    from jobs.aio import AsyncClient

__all__ = [
    "App",
    "AsyncClient",
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
    "JobType",
    "Lane",
    "Priority",
    "Queue",
    "RateLimit",
    "Retry",
    "RetryBudget",
    "RetryLater",
    "Schedule",
    "Tenant",
    "at",
    "cron",
    "load_app",
    "rate",
]


def __getattr__(name: str) -> Any:
    # asyncio is a third of this package's import time, and plain code doesn't need it.
    if name == "AsyncClient":
        from jobs.aio import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
