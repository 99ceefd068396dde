"""Events of queues, and of messages that may not be jobs."""

from __future__ import annotations

from headgate.jobs.core.events.root import Event
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class QueueEvent(Event):
    """Something happened at a queue, possibly without concerning a known job."""

    queue: str
    """The queue's physical name."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class MessageUnrunnable(QueueEvent):
    name = "message.unrunnable"
    message_id: str
    job_id: str | None
    """None if it can't be read from the message; likewise ``job_type``."""
    job_type: str | None
    reason: str
    detail: str
    receives: int
    retry_in_s: int | None
    """Seconds until it is delivered again; None if it was parked in the dead-letter queue. If it is
    a job of the app's, whose payload can't be read for instance, a `JobDeadLettered` follows."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class FiringRefused(QueueEvent):
    name = "firing.refused"
    job_id: str
    job_type: str
    error: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class SettlementFailed(QueueEvent):
    name = "settlement.failed"
    message_id: str
    job_id: str
    action: str
    """``delete``, ``change_visibility``, ``send``, ``schedule``, ``cancel`` or ``keep_payload``."""
    error: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptLost(QueueEvent):
    name = "receipt.lost"
    message_id: str
    error: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class SettlementFlushed(QueueEvent):
    name = "settlement.flushed"
    action: str
    """``delete``, ``change_visibility`` or ``send``."""
    entries: int


@light_dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatExtended(QueueEvent):
    name = "heartbeat.extended"
    messages: int


@light_dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatFailed(QueueEvent):
    name = "heartbeat.failed"
    error: str
    messages: int
    """Number of messages that could not be extended."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class PollReceived(QueueEvent):
    name = "poll.received"
    messages: int
    took_s: float


@light_dataclass(frozen=True, slots=True, kw_only=True)
class PollFailed(QueueEvent):
    name = "poll.failed"
    error: str
    retry_in_s: float
    missing: bool = False
    """True if SQS reports that the queue does not exist."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFailed(QueueEvent):
    name = "claim.failed"
    action: str
    """``take``, ``renew``, ``release`` or ``finish`` of a claim; of a claim on a uniqueness key
    ``renew``, ``confirm``, ``take back`` or ``look``."""
    job_id: str
    error: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class SpoolFailed(QueueEvent):
    name = "spool.failed"
    error: str
    waiting: int
    """Number of jobs in the spool, those of other queues included."""
