"""The user's own code at what happens to jobs: subscribers to events, by app or by type.

    @app.on_dead
    async def page(event: JobDeadLettered | JobQuarantined) -> None: ...

    @send_email.on_failed
    def note(event: JobFailed) -> None: ...

Hooks run beside the jobs, in the order of the events. One that raises, or takes too long, is
reported by an event of its own, and changes nothing: a slow one holds up itself alone.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # whoever only declares jobs needs none of them, and they take time to import
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
"""Takes an event; a plain function, which runs in a thread, or an async one."""


def is_async(hook: Hook) -> bool:
    """Whether calling it makes a coroutine; true of an object with an async ``__call__`` too."""
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__)


def name_of(hook: Hook) -> str:
    """Where it is defined, as far as it says so: a `functools.partial` or an object has no name."""
    function = getattr(hook, "func", hook)
    kind = type(function)
    name = getattr(function, "__qualname__", kind.__qualname__)
    return f"{getattr(function, '__module__', kind.__module__)}.{name}"


class Hooks:
    """What an `App` and a `JobType` have in common: decorators for hooks."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = defaultdict(list)
        """By the names of the events that they want to hear of."""

    def on_start(self, hook: Callable[[JobStarted], Returned]) -> Callable[[JobStarted], Returned]:
        """Before a handler is called; for every attempt."""
        return self._add(hook, "job.started")

    def on_complete(
        self, hook: Callable[[JobCompleted], Returned]
    ) -> Callable[[JobCompleted], Returned]:
        """A handler returned."""
        return self._add(hook, "job.completed")

    def on_failed(self, hook: Callable[[JobFailed], Returned]) -> Callable[[JobFailed], Returned]:
        """An attempt failed, whatever follows."""
        return self._add(hook, "job.failed")

    def on_retry(
        self, hook: Callable[[JobRetryScheduled], Returned]
    ) -> Callable[[JobRetryScheduled], Returned]:
        """A job will be tried again."""
        return self._add(hook, "job.retry_scheduled")

    def on_dead(
        self, hook: Callable[[JobDeadLettered | JobQuarantined], Returned]
    ) -> Callable[[JobDeadLettered | JobQuarantined], Returned]:
        """A job is in the dead-letter queue or in quarantine; that is durable by now."""
        return self._add(hook, "job.dead_lettered", "job.quarantined")

    def on_stalled(
        self, hook: Callable[[JobStalled], Returned]
    ) -> Callable[[JobStalled], Returned]:
        """A plain function runs past its timeout."""
        return self._add(hook, "job.stalled")

    def on_progress(
        self, hook: Callable[[JobProgress], Returned]
    ) -> Callable[[JobProgress], Returned]:
        """A handler said how far it is."""
        return self._add(hook, "job.progress")

    def hooks_for(self, event: Event) -> Sequence[Hook]:
        """Those that want to hear of an event, in the order of their declaration."""
        return self._hooks.get(event.name, ())

    def _add(self, hook: H, *events: str) -> H:
        for event in events:
            self._hooks[event].append(hook)
        return hook
