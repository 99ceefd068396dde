"""The means that a host provides for calling an app's handlers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.definitions.handlers.resources import OpenResources
from headgate.jobs.execution.calling.claims import Claims
from headgate.jobs.execution.calling.handler_host import Handles, Send
from headgate.jobs.execution.calling.invoking import CallBlocking
from headgate.jobs.execution.calling.time_limits import TimeLimits
from headgate.jobs.execution.delivery import Delivery, Job
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.messages.sealing import Seals

CallIsolated = Callable[[Job, str, JobContext], Awaitable[Any]]
"""Runs a handler in a child process, given the message's body, and returns its result. Raises the
handler's signal, `Stopped`, `JobTimeout`, `ChildFailed` or `ChildDied`; when cancelled, it ends the
process."""

Secrets = Callable[[], frozenset[str]]
"""Returns the texts that an error of a handler must not show."""

OpenSpan = Callable[[Job, Delivery, Secrets], AbstractContextManager[None]]
"""Opens a span, as of OpenTelemetry, for a call of a handler, which sees it as the current one."""

IsCancelled = Callable[[], bool]
"""Returns True if a host is being cancelled, and its runs with it."""

_NO_SPAN = nullcontext()


def no_span(_job: Job, _delivery: Delivery, _secrets: Secrets) -> AbstractContextManager[None]:
    """Return a context manager that does nothing."""
    return _NO_SPAN


def cancelled_with_this_task() -> IsCancelled:
    """Return what tells that the task which calls this is being cancelled, or has ended."""
    task = asyncio.current_task()
    return lambda: task is None or task.done() or task.cancelling() > 0


def _may_be() -> bool:
    return True


def span_opener(app: App) -> OpenSpan:
    """Return what opens spans if the process uses OpenTelemetry, else a no-op."""
    if "opentelemetry.trace" not in sys.modules:
        return no_span
    from headgate.jobs.execution.tracing import Tracing  # without OpenTelemetry it can't be

    return Tracing(redaction=app.redaction).open_span


@dataclass(slots=True, kw_only=True)
class Means:
    """The means that a host provides for calling an app's handlers."""

    app: App
    clock: Clock
    events: Events
    """Receives an event for every step."""
    call_blocking: CallBlocking = asyncio.to_thread
    call_isolated: CallIsolated | None = None
    """For ``isolation="process"``; if None, such handlers run like all others."""
    open_span: OpenSpan = no_span
    send: Send | None = None
    """Sends the jobs that handlers submit; if None, handlers can't submit any."""
    handles: Handles | None = None
    """Makes the handles of these jobs; given with ``send``."""
    store: AsyncObjectStore | None = None
    """Holds the payloads that are too large for messages; if None, their jobs are deferred."""
    seals: Seals | None = None
    """Opens sealed payloads; None if the app seals nothing."""
    resources: OpenResources = field(default_factory=OpenResources)
    """The app's open resources, and what it opens around attempts."""
    heeds_ctrl_c: bool = True
    """If true, a KeyboardInterrupt in the event loop ends this process. Otherwise it is treated as
    a failure of the handler, as it always is in a thread, where Ctrl-C is never raised."""
    claims: Claims | None = None
    """Required for types with ``once=True``."""
    keyring: Keyring | None = None
    """Checks the signatures of messages; if None, none is checked: the app's messages are not
    signed, or did not come through a queue."""
    is_cancelled: IsCancelled = _may_be
    """Tells a cancellation of the host, which ends its runs without an outcome, from that of a
    handler which has cancelled its own task, and so has failed. By default each is taken for one of
    the host, as it must be where runs have no tasks of their own."""
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    """Bounds the handlers that run in the event loop."""

    def isolates(self, job: Job) -> bool:
        """Return True if the job's handler runs in a process of its own."""
        return job.type.isolation == "process" and self.call_isolated is not None

    def in_loop(self, job: Job) -> bool:
        """Return True if the handler runs in this event loop, where it may ignore cancellation."""
        return job.handler.is_async and not self.isolates(job)

    def can_cancel(self, job: Job) -> bool:
        """Return True if the handler can be ended from outside: it is async or in a child."""
        return job.handler.is_async or self.isolates(job)
