"""The looks of ``client.jobs``: lists and counts of jobs.

`AsyncJobDesk` is the awaited form of `JobDesk`, and its engine.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from headgate.jobs.client.jobs.filters import JobFilter
from headgate.jobs.client.services import ClientServices
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.records.history import JobRecord, read_job
from headgate.jobs.records.items import Mark, asked_partition, partition
from headgate.jobs.records.lists.entries import ListEntry, lists_of, read_entry
from headgate.jobs.records.lists.merged import MergedLists
from headgate.jobs.records.state import JobState
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.listing.cursors import cursor_of, no_page, place_of
from headgate.jobs.values.stored import moment

EVERY_JOB = JobFilter()

MOST_LISTED = 1_000
"""Maximum number of jobs on a page."""

MOST_COUNTED = 100_000
"""Number of entries of the lists that a count reads by default."""

_LOOKED_AT = 20
"""Entries that a page looks at for each job that it may show, and jobs whose records it reads;
beyond that it ends early."""

_CHUNK, _LARGEST_CHUNK = 25, 1_000
"""Entries that a request reads of one list: the first, and one that follows many others."""

_LONGEST_RUN = MAX_VISIBILITY
"""The longest that an attempt runs: SQS then delivers its message again."""

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


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """The jobs of one type in one state."""

    type: str
    state: JobState
    count: int


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """Jobs that were counted."""

    total: int
    counts: Sequence[JobCount]
    """The largest first."""
    oldest: datetime | None
    """The time of the oldest entry that was read; None if there was none."""
    complete: bool
    """False if there were more entries than the count was to read."""


class AsyncJobDesk:
    """The awaited form of `JobDesk`, which also drives this class.

    Args:
        services: reads the records.
    """

    def __init__(self, services: ClientServices) -> None:
        self._services = services

    async def list(
        self,
        wanted: JobFilter = EVERY_JOB,
        *,
        limit: int = 50,
        after: str = "",
        most: int | None = None,
    ) -> JobPage:
        """`JobDesk.list`, awaited."""
        check_limit(limit)
        if most is not None and most < 1:
            raise ConfigurationError(f"most must be at least 1, got {most}")
        states = [JobState(each) for each in wanted.states]
        merged = self._merged(wanted, states, before=_place_of(after))
        page = _Page(self._services, merged, wanted, limit)
        return await page.read(limit * _LOOKED_AT if most is None else most)

    async def count(self, wanted: JobFilter = EVERY_JOB, *, most: int = MOST_COUNTED) -> JobCounts:
        """`JobDesk.count`, awaited."""
        if JobState.RUNNING in wanted.states:
            raise ConfigurationError(
                "jobs that are running can't be counted: their list still has those that have "
                "ended since. List them, or see `headgate workers list`"
            )
        merged = self._counted(wanted, most)
        seen: set[tuple[str, str | None]] = set()
        found: Counter[tuple[str, JobState]] = Counter()
        oldest: datetime | None = None
        for _ in range(most):
            if (item := await merged.next()) is None:
                break
            if (entry := read_entry(item)) is None:
                continue
            oldest, job = entry.at, (entry.job_id, entry.job_type)
            if job not in seen and wanted.matches(entry) and wanted.has_state(entry.state):
                found[entry.job_type, entry.state] += 1
            seen |= {job, (entry.job_id, entry.former)}
        return JobCounts(
            total=found.total(),
            counts=_ordered(found),
            oldest=oldest,
            complete=not await merged.peek(),
        )

    def _counted(self, wanted: JobFilter, most: int) -> MergedLists:
        """Return the lists to count, of which no more is read than a small count needs."""
        since, until = wanted.bounds(self._services.clock.now())
        names = lists_of(wanted.types or self._services.app.types, ())
        share = max(_CHUNK, -(-most // max(1, len(names))))
        return MergedLists(
            self._services.table,
            names,
            self._services.concurrency,
            after=since,
            before=until,
            chunk=min(share, _LARGEST_CHUNK),
            largest=_LARGEST_CHUNK,
        )

    def _merged(self, wanted: JobFilter, states: Sequence[JobState], *, before: str) -> MergedLists:
        now = self._services.clock.now()
        since, until = wanted.bounds(now)
        if {*states} == {JobState.RUNNING}:
            since = max(since, (now - _LONGEST_RUN).astimezone(UTC).isoformat())
        return MergedLists(
            self._services.table,
            lists_of(wanted.types or self._services.app.types, states),
            self._services.concurrency,
            after=since,
            before=before or until,
            chunk=_CHUNK,
            largest=_LARGEST_CHUNK,
        )


class JobDesk:
    """An app's jobs, as far as the index of its records lists them.

    Listed are jobs of which an attempt failed or crashed, that are dead, quarantined or cancelled,
    and what became of them afterwards; with ``records="full"`` every job that has ended, and with
    ``Keep(last=...)`` the completed ones. Jobs that have run for a second are listed if
    ``running`` is asked for. Jobs that wait are in no list: `headgate.Client.handle` tells of one.

    Every method may raise a `TransportError`.
    """

    def __init__(self, engine: AsyncJobDesk) -> None:
        self._desk = engine

    def list(
        self,
        wanted: JobFilter = EVERY_JOB,
        *,
        limit: int = 50,
        after: str = "",
        most: int | None = None,
    ) -> JobPage:
        """Return a page of jobs, the newest first, each once and in the state that it is in now.

        It takes one query for each list (four for each type and state), however many jobs there
        are, and up to two for each job on the page and for each that it reads past, such as one
        listed as ``running`` that has ended.

        Args:
            wanted: selects the jobs.
            limit: the maximum number of jobs on the page, up to 1,000.
            after: the ``next`` of the page before; empty begins with the newest.
            most: the number of entries to read past and to show, such as those of other queues and
                tenants; None for 20 for each job that the page may have. The records of more jobs
                than that are never read for a page.

        Raises:
            ConfigurationError: ``limit`` or ``most`` is out of range, or ``after`` is of no page.
        """
        return drive(self._desk.list(wanted, limit=limit, after=after, most=most))

    def count(self, wanted: JobFilter = EVERY_JOB, *, most: int = MOST_COUNTED) -> JobCounts:
        """Count jobs by type and state, each once, by the newest entry of it.

        It reads the lists alone: a job that runs again after a failure counts as ``retrying``, and
        with ``until`` each job has the state that it had then.

        Args:
            wanted: selects the jobs.
            most: the number of entries to read, the newest first, a thousand to a request.

        Raises:
            ConfigurationError: running jobs are to be counted.
        """
        return drive(self._desk.count(wanted, most=most))


class _Page:
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
        jobs: builtins.list[ListedJob] = []
        left, unread = most, self._limit * _LOOKED_AT
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
        entries: builtins.list[ListEntry] = []
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


def check_limit(limit: int) -> None:
    """Check the number of jobs that a page is to have.

    Raises:
        ConfigurationError: it is out of range.
    """
    if not 1 <= limit <= MOST_LISTED:
        raise ConfigurationError(f"limit must lie between 1 and {MOST_LISTED:,}, got {limit}")


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


def _ordered(found: Counter[tuple[str, JobState]]) -> Sequence[JobCount]:
    counts = [JobCount(type=name, state=state, count=n) for (name, state), n in found.items()]
    return sorted(counts, key=lambda each: (-each.count, each.type, each.state))


def _place_of(cursor: str) -> str:
    """Return the place that a page ended at; empty for the first page.

    Raises:
        ConfigurationError: the text is no page's ``next``.
    """
    place = place_of(cursor)
    if place and moment(place.partition("#")[0]) is None:
        raise no_page(cursor)
    return place
