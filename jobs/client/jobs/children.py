"""The children of a job, each in the state that it is in now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from headgate.jobs.client.inference import inferred
from headgate.jobs.client.jobs.desk import check_limit
from headgate.jobs.client.jobs.pages import ListedJob, listed_job
from headgate.jobs.client.services import ClientServices
from headgate.jobs.records.history import JobRecord, read_job
from headgate.jobs.records.items import read_partitions
from headgate.jobs.records.lists.children import ChildEntry, children_partition, read_child
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.listing.cursors import cursor_of, place_of

_AT_ONCE = 16
"""Maximum number of children whose records are read at the same time."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class ChildPage:
    """Children of one job."""

    jobs: Sequence[ListedJob]
    """In the order of their submission; ``changed_at`` is the time of what is known last of each,
    at first that of its submission."""
    next: str
    """The ``after`` of the next page, which may be empty; empty at the end."""
    skipped: int
    """Items that can't be read as entries of children."""


async def children_of(
    services: ClientServices, parent_id: str, *, limit: int, after: str
) -> ChildPage:
    """Return a page of a job's children.

    Args:
        services: reads the entries, and the children's records.
        parent_id: the job's id.
        limit: the maximum number of children.
        after: the ``next`` of the page before; empty for the first.

    Raises:
        ConfigurationError: ``limit`` is out of range, or ``after`` is of no page.
        TransportError: the table could not be reached.
    """
    check_limit(limit)
    page = await services.table.page(
        children_partition(parent_id), after=place_of(after), limit=limit
    )
    entries = [entry for item in page.items if (entry := read_child(item)) is not None]
    jobs = await services.concurrency.each(partial(_child, services), entries, at_once=_AT_ONCE)
    skipped = len(page.items) - len(entries)
    return ChildPage(jobs=jobs, next=cursor_of(page.after), skipped=skipped)


async def _child(services: ClientServices, entry: ChildEntry) -> ListedJob:
    """Return a child as its records tell."""
    now = services.clock.now()
    items = await read_partitions(services.table, entry.job_id)
    record = read_job(entry.job_id, items, entry.job_type, now=now)
    is_early = entry.not_before is not None and entry.not_before > now
    record = inferred(
        services.app,
        record,
        services.app.types.get(entry.job_type),
        now=now,
        due=entry.not_before if is_early else None,
    )
    return _listed(record, entry)


def _listed(record: JobRecord, entry: ChildEntry) -> ListedJob:
    """Return a child, with what its entry says of it where its records don't."""
    changed_at = record.timeline[-1].at if record.timeline else entry.at
    listed = listed_job(record, entry.job_type, changed_at)
    return replace(
        listed,
        queue=listed.queue or entry.queue,
        priority=listed.priority or entry.priority,
        tenant=listed.tenant or entry.tenant,
        submitted_at=entry.at,  # an inferred one is the time in its id
    )
