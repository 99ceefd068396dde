"""Background jobs on AWS SQS and EventBridge.

Declare an `App`, its queues and job types; submit with `Client` or `AsyncClient`; run with
``headgate worker module:app``. `headgate.errors` has the tree of errors, `headgate.events` the
events of jobs, `headgate.testing` the test kit, `headgate.infra` the CDK constructs,
`headgate.lambdas` the functions and `headgate.contrib` the integrations of web frameworks. Nothing
else is public.

Names are imported on first use, and AWS SDKs only once they are needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.jobs.client.async_client import AsyncClient as AsyncClient
    from headgate.jobs.client.auditing.actor import acting_as as acting_as
    from headgate.jobs.client.client import Client as Client
    from headgate.jobs.client.jobs.filters import JobFilter as JobFilter
    from headgate.jobs.client.spool.policy import Spool as Spool
    from headgate.jobs.core.event_log import log_event as log_event
    from headgate.jobs.core.events import Event as Event
    from headgate.jobs.core.events import Events as Events
    from headgate.jobs.core.existing.resources import Existing as Existing
    from headgate.jobs.core.existing.resources import ExistingQueue as ExistingQueue
    from headgate.jobs.core.keys.encryption import Encryption as Encryption
    from headgate.jobs.core.limits import Breaker as Breaker
    from headgate.jobs.core.limits import Concurrency as Concurrency
    from headgate.jobs.core.limits import RateLimit as RateLimit
    from headgate.jobs.core.limits import RetryBudget as RetryBudget
    from headgate.jobs.core.retention import Keep as Keep
    from headgate.jobs.core.tenant import Tenant as Tenant
    from headgate.jobs.core.topology import Lane as Lane
    from headgate.jobs.core.topology import Priority as Priority
    from headgate.jobs.dead_letters.filters import DeadLetterFilter as DeadLetterFilter
    from headgate.jobs.dead_letters.letter import DeadLetter as DeadLetter
    from headgate.jobs.definitions.app import App as App
    from headgate.jobs.definitions.app_path import load_app as load_app
    from headgate.jobs.definitions.handled_job import HandledJob as HandledJob
    from headgate.jobs.definitions.handlers.batch_context import BatchContext as BatchContext
    from headgate.jobs.definitions.handlers.context import JobContext as JobContext
    from headgate.jobs.definitions.job_type import JobType as JobType
    from headgate.jobs.definitions.job_type import NewJob as NewJob
    from headgate.jobs.definitions.options.batch import Batch as Batch
    from headgate.jobs.definitions.options.bundle import Bundle as Bundle
    from headgate.jobs.definitions.options.job_options import JobOptions as JobOptions
    from headgate.jobs.definitions.options.replay import Replay as Replay
    from headgate.jobs.definitions.options.submit_options import SubmitOptions as SubmitOptions
    from headgate.jobs.definitions.options.uniqueness import Unique as Unique
    from headgate.jobs.definitions.queue import Queue as Queue
    from headgate.jobs.definitions.router import Router as Router
    from headgate.jobs.definitions.schedules.schedule import Schedule as Schedule
    from headgate.jobs.definitions.schedules.schedule import cron as cron
    from headgate.jobs.errors import HeadgateError as HeadgateError
    from headgate.jobs.handles.handle import AsyncJobHandle as AsyncJobHandle
    from headgate.jobs.handles.handle import JobHandle as JobHandle
    from headgate.jobs.messages.foreign_formats import Accepts as Accepts
    from headgate.jobs.messages.s3_objects import S3Object as S3Object
    from headgate.jobs.messages.signing import Signing as Signing
    from headgate.jobs.records.audit.entry import AuditEntry as AuditEntry
    from headgate.jobs.records.pausing.pause import Pause as Pause
    from headgate.jobs.records.state import JobState as JobState
    from headgate.jobs.retry.backoff import Backoff as Backoff
    from headgate.jobs.retry.backoff_context import BackoffContext as BackoffContext
    from headgate.jobs.retry.policy import CrashLimit as CrashLimit
    from headgate.jobs.retry.policy import Retry as Retry
    from headgate.jobs.retry.signals import Discard as Discard
    from headgate.jobs.retry.signals import DoNotRetry as DoNotRetry
    from headgate.jobs.retry.signals import RetryLater as RetryLater
    from headgate.jobs.schedules.registry import ScheduleInfo as ScheduleInfo
    from headgate.jobs.schedules.registry import UnreadableSchedule as UnreadableSchedule
    from headgate.ops.console import Viewer as Viewer
    from headgate.ops.console import console as console

__all__ = [
    "Accepts",
    "App",
    "AsyncClient",
    "AsyncJobHandle",
    "AuditEntry",
    "Backoff",
    "BackoffContext",
    "Batch",
    "BatchContext",
    "Breaker",
    "Bundle",
    "Client",
    "Concurrency",
    "CrashLimit",
    "DeadLetter",
    "DeadLetterFilter",
    "Discard",
    "DoNotRetry",
    "Encryption",
    "Event",
    "Events",
    "Existing",
    "ExistingQueue",
    "HandledJob",
    "HeadgateError",
    "JobContext",
    "JobFilter",
    "JobHandle",
    "JobOptions",
    "JobState",
    "JobType",
    "Keep",
    "Lane",
    "NewJob",
    "Pause",
    "Priority",
    "Queue",
    "RateLimit",
    "Replay",
    "Retry",
    "RetryBudget",
    "RetryLater",
    "Router",
    "S3Object",
    "Schedule",
    "ScheduleInfo",
    "Signing",
    "Spool",
    "SubmitOptions",
    "Tenant",
    "Unique",
    "UnreadableSchedule",
    "acting_as",
    "cron",
    "load_app",
    "log_event",
]

_HOMES = {
    "Accepts": "messages.foreign_formats",
    "App": "definitions.app",
    "AsyncClient": "client.async_client",
    "AsyncJobHandle": "handles.handle",
    "AuditEntry": "records.audit.entry",
    "Backoff": "retry.backoff",
    "BackoffContext": "retry.backoff_context",
    "Batch": "definitions.options.batch",
    "BatchContext": "definitions.handlers.batch_context",
    "Breaker": "core.limits",
    "Bundle": "definitions.options.bundle",
    "Client": "client.client",
    "Concurrency": "core.limits",
    "CrashLimit": "retry.policy",
    "DeadLetter": "dead_letters.letter",
    "DeadLetterFilter": "dead_letters.filters",
    "Discard": "retry.signals",
    "DoNotRetry": "retry.signals",
    "Encryption": "core.keys.encryption",
    "Event": "core.events",
    "Events": "core.events",
    "Existing": "core.existing.resources",
    "ExistingQueue": "core.existing.resources",
    "HandledJob": "definitions.handled_job",
    "HeadgateError": "errors",
    "JobContext": "definitions.handlers.context",
    "JobFilter": "client.jobs.filters",
    "JobHandle": "handles.handle",
    "JobOptions": "definitions.options.job_options",
    "JobState": "records.state",
    "JobType": "definitions.job_type",
    "Keep": "core.retention",
    "Lane": "core.topology",
    "NewJob": "definitions.job_type",
    "Pause": "records.pausing.pause",
    "Priority": "core.topology",
    "Queue": "definitions.queue",
    "RateLimit": "core.limits",
    "Replay": "definitions.options.replay",
    "Retry": "retry.policy",
    "RetryBudget": "core.limits",
    "RetryLater": "retry.signals",
    "Router": "definitions.router",
    "S3Object": "messages.s3_objects",
    "Schedule": "definitions.schedules.schedule",
    "ScheduleInfo": "schedules.registry",
    "Signing": "messages.signing",
    "Spool": "client.spool.policy",
    "SubmitOptions": "definitions.options.submit_options",
    "Tenant": "core.tenant",
    "Unique": "definitions.options.uniqueness",
    "UnreadableSchedule": "schedules.registry",
    "acting_as": "client.auditing.actor",
    "cron": "definitions.schedules.schedule",
    "load_app": "definitions.app_path",
    "log_event": "core.event_log",
}
"""The module of each name, below `headgate.jobs`; the bridge function imports none of them."""

_CONSOLE = ("Viewer", "console")
"""Names of the console. They are not in ``__all__``, as it needs an extra."""

_MODULES = ("errors", "events", "testing")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"headgate.{name}")
    if name in _CONSOLE:
        return _of_console(name)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"headgate.jobs.{_HOMES[name]}"), name)
    return found


def _of_console(name: str) -> Any:
    try:
        return getattr(import_module("headgate.ops.console"), name)
    except ModuleNotFoundError as error:
        from headgate.jobs.errors import LibraryMissing

        raise LibraryMissing(f"headgate.{name}", error.name, "headgate[console]") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_CONSOLE, *_MODULES})
