"""Logging of events, and the running job's id and type on every log line."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from copy import copy
from dataclasses import fields
from typing import Any, Protocol

from headgate.jobs.core.events import (
    BreakerClosed,
    BreakerEvent,
    BreakerOpened,
    BreakerProbing,
    BudgetSpent,
    CancellationsFailed,
    ClaimFailed,
    Event,
    FiringRefused,
    HeartbeatExtended,
    HeartbeatFailed,
    HookFailed,
    ItemsSkipped,
    JobAlreadyDone,
    JobCancelled,
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeduplicated,
    JobDeferred,
    JobDiscarded,
    JobDropped,
    JobFailed,
    JobInline,
    JobInterrupted,
    JobProgress,
    JobQuarantined,
    JobRetryScheduled,
    JobSpooled,
    JobSpoolRefused,
    JobStalled,
    JobStarted,
    JobSubmitted,
    LeaseFailed,
    LimitCleared,
    LimitReached,
    LoopBlocked,
    MessageUnrunnable,
    PollFailed,
    PollReceived,
    QueuePaused,
    QueueResumed,
    ReceiptLost,
    RecordsFailed,
    RecordsShed,
    RecordsWritten,
    SettlementFailed,
    SettlementFlushed,
    SigningKeysFailed,
    SpoolFailed,
)
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import LONGEST, legible

_log = OwnLog("headgate.worker")


class RunningJob(Protocol):
    """The job that is running, as its log lines name it."""

    @property
    def id(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def attempt(self) -> int: ...


current_job: ContextVar[RunningJob | None] = ContextVar("headgate_job", default=None)
"""The job running in this context, so that its log lines can name it."""

LEVELS: dict[type[Event], int] = {
    JobSubmitted: logging.DEBUG,
    JobSpooled: logging.WARNING,
    JobSpoolRefused: logging.ERROR,
    JobInline: logging.WARNING,
    JobDeduplicated: logging.INFO,
    JobStarted: logging.DEBUG,
    JobProgress: logging.DEBUG,
    JobCompleted: logging.INFO,
    JobFailed: logging.WARNING,
    JobRetryScheduled: logging.INFO,
    JobDeadLettered: logging.ERROR,
    JobQuarantined: logging.CRITICAL,
    JobCrashed: logging.ERROR,
    JobDeferred: logging.INFO,
    JobDiscarded: logging.INFO,
    JobDropped: logging.INFO,
    JobCancelled: logging.INFO,
    JobAlreadyDone: logging.INFO,
    JobInterrupted: logging.WARNING,
    JobStalled: logging.WARNING,
    MessageUnrunnable: logging.WARNING,
    FiringRefused: logging.ERROR,
    SettlementFailed: logging.ERROR,
    SettlementFlushed: logging.DEBUG,
    ReceiptLost: logging.WARNING,
    HeartbeatExtended: logging.DEBUG,
    HeartbeatFailed: logging.WARNING,
    PollReceived: logging.DEBUG,
    PollFailed: logging.WARNING,
    LoopBlocked: logging.WARNING,
    HookFailed: logging.ERROR,
    RecordsFailed: logging.WARNING,
    RecordsWritten: logging.DEBUG,
    RecordsShed: logging.ERROR,
    CancellationsFailed: logging.WARNING,
    SigningKeysFailed: logging.ERROR,
    ItemsSkipped: logging.WARNING,
    ClaimFailed: logging.WARNING,
    QueuePaused: logging.WARNING,
    QueueResumed: logging.INFO,
    LimitReached: logging.INFO,
    LimitCleared: logging.INFO,
    BreakerOpened: logging.WARNING,
    BreakerProbing: logging.INFO,
    BreakerClosed: logging.INFO,
    BudgetSpent: logging.WARNING,
    LeaseFailed: logging.WARNING,
    SpoolFailed: logging.WARNING,
}
"""The log level of each event; a test proves that none is missing."""

_LONGEST_IN_LINE = 1_000
"""Maximum characters of a field within the message; the same field among the record's extra
fields has up to `jobs.values.texts.LONGEST`."""

_LINE = "%s %s"
"""The text of an event's line: its name, and its fields in brief."""

_LEFT_OUT = {"at", "data", "tenant", "traceback"}

_WORDS = (JobProgress, "note")
"""Words of a handler, as ``data`` is, which may quote the payload; a retry's note is Headgate's."""


def log_event(event: Event) -> None:
    """Log one event, with its fields as extra fields of the record."""
    level = _level(event)
    if not _log.isEnabledFor(level):
        return
    details = {
        field.name: _bounded(getattr(event, field.name))
        for field in fields(event)
        if field.name not in _LEFT_OUT and (type(event), field.name) != _WORDS
    }
    if tenant := getattr(event, "tenant", None):
        details["tenant"] = tenant.org
    text = " ".join(f"{name}={_brief(value)}" for name, value in details.items())
    if isinstance(event, JobFailed):
        _log_failure(event, level, text, details)
    else:
        _log.log(level, _LINE, event.name, text, extra=details)


def _log_failure(event: JobFailed, level: int, text: str, details: dict[str, Any]) -> None:
    """Log a failure with its traceback, which any formatter then writes, as that of an exception.

    The exception itself may have been raised in another process.
    """
    details["traceback"] = event.traceback
    log = _log.logger
    record = log.makeRecord(
        log.name, level, __file__, 0, _LINE, (event.name, text), None, "log_event", details
    )
    record.exc_text = event.traceback.rstrip()
    log.handle(record)


def _level(event: Event) -> int:
    if isinstance(event, BreakerEvent) and event.key is not None:
        return logging.INFO  # of many, some are open on any day; the metrics count them
    if isinstance(event, JobRetryScheduled) and event.backoff_fault:
        return logging.WARNING
    if isinstance(event, MessageUnrunnable) and event.retry_in_s is None:
        return logging.ERROR  # it was parked
    return LEVELS[type(event)]


def name_job(record: logging.LogRecord) -> bool:
    """Add the running job's id and type to any logger's record; a logging filter."""
    if (ctx := current_job.get()) is not None and not hasattr(record, "job_id"):
        record.job_id, record.job_type, record.attempt = ctx.id, ctx.type, ctx.attempt
    return True


class BoundedTraces(logging.Formatter):
    """A formatter mixin that bounds the length of a traceback, keeping its end."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's own name
        """Format the traceback as `logging` does, cut to `jobs.values.texts.LONGEST` characters."""
        return legible(super().formatException(ei), from_end=True)


class EventsByFields(BoundedTraces):
    """A mixin for formatters that write the extra fields: an event's message is its name alone."""

    def format(self, record: logging.LogRecord) -> str:
        if record.msg is _LINE and isinstance(args := record.args, tuple):
            record = copy(record)  # other handlers format the same record
            record.msg, record.args = str(args[0]), None
            record.exc_text = None  # a failure's traceback is one of the fields
        return super().format(record)


def _bounded(value: Any) -> Any:
    """Return a field's value as an extra field of the record."""
    return legible(value) if isinstance(value, str) and len(value) > LONGEST else value


def _brief(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    if len(text) > _LONGEST_IN_LINE:
        text = legible(text, _LONGEST_IN_LINE)
    # Quoted, so that a line break in the text doesn't start a new line.
    return repr(text) if " " in text or not text or not text.isprintable() else text
