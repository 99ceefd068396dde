"""Requests to cancel jobs: the items that make one, and how workers read them.

    pk  asked#ID        sk  cancel    data  {at, reason, type?, actor?}    for the job's history
    pk  cancellations   sk  ID        data  {at, reason, type?}            for workers

Workers read the second partition every few seconds, so that no job costs a read of its own. It
stays small because an item expires once no queue can hold the job any more. With a ``type`` only a
job of that type is cancelled: an id is the sender's choice, and a job of another type may have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.core.retention import DEFAULT_KEEP
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.records.items import (
    Mark,
    asked_partition,
    deliveries_of,
    line_of,
    submission_of,
)
from headgate.jobs.records.state import CANCEL
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.stored import text
from headgate.jobs.values.texts import legible

CANCELLATIONS = "cancellations"
"""The partition that workers read."""

LONGEST_REASON = 300
"""Characters in a reason: about a tenth of a read unit, and every worker reads it for days."""

LONGEST_ACTOR = 100
"""Maximum number of characters of an actor's name."""

_LONGEST_ID = 64

_LONGEST_TYPE = 128


@light_dataclass(frozen=True, slots=True)
class CancelRequest:
    """A request as workers know it."""

    reason: str
    job_type: str | None

    def concerns(self, job_type: str) -> bool:
        """Return True if a job of that type is meant."""
        return self.job_type is None or self.job_type == job_type


def check_reason(reason: str) -> None:
    """Check the reason of a cancellation or a pause.

    Raises:
        SettingsInvalid: it is longer than `LONGEST_REASON`.
    """
    if len(reason) > LONGEST_REASON:
        raise SettingsInvalid(f"reason has at most {LONGEST_REASON} characters, got {len(reason)}")


def cancellation(
    job_id: str,
    reason: str,
    at: datetime,
    *,
    useful: timedelta,
    job_type: str | None = None,
    actor: str = "",
) -> tuple[Item, Item]:
    """Return the items that ask for a job to be cancelled.

    Args:
        job_id: the job's id.
        reason: why, in a word or two.
        at: when; aware.
        useful: the time for which a queue may hold the job.
        job_type: its type; None cancels a job of any type that has the id.
        actor: who asks; empty if that is not known.

    Raises:
        SettingsInvalid: the reason is longer than `LONGEST_REASON`.
    """
    check_reason(reason)
    data = {"at": at.isoformat(), "reason": legible(reason, LONGEST_REASON)}
    if job_type is not None:
        data["type"] = job_type
    told = {**data, "actor": actor} if actor else data
    return (
        Item(pk=asked_partition(job_id), sk=CANCEL, data=told, expires_at=at + DEFAULT_KEEP.failed),
        Item(pk=CANCELLATIONS, sk=job_id, data=data, expires_at=at + useful),
    )


def read_cancellations(items: Iterable[Item]) -> tuple[Mapping[str, CancelRequest], int]:
    """Return the requests by job id, and the number of items that are none and were left out."""
    found: dict[str, CancelRequest] = {}
    strange = 0
    for item in items:
        if (request := _request(item)) is None:
            strange += 1
        else:
            found[item.sk] = request
    return found, strange


async def is_asked(table: AsyncTable, job_id: str, job_type: str) -> bool:
    """Return True if the table has a request that a job of that type be cancelled.

    For the moments in which what is known of the last look may be too old.

    Raises:
        TransportError: the table could not be asked.
    """
    # Not one item's read, for which workers have no permission.
    items = await table.query(CANCELLATIONS, prefix=job_id)
    found, _ = read_cancellations(item for item in items if item.sk == job_id)
    return any(request.concerns(job_type) for request in found.values())


def _request(item: Item) -> CancelRequest | None:
    reason = text(item.data.get("reason"), LONGEST_REASON)
    job_type = item.data.get("type")
    is_typed = text(job_type, _LONGEST_TYPE) is not None
    if reason is None or len(item.sk) > _LONGEST_ID or not (job_type is None or is_typed):
        return None
    return CancelRequest(reason, job_type)


def never_sent(
    job_id: str,
    job_type: str,
    reason: str,
    at: datetime,
    *,
    envelope: Envelope | None,
    lasts: timedelta,
) -> Item:
    """Return the end of a job that waited in a one-time schedule, which has been deleted.

    No worker ever receives the job. The item takes the place that a delivery's would have, and is
    listed as such a one is.

    Args:
        job_id: the job's id.
        job_type: its type.
        reason: why, in a word or two.
        at: when; aware.
        envelope: what the schedule held; None if that can't be read.
        lasts: the time for which it is kept; no shorter than that of the job's earlier records.
    """
    told = {} if envelope is None else {"queue": envelope.queue, **submission_of(envelope)}
    data = {"at": at.isoformat(), "reason": legible(reason), "type": job_type, **told}
    return Item(
        pk=asked_partition(job_id),
        sk=f"{deliveries_of('schedule')}{0:05d}#{Mark.CANCELLED}",
        data=data,
        expires_at=at + lasts,
        line=line_of(Mark.CANCELLED, job_id, at, data),
    )
