"""The looks of ``client.jobs``: lists and counts of jobs.

`AsyncJobDesk` is the awaited form of `JobDesk`, and its engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from headgate.jobs.client.jobs.filters import JobFilter
from headgate.jobs.client.jobs.pages import LOOKED_AT, JobPage, PageReader
from headgate.jobs.client.services import ClientServices
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.records.lists.entries import lists_of, read_entry
from headgate.jobs.records.lists.merged import MergedLists
from headgate.jobs.records.state import JobState
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.listing.cursors import no_page, place_of
from headgate.jobs.values.stored import moment

EVERY_JOB = JobFilter()

MOST_LISTED = 1_000
"""Maximum number of jobs on a page."""

MOST_COUNTED = 100_000
"""Number of entries of the lists that a count reads by default."""

_CHUNK, _LARGEST_CHUNK = 25, 1_000
"""Entries that a request reads of one list: the first, and one that follows many others."""

_LONGEST_RUN = MAX_VISIBILITY
"""The longest that an attempt runs: SQS then delivers its message again."""


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
        page = PageReader(self._services, merged, wanted, limit)
        return await page.read(limit * LOOKED_AT if most is None else most)

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


def check_limit(limit: int) -> None:
    """Check the number of jobs that a page is to have.

    Raises:
        ConfigurationError: it is out of range.
    """
    if not 1 <= limit <= MOST_LISTED:
        raise ConfigurationError(f"limit must lie between 1 and {MOST_LISTED:,}, got {limit}")


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
