"""Pages of jobs that are listed, and the reading of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headgate.jobs.client.jobs.filters import JobFilter
from headgate.jobs.client.services import ClientServices
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.records.history import JobRecord, read_job
from headgate.jobs.records.items import Mark, asked_partition, partition
from headgate.jobs.records.lists.entries import ListEntry, read_entry
from headgate.jobs.records.lists.merged import MergedLists
from headgate.jobs.records.state import JobState
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.listing.cursors import cursor_of

LOOKED_AT = 20
"""Entries that a page looks at for each job that it may show, and jobs whose records it reads;
beyond that it ends early."""

_AT_ONCE = 16
"""Maximum number of jobs whose records are read at the same time."""

_FOR_GOOD = frozenset(
    {JobState.COMPLETED, JobState.DISCARDED, JobState.DROPPED, JobState.CANCELLED}
)
"""States of jobs that nothing reopens."""

_DEATHS = frozenset({Mark.DEAD, Mark.QUARANTINED})


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """One job of a list, as its records tell; `headgate.JobHandle.history` tells the rest."""

    id: str
    type: str
    state: JobState
    changed_at: datetime
    """The time of what put it into the list, such as its end or its last failed attempt."""
    queue: str | None
    priority: str | None
    tenant: Tenant | None
    submitted_at: datetime | None
    attempts: int
    worker: str
    """The worker that made the last attempt; empty if none is known."""
    reason: str
    error_type: str
    """The class of the last error; empty if there is none."""
    error_message: str
    explanation: str = ""
    """The pause because of which it was given back last; empty if it waits for none."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Jobs that were listed."""

    jobs: Sequence[ListedJob]
    """The newest first."""
    next: str
    """The ``after`` of the next page; empty at the end. A page may have fewer jobs than were asked
    for, or none, and not be the last: entries of other queues and tenants were in between, or of
    jobs that are in another state by now."""


class PageReader:
    """One page of jobs while it is read."""

    def __init__(
        self, services: ClientServices, merged: MergedLists, wanted: JobFilter, limit: int
    ) -> None:
        self._services = services
        self._merged = merged
        self._wanted = wanted
        self._limit = limit
        self._has_starts = JobState.RUNNING in wanted.states
        self._seen: set[tuple[str, str]] = set()
        self._last = ""
        """The place of the last entry that was taken."""

    async def read(self, most: int) -> JobPage:
        """Read the entries, up to a number of them, and the records of their jobs."""
        jobs: list[ListedJob] = []
        left, unread = most, self._limit * LOOKED_AT
        while len(jobs) < self._limit and left > 0 and unread > 0:
            # Once some were in vain, those that follow may be as well: not one at a time.
            wanted = max(self._limit - len(jobs), _AT_ONCE if self._last else 1)
            entries, looked_at = await self._entries(min(wanted, unread), left)
            left, unread = left - looked_at, unread - len(entries)
            if not looked_at:
                break
            found = await self._services.concurrency.each(self._job, entries, at_once=_AT_ONCE)
            shown = [
                (entry, job) for entry, job in zip(entries, found, strict=True) if job is not None
            ]
            room = self._limit - len(jobs)
            jobs.extend(job for _, job in shown[:room])
            if len(shown) > room:  # the next page begins after the last of this one
                return JobPage(jobs=jobs, next=cursor_of(shown[room - 1][0].place))
        more = self._last and await self._merged.peek()
        return JobPage(jobs=jobs, next=cursor_of(self._last) if more else "")

    async def _entries(self, wanted: int, most: int) -> tuple[Sequence[ListEntry], int]:
        """Return the next entries of jobs not seen yet, and how many entries were looked at.

        All entries of one place are taken, since the next page begins after it.
        """
        entries: list[ListEntry] = []
        looked_at = 0
        while place := await self._merged.peek():
            is_full = len(entries) >= wanted or looked_at >= most
            if is_full and place != self._last:
                break
            item = await self._merged.next()
            looked_at += 1
            self._last = place
            entry = read_entry(item) if item is not None else None
            if entry is None or not self._wanted.matches(entry):
                continue
            if (job := (entry.job_id, entry.job_type)) not in self._seen:
                self._seen.add(job)
                entries.append(entry)
        return entries, looked_at

    async def _job(self, entry: ListEntry) -> ListedJob | None:
        """Return a job, unless a newer entry stands for it, or it is in another state by now."""
        job_id, table = entry.job_id, self._services.table
        own = await table.query(partition(job_id))
        if (newest := self._newest(entry, own)) is not None and newest > entry.at:
            return None  # whatever its submitters have written
        record, items = self._record(entry, own), own
        if _is_over(record) and not self._wanted.has_state(record.state):
            return None
        if not _is_told(record):
            items = [*own, *await table.query(asked_partition(job_id))]
            record = self._record(entry, items)
        if self._newest(entry, items) != entry.at or not self._wanted.has_state(record.state):
            return None
        if record.type not in (entry.job_type, None):
            return None  # it was replayed as another type, under which it is listed
        return listed_job(record, entry.job_type, entry.at)

    def _record(self, entry: ListEntry, items: Sequence[Item]) -> JobRecord:
        now = self._services.clock.now()
        return read_job(entry.job_id, items, entry.job_type, now=now)

    def _newest(self, entry: ListEntry, items: Sequence[Item]) -> datetime | None:
        """Return the time of the newest entry that a job's items have in the lists.

        Not that of the last thing of a kind that is listed: the end of a job that was sent twice,
        under one id, is in no list, and its failure in another message is.
        """
        listed = (
            each.at
            for each in map(read_entry, items)
            if each is not None
            and each.job_type == entry.job_type
            and (self._has_starts or each.state is not JobState.RUNNING)
        )
        return max(listed, default=None)


def _is_told(record: JobRecord) -> bool:
    """Return True if the items of a job's workers tell all that a list shows of it.

    What its submitters and replays write can then change nothing.
    """
    return _is_over(record) and record.submitted_at is not None and record.priority is not None


def _is_over(record: JobRecord) -> bool:
    """Return True if nothing more happens to the job, whatever else is known of it."""
    has_died = any(each.what in _DEATHS for each in record.timeline)
    return record.state in _FOR_GOOD and not has_died


def listed_job(record: JobRecord, job_type: str, changed_at: datetime) -> ListedJob:
    """Return a job of a list, as its records tell."""
    last = record.attempts[-1] if record.attempts else None
    ended = record.state.is_final
    return ListedJob(
        id=record.id,
        type=job_type,
        state=record.state,
        changed_at=changed_at,
        queue=record.queue,
        priority=record.priority,
        tenant=record.tenant,
        submitted_at=record.submitted_at,
        attempts=len(record.attempts),
        worker=last.worker if last else "",
        reason=record.reason,
        error_type=record.error_type if ended else (last.error_type if last else ""),
        error_message=record.error_message if ended else (last.error_message if last else ""),
        explanation=record.explanation if record.is_recorded else "",
    )
