"""Items as a worker would have written them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.retention import DEFAULT_KEEP, Keep, RecordsLevel
from headgate.jobs.records.items import Mark, Scribe


def scribe(
    job_id: str,
    message_id: str,
    receive: int = 1,
    *,
    level: RecordsLevel = "outcomes",
    keep: Keep = DEFAULT_KEEP,
) -> Scribe:
    """Return the scribe of one delivery."""
    return Scribe(
        job_id=job_id,
        message_id=message_id,
        receive=receive,
        job_type="send-email",
        queue="mail",
        worker="worker-1",
        level=level,
        keep=keep,
        retention=timedelta(days=4),
    )


def mark(job_id: str, message_id: str, receive: int, kind: Mark, at: datetime, **data: Any) -> Item:
    """Return the mark that a worker writes about one delivery."""
    return scribe(job_id, message_id, receive).mark(kind, at, data)
