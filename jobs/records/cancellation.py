"""Requests to cancel jobs: the items that make one, and how workers read them.

    pk  job#ID          sk  cancel    data  {at, reason}     for readers of the job's history
    pk  cancellations   sk  ID        data  {at, reason}     for workers

Workers read the whole second partition every few seconds, so that no job costs a read of its own.
It stays small because an item expires once no queue can hold the job any more.
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
"""Characters in a reason: about a tenth of a read unit, and every worker reads it for days."""


def cancellation(job_id: str, reason: str, at: datetime, *, useful: timedelta) -> tuple[Item, Item]:
    """Return the items that ask for a job to be cancelled.

    Args:
        job_id: the job's id.
        reason: why, in a word or two.
        at: when; aware.
        useful: the time for which a queue may hold the job.

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
    """Return the ids of the jobs to cancel, each with its reason."""
    return {item.sk: item.data["reason"] for item in items}


def never_sent(job_id: str, reason: str, at: datetime) -> Item:
    """Return the end of a job that waited in a one-time schedule, which has been deleted.

    No worker ever receives the job. The item takes the place that a delivery's would have.
    """
    return Item(
        pk=partition(job_id),
        sk=f"{deliveries_of('schedule')}{0:05d}#{Mark.CANCELLED}",
        data={"at": at.isoformat(), "reason": legible(reason)},
        expires_at=at + DEFAULT_KEEP.failed,
    )
