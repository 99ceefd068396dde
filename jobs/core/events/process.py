"""Events of a worker or a function as a whole: its event loop, its hooks, its records."""

from __future__ import annotations

from headgate.jobs.core.events.root import Event
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class LoopBlocked(Event):
    name = "loop.blocked"
    blocked_s: float
    job_types: tuple[str, ...]
    """Types of the async handlers that were running or had just ended. One of them blocked the
    loop, unless the machine stood still."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class HookFailed(Event):
    name = "hook.failed"
    hook: str
    event: str
    """The name of the event that the hook was called with."""
    error: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class RecordsFailed(Event):
    name = "records.failed"
    action: str
    """``read`` or ``write`` of the jobs' records, ``renew`` of a worker's own heartbeat record,
    ``status`` of what it shows of itself, or ``trim`` of records that are kept by count."""
    error: str
    job_id: str | None = None
    """None for a batch of several jobs."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class RecordsWritten(Event):
    name = "records.written"
    items: int


@light_dataclass(frozen=True, slots=True, kw_only=True)
class RecordsShed(Event):
    name = "records.shed"
    items: int


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ItemsSkipped(Event):
    name = "items.skipped"
    kind: str
    """``cancellation``, ``pause``, ``claim``, ``unique key``, ``lease``, ``retry budget`` or
    ``life``."""
    items: int
    job_id: str | None = None
    """The job that they were read for; None if they concern no single one."""
    detail: str = ""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeysFailed(Event):
    name = "signing.keys_failed"
    secret: str
    error: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class CancellationsFailed(Event):
    name = "cancellations.failed"
    error: str
