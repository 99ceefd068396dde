"""What happens at a queue, and to messages that may be no job."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.jobs.core.events.root import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEvent(Event):
    """Something happened at a queue that may not concern one known job."""

    queue: str
    """The physical name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUnrunnable(QueueEvent):
    name = "message.unrunnable"
    message_id: str
    job_id: str | None
    """None where the message doesn't say it legibly; so too ``job_type``."""
    job_type: str | None
    reason: str
    detail: str
    receives: int
    retry_in_s: int | None
    """None: it has been parked in the dead-letter queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementFailed(QueueEvent):
    name = "settlement.failed"
    message_id: str
    job_id: str
    action: str
    """``delete``, ``change_visibility``, ``send``, ``schedule`` or ``keep_payload``."""
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptLost(QueueEvent):
    name = "receipt.lost"
    message_id: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementFlushed(QueueEvent):
    name = "settlement.flushed"
    action: str
    """``delete``, ``change_visibility`` or ``send``."""
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatExtended(QueueEvent):
    name = "heartbeat.extended"
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatFailed(QueueEvent):
    name = "heartbeat.failed"
    error: str
    messages: int
    """How many could not be extended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollReceived(QueueEvent):
    name = "poll.received"
    messages: int
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFailed(QueueEvent):
    name = "poll.failed"
    error: str
    retry_in_s: float
    missing: bool = False
    """SQS knows no such queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFailed(QueueEvent):
    name = "claim.failed"
    action: str
    """``take``, ``renew``, ``release`` or ``finish`` of one; of one on what is unique ``renew``,
    ``confirm``, ``take back`` or ``look``."""
    job_id: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolFailed(QueueEvent):
    name = "spool.failed"
    error: str
    waiting: int
    """Jobs in the spool, those of other queues included."""
