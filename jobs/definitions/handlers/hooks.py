"""Hooks: the user's own functions, called for events of jobs, per app or per job type.

    @app.on_dead
    async def page(event: JobDeadLettered | JobQuarantined) -> None: ...

    @send_email.on_failed
    def note(event: JobFailed) -> None: ...

Hooks run beside the jobs, in the order of the events. A hook that raises, or takes too long, is
reported by an event of its own and has no effect on jobs: a slow hook delays only itself.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # slow to import, and not needed to declare jobs
    from headgate.jobs.core.events import (
        Event,
        JobCompleted,
        JobDeadLettered,
        JobFailed,
        JobProgress,
        JobQuarantined,
        JobRetryScheduled,
        JobStalled,
        JobStarted,
    )

H = TypeVar("H", bound=Callable[..., Any])
Returned = TypeVar("Returned")
Hook = Callable[[Any], Any]
"""A function of an event; a synchronous one, which runs in a thread, or an async one."""


def is_async(hook: Hook) -> bool:
    """Return True if calling the hook makes a coroutine, also by an object's async ``__call__``."""
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__)


def name_of(hook: Hook) -> str:
    """Return the module and qualified name of a hook, of its partial's function or of its class."""
    function = getattr(hook, "func", hook)
    kind = type(function)
    name = getattr(function, "__qualname__", kind.__qualname__)
    return f"{getattr(function, '__module__', kind.__module__)}.{name}"


class Hooks:
    """Decorators for hooks, the common base of `App` and `JobType`."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = defaultdict(list)
        """Hooks by the name of the event that they subscribe to."""

    def on_start(self, hook: Callable[[JobStarted], Returned]) -> Callable[[JobStarted], Returned]:
        """Call the hook before a handler is called, for every attempt."""
        return self._add(hook, "job.started")

    def on_complete(
        self, hook: Callable[[JobCompleted], Returned]
    ) -> Callable[[JobCompleted], Returned]:
        """Call the hook when a handler has returned."""
        return self._add(hook, "job.completed")

    def on_failed(self, hook: Callable[[JobFailed], Returned]) -> Callable[[JobFailed], Returned]:
        """Call the hook when an attempt has failed, whether or not it is retried."""
        return self._add(hook, "job.failed")

    def on_retry(
        self, hook: Callable[[JobRetryScheduled], Returned]
    ) -> Callable[[JobRetryScheduled], Returned]:
        """Call the hook when a job is scheduled for a retry."""
        return self._add(hook, "job.retry_scheduled")

    def on_dead(
        self, hook: Callable[[JobDeadLettered | JobQuarantined], Returned]
    ) -> Callable[[JobDeadLettered | JobQuarantined], Returned]:
        """Call the hook once a job is durably in the dead-letter queue or in quarantine."""
        return self._add(hook, "job.dead_lettered", "job.quarantined")

    def on_stalled(
        self, hook: Callable[[JobStalled], Returned]
    ) -> Callable[[JobStalled], Returned]:
        """Call the hook when a synchronous handler runs past its timeout."""
        return self._add(hook, "job.stalled")

    def on_progress(
        self, hook: Callable[[JobProgress], Returned]
    ) -> Callable[[JobProgress], Returned]:
        """Call the hook when a handler reports progress."""
        return self._add(hook, "job.progress")

    def _add(self, hook: H, *events: str) -> H:
        for event in events:
            self._hooks[event].append(hook)
        return hook


def hooks_for(owner: Hooks, event: Event) -> Sequence[Hook]:
    """Return the hooks that subscribe to an event, in the order of their declaration."""
    return owner._hooks.get(event.name, ())  # noqa: SLF001 - not among what users call


def has_hooks(owner: Hooks, kind: type[Event]) -> bool:
    """Return True if any hook subscribes to events of that kind."""
    return kind.name in owner._hooks  # noqa: SLF001 - as above
