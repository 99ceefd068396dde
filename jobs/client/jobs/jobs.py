"""``client.jobs``: what became of jobs, and what is to become of them.

`AsyncJobs` is the awaited form of `Jobs`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, TypeVar, Unpack

from headgate.jobs.client.auditing.words import in_words
from headgate.jobs.client.dead_letters.desks import async_services, services
from headgate.jobs.client.jobs.children import ChildPage, children_of
from headgate.jobs.client.jobs.desk import AsyncJobDesk, JobDesk
from headgate.jobs.client.jobs.filters import JobFilter
from headgate.jobs.client.jobs.pages import ListedJob
from headgate.jobs.client.jobs.rerun import Reruns
from headgate.jobs.client.lookup import Lookup
from headgate.jobs.client.submitting.engine import Submit
from headgate.jobs.core.backend import AsyncPorts, Ports
from headgate.jobs.core.immediate import drive
from headgate.jobs.dead_letters.search import LetterSearch
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.handles.handle import AsyncJobHandle, JobHandle, check_id
from headgate.jobs.records.audit.entry import AuditAction
from headgate.jobs.records.cancellation import check_reason
from headgate.jobs.values.light_dataclass import frozen_dataclass

MOST_CANCELLED = 1_000
"""Number of jobs that one call cancels by default: workers read each request every few seconds."""

_PAGE = 100

_AT_ONCE = 8

H = TypeVar("H")


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class JobsCancelled:
    """The outcome of a cancellation by a filter."""

    jobs: Sequence[ListedJob]
    """The jobs whose cancellation was requested, or would be; as they were listed."""
    complete: bool
    """False if there may be more."""


class AsyncJobs(AsyncJobDesk, Generic[H]):
    """The awaited form of `Jobs`, which also drives this class.

    Args:
        lookup: reads records, and requests cancellations.
        reruns: submits jobs again.
        handle: makes the handle of a new job.
    """

    def __init__(
        self, lookup: Lookup, reruns: Reruns, handle: Callable[[str, JobType[Any, Any]], H]
    ) -> None:
        super().__init__(lookup.services)
        self._lookup = lookup
        self._reruns = reruns
        self._handle = handle

    async def cancel(
        self,
        wanted: JobFilter,
        *,
        reason: str = "",
        dry_run: bool = False,
        most: int = MOST_CANCELLED,
        among: Collection[str] | None = None,
    ) -> JobsCancelled:
        """`Jobs.cancel`, awaited."""
        check_reason(reason)
        only = None if among is None else {check_id(each) for each in among}
        found: builtins.list[ListedJob] = []
        after, is_over = "", False
        while not is_over and len(found) < most:
            page = await self.list(wanted, limit=_PAGE, after=after)
            unended = (each for each in page.jobs if not each.state.is_final)
            found += [each for each in unended if only is None or each.id in only]
            has_all = only is not None and len(found) == len(only)
            after, is_over = page.next, has_all or not page.next
        chosen = found[:most]

        if not dry_run and chosen:
            await self._request(wanted, chosen, reason)
        return JobsCancelled(jobs=chosen, complete=is_over and len(found) <= most)

    async def _request(self, wanted: JobFilter, chosen: Sequence[ListedJob], reason: str) -> None:
        """Request the cancellation of jobs, as one action of the audit."""
        lookup, services = self._lookup, self._services

        async def request(job: ListedJob) -> None:
            declared = services.app.types.get(job.type)
            await lookup.request_cancellation(check_id(job.id), declared, reason)

        cancelling = services.auditor.action(
            AuditAction.CANCEL, "jobs", in_words(wanted), reason=reason
        )
        async with cancelling:
            await services.concurrency.each(request, chosen, at_once=_AT_ONCE)
            cancelling.count = len(chosen)

    async def children(self, job_id: str, *, limit: int = 50, after: str = "") -> ChildPage:
        """`Jobs.children`, awaited."""
        return await children_of(self._services, check_id(job_id), limit=limit, after=after)

    async def rerun(
        self, job_id: str, *, payload: Any = None, **overrides: Unpack[SubmitOptions]
    ) -> H:
        """`Jobs.rerun`, awaited."""
        job_id = check_id(job_id)
        detail = "" if payload is None else "with another payload"
        running = self._services.auditor.action(AuditAction.RERUN, "job", job_id, detail=detail)
        async with running:
            submission = await self._reruns.run(job_id, payload, overrides)
            running.result = f"job {submission.id}"
        return self._handle(submission.id, self._services.app.find_type(submission.envelope.type))


class Jobs(JobDesk):
    """The jobs of an app: its lists and counts are those of `jobs.client.jobs.desk.JobDesk`.

    Every method may raise a `TransportError`.
    """

    def __init__(self, engine: AsyncJobs[JobHandle[Any]]) -> None:
        super().__init__(engine)
        self._jobs = engine

    def cancel(
        self,
        wanted: JobFilter,
        *,
        reason: str = "",
        dry_run: bool = False,
        most: int = MOST_CANCELLED,
        among: Collection[str] | None = None,
    ) -> JobsCancelled:
        """Request the cancellation of the listed jobs that have not ended.

        Those are jobs that wait or run again after a failed attempt or a replay and, with the state
        ``running``, all that have run for a second. Jobs that wait for the first time are in no
        list, and cancelled by their ids (`headgate.JobHandle.cancel`).

        Args:
            wanted: selects the jobs; ``JobFilter()`` all of them.
            reason: up to 300 characters.
            dry_run: only return what would be cancelled.
            most: the maximum number of jobs.
            among: ids, such as those of a dry run that somebody has agreed to: jobs that the filter
                has come to select since then are left. None leaves none.

        Raises:
            RecordsOff: a type keeps no records any more.
            SettingsInvalid: the reason is too long.
            ValueError: an id is not a job id.
        """
        cancelling = self._jobs.cancel(
            wanted, reason=reason, dry_run=dry_run, most=most, among=among
        )
        return drive(cancelling)

    def children(self, job_id: str, *, limit: int = 50, after: str = "") -> ChildPage:
        """Return a page of a job's children: those that its handler submitted, and its reruns.

        They are in the order of their submission, each in the state that it is in now. A page takes
        one query, and two for each child on it. A child is entered by whoever submits it, if its
        type keeps records of jobs that complete, for as long as its own records may last. A
        duplicate of a unique job is none: that job remains a child of its first submitter.

        Args:
            job_id: the job's id.
            limit: the maximum number of children on the page, up to 1,000.
            after: the ``next`` of the page before; empty begins with the first child.

        Raises:
            ConfigurationError: ``limit`` is out of range, or ``after`` is of no page.
            ValueError: ``job_id`` is not a job id.
        """
        return drive(self._jobs.children(job_id, limit=limit, after=after))

    def rerun(
        self, job_id: str, *, payload: Any = None, **overrides: Unpack[SubmitOptions]
    ) -> JobHandle[Any]:
        """Submit a job that has ended again, as a new job whose ``parent`` it is.

        The new job has the old one's payload, tenant and priority, and is not unique. The dead
        letter of a job that died stays where it is, and tells the group of a FIFO queue. Of a job
        without one it is ``group=``, or the group of any submission: that of ``group_by``, or the
        tenant.

        Args:
            job_id: the job's id.
            payload: the payload in place of the old one. It has to be given for a job that did not
                die, since its message is gone.
            overrides: see `SubmitOptions`.

        Raises:
            JobNotEnded: the job waits or runs, or nothing is known of it. For one that waits or is
                unknown, dead letters are looked through for ten seconds first: SQS itself may have
                moved it, of which there is no record.
            UnknownJobType: the app has its type no more.
            PayloadUnknown: no payload is given, and no message of the job is left.
            PayloadLost: its message names an object in the bucket that is gone or damaged.
            MessageError: its message can't be read here.
            SubmissionError: the payload or an option is not valid; nothing was sent.
            ValueError: ``job_id`` is not a job id.
        """
        return drive(self._jobs.rerun(job_id, payload=payload, **overrides))


def async_jobs(ports: AsyncPorts, lookup: Lookup, send: Submit) -> AsyncJobs[AsyncJobHandle[Any]]:
    """Return the jobs of an asynchronous client."""

    def handle(job_id: str, job: JobType[Any, Any]) -> AsyncJobHandle[Any]:
        return AsyncJobHandle(job_id, lookup, job)

    search = LetterSearch(services=async_services(ports, lookup.services))
    return AsyncJobs(lookup, Reruns(lookup, search, send), handle)


def jobs(ports: Ports, lookup: Lookup, send: Submit) -> Jobs:
    """Return the jobs of a synchronous client."""

    def handle(job_id: str, job: JobType[Any, Any]) -> JobHandle[Any]:
        return JobHandle(job_id, lookup, job)

    search = LetterSearch(services=services(ports, lookup.services))
    return Jobs(AsyncJobs(lookup, Reruns(lookup, search, send), handle))
