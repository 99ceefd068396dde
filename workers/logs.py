"""Logs as a subscriber to events: one line each, JSON for machines, plain for a terminal."""

from __future__ import annotations

import logging
import sys
from dataclasses import fields
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from jobs.context import current_job
from jobs.events import (
    BreakerClosed,
    BreakerOpened,
    BreakerProbing,
    BudgetSpent,
    Event,
    HeartbeatExtended,
    HeartbeatFailed,
    HookFailed,
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobDiscarded,
    JobFailed,
    JobInterrupted,
    JobProgress,
    JobQuarantined,
    JobRetryScheduled,
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
    ReceiptLost,
    RecordsFailed,
    SettlementFailed,
    SettlementFlushed,
)

_log = logging.getLogger("headgate.worker")

LEVELS: dict[type[Event], int] = {
    JobSubmitted: logging.DEBUG,
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
    JobInterrupted: logging.WARNING,
    JobStalled: logging.WARNING,
    MessageUnrunnable: logging.WARNING,
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
    LimitReached: logging.INFO,
    LimitCleared: logging.INFO,
    BreakerOpened: logging.WARNING,
    BreakerProbing: logging.INFO,
    BreakerClosed: logging.INFO,
    BudgetSpent: logging.WARNING,
    LeaseFailed: logging.WARNING,
}
"""How loud each event is; a test proves that none is missing."""

_SDKS = ("aiobotocore", "boto3", "botocore")
"""They log whole requests, payloads included, at DEBUG, and nothing of use at INFO."""

_LEFT_OUT = {"at", "data", "tenant", "traceback"}


def log_event(event: Event) -> None:
    """Write one event to the log, with its fields beside the message."""
    level = LEVELS[type(event)]
    if not _log.isEnabledFor(level):
        return
    details = {
        field.name: getattr(event, field.name)
        for field in fields(event)
        if field.name not in _LEFT_OUT
    }
    if tenant := getattr(event, "tenant", None):
        details["tenant"] = tenant.org
    text = " ".join(f"{name}={_brief(value)}" for name, value in details.items())
    if isinstance(event, JobFailed):
        details["traceback"] = event.traceback
    _log.log(level, "%s %s", event.name, text, extra=details)


def configure(*, level: int = logging.INFO, json: bool | None = None) -> None:
    """Send Headgate's and the handlers' logs to standard error.

    Args:
        level: the least level that is written.
        json: one JSON object a line; None means whenever standard error is no terminal.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_name_job)
    if json if json is not None else not sys.stderr.isatty():
        handler.setFormatter(
            JsonFormatter(
                "{levelname}{name}{message}",
                style="{",
                timestamp="at",  # ISO 8601 in UTC
                rename_fields={"levelname": "level", "name": "logger"},
            )
        )
    else:
        handler.setFormatter(_PlainFormatter("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _SDKS:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def _name_job(record: logging.LogRecord) -> bool:
    """Put the running job's id and type on a line, whoever writes it."""
    if (ctx := current_job.get()) is not None and not hasattr(record, "job_id"):
        record.job_id, record.job_type, record.attempt = ctx.id, ctx.type, ctx.attempt
    return True


class _PlainFormatter(logging.Formatter):
    """For people: a failure's traceback goes below its line."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        trace: str | None = getattr(record, "traceback", None)
        return f"{line}\n{trace.rstrip()}" if trace else line


def _brief(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    # Quoted, a line break stays within its line.
    return repr(text) if " " in text or not text or not text.isprintable() else text
