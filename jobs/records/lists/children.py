"""The children of a job: those that its handler submitted, and those that ran it again.

    pk  children#PARENT   sk  ID
    data  {"at": ISO, "type": NAME, "queue": GROUP, "priority": NAME, "tenant": {...}, ...}

Whoever submits a child writes its entry once SQS has the job, if its end will be recorded. The
entry says that there is such a job; its state stands in its own records. Ids begin with a time, so
entries are in the order of their submission. They have a partition of their own, since a job's
history is read as a whole, and a job may have thousands of children.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from headgate.jobs.core.naming import CHILDREN
from headgate.jobs.core.ports.table import Item, Key
from headgate.jobs.core.retention import Keep
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.records.items import submission_of
from headgate.jobs.records.reading import checked
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.stored import moment

_REPEATED = ("priority", "not_before", "tenant")
"""Facts about a submission that its entry has besides the type and the queue."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class ChildEntry:
    """One entry."""

    job_id: str
    """The child's id."""
    job_type: str
    at: datetime
    """The time of its submission; aware."""
    queue: str | None = None
    priority: str | None = None
    tenant: Tenant | None = None
    not_before: datetime | None = None


def children_partition(parent_id: str) -> str:
    """Return the partition key of the entries of a job's children."""
    return f"{CHILDREN}{parent_id}"


def is_child(item: Item) -> bool:
    """Return True for an entry."""
    return item.pk.startswith(CHILDREN)


def child_item(envelope: Envelope, keep: Keep) -> Item:
    """Return the entry of a job that has a parent.

    Args:
        envelope: the job's.
        keep: the retention of its records; the entry lasts as long as they may.
    """
    told = submission_of(envelope)
    repeated = {name: told[name] for name in _REPEATED if name in told}
    return Item(
        pk=children_partition(told["parent"]),
        sk=str(envelope.id),
        data={
            "at": told["submitted_at"],
            "type": envelope.type,
            "queue": envelope.queue,
            **repeated,
        },
        expires_at=_end_of(envelope, keep),
    )


def _end_of(envelope: Envelope, keep: Keep) -> datetime | None:
    starts = envelope.not_before or envelope.submitted_at
    try:
        return starts + max(keep.completed, keep.failed)
    except OverflowError:  # it starts at the end of the year 9999
        return None


def read_child(item: Item) -> ChildEntry | None:
    """Return what an entry says; None if Headgate can't have written it."""
    told = checked(item.data)
    at, job_type = moment(told.get("at")), told.get("type")
    if at is None or not job_type or not _is_id(item.sk):
        return None
    tenant = told.get("tenant")
    return ChildEntry(
        job_id=item.sk,
        job_type=job_type,
        at=at,
        queue=told.get("queue"),
        priority=told.get("priority"),
        tenant=Tenant(**tenant) if tenant else None,
        not_before=moment(told.get("not_before")),
    )


def entries_of(job_id: str, items: Iterable[Item]) -> list[Key]:
    """Return where a job may be entered as a child, by the parents that its records name."""
    named = (item.data.get("parent") for item in items)
    parents = dict.fromkeys(each for each in named if isinstance(each, str) and _is_id(each))
    return [(children_partition(each), job_id) for each in parents]


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
