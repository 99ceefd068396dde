"""What happens to a worker or a function as a whole: its loop, its hooks, its records."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.jobs.core.events.root import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBlocked(Event):
    name = "loop.blocked"
    blocked_s: float
    job_types: tuple[str, ...]
    """Of the async handlers that ran: one of them is to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFailed(Event):
    name = "hook.failed"
    hook: str
    event: str
    """The name of the event that it was called with."""
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsFailed(Event):
    name = "records.failed"
    action: str
    """``read`` or ``write`` of what happened to jobs, ``renew`` of a worker's own sign of life, or
    ``trim`` of what is kept by count."""
    error: str
    job_id: str | None = None
    """None where it was a batch of several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsWritten(Event):
    name = "records.written"
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsShed(Event):
    name = "records.shed"
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationsFailed(Event):
    name = "cancellations.failed"
    error: str
