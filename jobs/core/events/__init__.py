"""Everything that happens, as typed events; logs, metrics, records and hooks subscribe to them.

    name                  emitted when
    job.submitted         SQS took a job from this client
    job.spooled           SQS could not be reached: the job waits in this machine's spool
    job.spool_refused     SQS refused a single job of the spool; it stays there, set aside
    job.inline            SQS could not be reached: the job runs in place
    job.deduplicated      a job was not sent, because it duplicates another one
    job.started           a handler is about to be called
    job.progress          its handler reported progress
    job.completed         the handler returned
    job.failed            the handler raised or timed out; the consequence has its own event
    job.retry_scheduled   it will be delivered again after a delay
    job.dead_lettered     it is durably in the dead-letter queue
    job.quarantined       it is durably in the quarantine queue
    job.deferred          it was given back by its handler, which is no failure
    job.crashed           the process that ran it died, now or in an earlier delivery
    job.discarded         its handler ended it
    job.dropped           it ended without a run: a later job replaced it before it started
    job.cancelled         it was cancelled, before or while its handler ran
    job.already_done      a delivery of a job with once=True that is done: it is deleted, not run
    job.interrupted       the worker gave it back: shutdown, a lost receipt, a stop of its batch
    job.stalled           a synchronous handler runs past its timeout and can't be stopped
    message.unrunnable    a message can't become a job here; it is backed off, or parked
    firing.refused        the bridge was to send a job to a queue that its type doesn't run from;
                          the input is kept among the failed firings
    settlement.failed     SQS did not carry out a verdict; a delete and a dead letter are tried
                          again while the worker holds the message, else it is delivered again
    receipt.lost          a delivery in work may have gone to another worker
    settlement.flushed    one request of deletes, visibility changes or dead letters was answered
    heartbeat.extended    the visibility of a batch of held messages was extended
    heartbeat.failed      visibility could not be extended; it is tried again
    poll.received         a receive returned, with or without messages
    poll.failed           a receive failed; the poller backs off
    loop.blocked          a handler blocked the event loop, and with it all others
    hook.failed           a hook raised, or took too long; nothing else changes
    records.failed        records could not be read or written; jobs continue without them
    records.written       a request wrote records in the background
    records.shed          records were given up, for lack of room or time
    signing.keys_failed   the keys that sign messages could not be read; those that are known stay
                          in use, and it is tried again
    cancellations.failed  the cancelled jobs could not be read; it is tried again
    items.skipped         items of the table were left out: Headgate has not written them, or they
                          are another job type's
    claim.failed          the table did not answer for a job with once=True, which is given back or
                          held; or for a unique one: a duplicate may then run
    queue.paused          a queue, a type or a tenant is paused: none of its jobs starts
    queue.resumed         its pause is over
    limit.reached         a limit blocks received messages, or stops receiving
    limit.cleared         it lets jobs start again
    breaker.opened        too many failures: the jobs that it guards don't run for a while
    breaker.probing       a few jobs start, to test whether the fault is over
    breaker.closed        the jobs that it guards run again
    budget.spent          a queue's retry budget is exhausted for now
    lease.failed          this worker's share of a fleet's limit could not be renewed: once it
                          has expired, no job under that limit starts here
    spool.failed          jobs of the spool could not be sent; they stay there for another try

Payloads and credentials are never put into an event. The text of an exception is included as it
is: if a handler quotes its payload in one, the payload is logged.


The classes are imported on first use, by module: making them all takes a submitter longer than its
submission.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.jobs.core.events.root import Event, Events
from headgate.jobs.core.events.root import Subscriber as Subscriber
from headgate.jobs.core.events.root import any_of as any_of

if TYPE_CHECKING:
    from headgate.jobs.core.events.jobs import (
        JobAlreadyDone,
        JobCancelled,
        JobCompleted,
        JobCrashed,
        JobDeadLettered,
        JobDeferred,
        JobDiscarded,
        JobDropped,
        JobFailed,
        JobInterrupted,
        JobProgress,
        JobQuarantined,
        JobRetryScheduled,
        JobStalled,
        JobStarted,
    )
    from headgate.jobs.core.events.limits import (
        BreakerClosed,
        BreakerEvent,
        BreakerOpened,
        BreakerProbing,
        BudgetSpent,
        LeaseFailed,
        LimitCleared,
        LimitEvent,
        LimitReached,
    )
    from headgate.jobs.core.events.pauses import (
        PauseEvent,
        QueuePaused,
        QueueResumed,
    )
    from headgate.jobs.core.events.process import (
        CancellationsFailed,
        HookFailed,
        ItemsSkipped,
        LoopBlocked,
        RecordsFailed,
        RecordsShed,
        RecordsWritten,
        SigningKeysFailed,
    )
    from headgate.jobs.core.events.queues import (
        ClaimFailed,
        FiringRefused,
        HeartbeatExtended,
        HeartbeatFailed,
        MessageUnrunnable,
        PollFailed,
        PollReceived,
        QueueEvent,
        ReceiptLost,
        SettlementFailed,
        SettlementFlushed,
        SpoolFailed,
    )
    from headgate.jobs.core.events.submissions import (
        JobDeduplicated,
        JobEvent,
        JobInline,
        JobSpooled,
        JobSpoolRefused,
        JobSubmitted,
    )

__all__ = [
    "BreakerClosed",
    "BreakerEvent",
    "BreakerOpened",
    "BreakerProbing",
    "BudgetSpent",
    "CancellationsFailed",
    "ClaimFailed",
    "Event",
    "Events",
    "FiringRefused",
    "HeartbeatExtended",
    "HeartbeatFailed",
    "HookFailed",
    "ItemsSkipped",
    "JobAlreadyDone",
    "JobCancelled",
    "JobCompleted",
    "JobCrashed",
    "JobDeadLettered",
    "JobDeduplicated",
    "JobDeferred",
    "JobDiscarded",
    "JobDropped",
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
    "PauseEvent",
    "PollFailed",
    "PollReceived",
    "QueueEvent",
    "QueuePaused",
    "QueueResumed",
    "ReceiptLost",
    "RecordsFailed",
    "RecordsShed",
    "RecordsWritten",
    "SettlementFailed",
    "SettlementFlushed",
    "SigningKeysFailed",
    "SpoolFailed",
]

_HOMES = {
    "jobs": (
        "JobAlreadyDone",
        "JobCancelled",
        "JobCompleted",
        "JobCrashed",
        "JobDeadLettered",
        "JobDeferred",
        "JobDiscarded",
        "JobDropped",
        "JobFailed",
        "JobInterrupted",
        "JobProgress",
        "JobQuarantined",
        "JobRetryScheduled",
        "JobStalled",
        "JobStarted",
    ),
    "limits": (
        "BreakerClosed",
        "BreakerEvent",
        "BreakerOpened",
        "BreakerProbing",
        "BudgetSpent",
        "LeaseFailed",
        "LimitCleared",
        "LimitEvent",
        "LimitReached",
    ),
    "pauses": (
        "PauseEvent",
        "QueuePaused",
        "QueueResumed",
    ),
    "process": (
        "CancellationsFailed",
        "HookFailed",
        "ItemsSkipped",
        "LoopBlocked",
        "RecordsFailed",
        "RecordsShed",
        "RecordsWritten",
        "SigningKeysFailed",
    ),
    "queues": (
        "ClaimFailed",
        "FiringRefused",
        "HeartbeatExtended",
        "HeartbeatFailed",
        "MessageUnrunnable",
        "PollFailed",
        "PollReceived",
        "QueueEvent",
        "ReceiptLost",
        "SettlementFailed",
        "SettlementFlushed",
        "SpoolFailed",
    ),
    "submissions": (
        "JobDeduplicated",
        "JobEvent",
        "JobInline",
        "JobSpooled",
        "JobSpoolRefused",
        "JobSubmitted",
    ),
}
"""The names of each module."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if (home := _HOME_OF.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{home}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
