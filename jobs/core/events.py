"""Everything that happens, as typed events; logs, metrics, records and hooks subscribe to them.

    name                  emitted when
    job.submitted         SQS took a job from this client
    job.spooled           SQS could not be reached: the job waits in this machine's spool
    job.spool_refused     SQS refuses a job of the spool by name; it stays there, set aside
    job.inline            SQS could not be reached: the job runs in place
    job.deduplicated      a job was not sent, or is dropped, because another one stands for it
    job.started           a handler is about to be called
    job.progress          its handler says how far it is
    job.completed         the handler returned
    job.failed            the handler raised or timed out; what follows has an event of its own
    job.retry_scheduled   it will be delivered again after a delay
    job.dead_lettered     it is in the dead-letter queue; this is durable
    job.quarantined       it is in the quarantine queue; this is durable
    job.deferred          it was given back by its handler, which is no failure
    job.crashed           the process that ran it died, now or in an earlier delivery
    job.discarded         its handler ended it
    job.cancelled         it was cancelled, before or while its handler ran
    job.already_done      a delivery of a job with once=True that is done: it is deleted, not run
    job.interrupted       the worker gave it back: shutdown, or its receipt was lost
    job.stalled           a plain function runs past its timeout and can't be stopped
    message.unrunnable    a message can't become a job here; it is backed off, or parked
    settlement.failed     SQS did not carry out a verdict; a delete and a dead letter are tried
                          again while the worker holds the message, else it is delivered again
    receipt.lost          a delivery that is still being worked on is no longer surely ours
    settlement.flushed    one request of deletes, visibility changes or dead letters was answered
    heartbeat.extended    the visibility of a batch of held messages was extended
    heartbeat.failed      visibility could not be extended; it is tried again
    poll.received         a receive returned, with or without messages
    poll.failed           a receive failed; the poller backs off
    loop.blocked          a handler kept the event loop from turning, and with it all others
    hook.failed           a hook raised, or took too long; nothing else changes
    records.failed        records could not be read or written; jobs go on without
    records.written       a request wrote records that nothing waits for
    records.shed          records were given up: there was no room left for them, or no time
    cancellations.failed  it could not be read which jobs are cancelled; it is tried again
    claim.failed          the table did not answer for a job with once=True, which is given back or
                          held; or for a unique one, beside which its like may run then
    limit.reached         a limit holds back what has been received, or stops receiving
    limit.cleared         it lets work through again
    breaker.opened        too many failures: what it guards is not run for a while
    breaker.probing       a few jobs are let through, to see whether the fault is over
    breaker.closed        what it guards runs again
    budget.spent          a queue's retries for this while are used up
    lease.failed          this worker's part of a limit of the fleet could not be renewed: once it
                          has run out, nothing that is limited so starts here
    spool.failed          jobs of the spool could not be sent; they stay there, and are tried again

Payloads and credentials are never put into an event. The text of an exception is what whoever
raised it has made it: a handler that quotes its payload in one has it logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from headgate.jobs.core.context import Tenant
from headgate.jobs.core.topology import Priority

__all__ = [
    "BreakerClosed",
    "BreakerOpened",
    "BreakerProbing",
    "BudgetSpent",
    "CancellationsFailed",
    "ClaimFailed",
    "Event",
    "Events",
    "HeartbeatExtended",
    "HeartbeatFailed",
    "HookFailed",
    "JobAlreadyDone",
    "JobCancelled",
    "JobCompleted",
    "JobCrashed",
    "JobDeadLettered",
    "JobDeduplicated",
    "JobDeferred",
    "JobDiscarded",
    "JobEvent",
    "JobFailed",
    "JobInline",
    "JobInterrupted",
    "JobProgress",
    "JobQuarantined",
    "JobRetryScheduled",
    "JobSpoolRefused",
    "JobSpooled",
    "JobStalled",
    "JobStarted",
    "JobSubmitted",
    "LeaseFailed",
    "LimitCleared",
    "LimitEvent",
    "LimitReached",
    "LoopBlocked",
    "MessageUnrunnable",
    "PollFailed",
    "PollReceived",
    "QueueEvent",
    "ReceiptLost",
    "RecordsFailed",
    "RecordsShed",
    "RecordsWritten",
    "SettlementFailed",
    "SettlementFlushed",
    "SpoolFailed",
]

_log = logging.getLogger("headgate.events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The root of all events."""

    name: ClassVar[str]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Event):
    """Something happened to one job."""

    job_id: str
    job_type: str
    queue: str
    priority: Priority
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted(JobEvent):
    name = "job.submitted"
    delay_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpooled(JobEvent):
    name = "job.spooled"
    reason: str
    """What kept SQS from taking it, or that others wait before it."""
    waiting: int
    """Jobs in the spool by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpoolRefused(JobEvent):
    name = "job.spool_refused"
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInline(JobEvent):
    name = "job.inline"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDeduplicated(JobEvent):
    name = "job.deduplicated"
    kept: str
    """The id of the job that stands for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempted(JobEvent):
    attempt: int
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(_Attempted):
    name = "job.started"
    waited_s: float
    """From when it was due (submitted, or the end of its delay) on a first attempt, else 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress(_Attempted):
    name = "job.progress"
    percent: float
    """0 to 100."""
    note: str
    """What it does now, in its handler's words."""
    data: Mapping[str, Any]
    """What the handler added; JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompleted(_Attempted):
    name = "job.completed"
    ran_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed(_Attempted):
    name = "job.failed"
    ran_s: float
    error_type: str
    error_message: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRetryScheduled(_Attempted):
    name = "job.retry_scheduled"
    delay_s: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDeadLettered(_Attempted):
    name = "job.dead_lettered"
    reason: str
    error_type: str
    error_message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuarantined(_Attempted):
    name = "job.quarantined"
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDeferred(_Attempted):
    name = "job.deferred"
    delay_s: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCrashed(_Attempted):
    name = "job.crashed"
    detail: str
    crashes: int
    """Of this job within the time that counts, this one included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDiscarded(_Attempted):
    name = "job.discarded"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(_Attempted):
    name = "job.cancelled"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAlreadyDone(_Attempted):
    name = "job.already_done"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInterrupted(_Attempted):
    name = "job.interrupted"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStalled(_Attempted):
    name = "job.stalled"
    timeout_s: float


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFailed(QueueEvent):
    name = "claim.failed"
    action: str
    """``take``, ``renew``, ``release`` or ``finish`` of one; of one on what is unique ``renew``,
    ``confirm``, ``take back`` or ``look``."""
    job_id: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEvent(Event):
    """Something happened to a limit."""

    limit: str
    """Which one: ``rate:queue:payments``, ``breaker:type:charge-card``, ``concurrency:app``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(LimitEvent):
    name = "limit.reached"
    retry_in_s: float | None
    """None: when that ends can't be told, since it hangs on other jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCleared(LimitEvent):
    name = "limit.cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerOpened(LimitEvent):
    name = "breaker.opened"
    failures: int
    """Within the breaker's window, of so many ``runs``."""
    runs: int
    open_for_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerProbing(LimitEvent):
    name = "breaker.probing"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerClosed(LimitEvent):
    name = "breaker.closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpent(LimitEvent):
    name = "budget.spent"
    retry_in_s: float
    """When the next retry fits into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFailed(LimitEvent):
    name = "lease.failed"
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolFailed(QueueEvent):
    name = "spool.failed"
    error: str
    waiting: int
    """Jobs in the spool, those of other queues included."""


Subscriber = Callable[[Event], None]


class Events:
    """Hands each event to every subscriber, in the order of their subscription."""

    def __init__(self, *subscribers: Subscriber) -> None:
        self._subscribers = list(subscribers)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Add a subscriber. It runs where the event happens, so it must be quick and not block."""
        self._subscribers.append(subscriber)

    def emit(self, event: Event) -> None:
        """Hand ``event`` to all. One that raises is reported, and changes nothing for others."""
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:  # noqa: BLE001 - the users' code; logged with its traceback
                _log.exception("a subscriber failed on %s", event.name)
