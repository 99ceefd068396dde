"""Events of pauses, as a worker or a function learns of them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from headgate.jobs.core.events.root import Event
from headgate.jobs.core.topology import Priority
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class PauseEvent(Event):
    """A queue, a job type or a tenant was paused, or is paused no longer."""

    kind: Literal["queue", "type", "tenant"]
    target: str
    """The queue's group, the type's name, or the tenant's organization."""
    priority: Priority | None = None
    """The only priority of the queue that is meant; None means all of them."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class QueuePaused(PauseEvent):
    name = "queue.paused"
    since: datetime
    until: datetime
    """The time at which the pause ends by itself."""
    reason: str
    actor: str
    """The person who asked for it; empty if that was not said."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class QueueResumed(PauseEvent):
    name = "queue.resumed"
