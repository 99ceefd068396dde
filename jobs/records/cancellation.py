"""Asking for a job to be cancelled: what is written of it, and how workers read that.

    pk  job#ID          sk  cancel    data  {at, reason}     for those who read the job
    pk  cancellations   sk  ID        data  {at, reason}     for workers

Workers read the second partition every few seconds, all of it at once, so that no job pays for a
read of its own. It stays small because an item is of no use, and expires, once no queue can hold
the job any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from headgate.jobs.core.ports import Item
from headgate.jobs.core.retention import DEFAULT_KEEP
from headgate.jobs.records.items import Mark, deliveries_of, partition
from headgate.jobs.records.state import CANCEL
from headgate.jobs.values.texts import legible

CANCELLATIONS = "cancellations"
"""The partition that workers read."""

LONGEST_REASON = 300
"""Characters: about a tenth of what one read unit holds, and every worker reads it for days."""


def cancellation(job_id: str, reason: str, at: datetime, *, useful: timedelta) -> tuple[Item, Item]:
    """The items that ask for a job to be cancelled.

    Args:
        job_id: which.
        reason: why, in a word or two.
        at: when; aware.
        useful: how long a queue may hold the job.

    Raises:
        ValueError: the reason is longer than `LONGEST_REASON`.
    """
    if len(reason) > LONGEST_REASON:
        raise ValueError(
            f"the reason of a cancellation has at most {LONGEST_REASON} characters, "
            f"got {len(reason)}"
        )
    data = {"at": at.isoformat(), "reason": legible(reason, LONGEST_REASON)}
    return (
        Item(pk=partition(job_id), sk=CANCEL, data=data, expires_at=at + DEFAULT_KEEP.failed),
        Item(pk=CANCELLATIONS, sk=job_id, data=data, expires_at=at + useful),
    )


def read_cancellations(items: Iterable[Item]) -> Mapping[str, str]:
    """The jobs to cancel by their ids, each with the reason."""
    return {item.sk: item.data["reason"] for item in items}


def never_sent(job_id: str, reason: str, at: datetime) -> Item:
    """The end of a job that waited in a schedule of its own, which has been deleted.

    No worker will ever hear of it. It stands where a worker would have written of a delivery.
    """
    return Item(
        pk=partition(job_id),
        sk=f"{deliveries_of('schedule')}{0:05d}#{Mark.CANCELLED}",
        data={"at": at.isoformat(), "reason": legible(reason)},
        expires_at=at + DEFAULT_KEEP.failed,
    )
