"""Handles of submitted jobs, which look up their state and result, and cancel them.

`AsyncJobHandle` is the awaited form of `JobHandle`; both ask a `JobLookup`, which clients provide.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from headgate.jobs.core.immediate import drive
from headgate.jobs.messages.job_options import JobKeep
from headgate.jobs.records.history import JobRecord, ProgressRecord
from headgate.jobs.records.state import JobState
from headgate.jobs.values.durations import Duration

_AS_RECORDED = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class TypeOfJob(Protocol[R_co]):
    """A job type, as its jobs' handles know it: `jobs.definitions.job_type.JobType`."""

    name: str

    def load_result(self, value: Any) -> R_co:
        """Read a result from the JSON values in a record."""
        ...


class JobLookup(Protocol):
    """The look-ups that the handles of one client share, over ports that are awaited.

    ``declared`` is the job's type, None if it is unknown, and ``keep`` the retention that its
    submission has set, as far as that is known.
    """

    async def opened(self, job_id: str, declared: Any, keep: JobKeep | None) -> JobRecord:
        """`JobHandle.history`."""
        ...

    async def history(self, job_id: str, declared: Any, keep: JobKeep | None = None) -> JobRecord:
        """Return a job's record, in which sealed values stay sealed."""
        ...

    async def finished(
        self, job_id: str, declared: Any, within: Duration | None, keep: JobKeep | None
    ) -> JobRecord:
        """Return the record of a job once it is in a final state; raises as `JobHandle.wait`."""
        ...

    async def result(
        self, job_id: str, declared: Any, within: Duration | None, keep: JobKeep | None
    ) -> Any:
        """`JobHandle.result`."""
        ...

    async def cancel(self, job_id: str, declared: Any, reason: str) -> None:
        """`JobHandle.cancel`."""
        ...


class _Handle(Generic[R]):
    """The part of a handle that needs no request."""

    __slots__ = ("_declared", "_keep", "_lookup", "id", "is_duplicate")

    def __init__(
        self,
        job_id: str,
        lookup: JobLookup,
        declared: TypeOfJob[R] | None,
        *,
        is_duplicate: bool = False,
        keep: JobKeep | None = None,
    ) -> None:
        self.id = check_id(job_id)
        self.is_duplicate = is_duplicate
        """True if another call had submitted the job before: the handle is that job's."""
        self._declared = declared
        self._lookup = lookup
        self._keep = keep

    @property
    def type(self) -> str | None:
        """The name of the job's type; None if the handle was made without it."""
        return self._declared.name if self._declared is not None else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.type or 'unknown type'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handle) and type(other) is type(self) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class JobHandle(_Handle[R]):
    """A submitted job. ``R`` is what its handler returns.

    Made by `Client.submit`, or by `Client.handle` for an id from elsewhere. `id`, `type` and
    `is_duplicate` need no request. Every method queries the app's table, and raises `RecordsOff` if
    the app doesn't keep the records that are needed, and a `TransportError` if the table can't be
    reached.

    Each lookup is two strongly consistent queries, of what workers wrote and of what clients asked:
    a read unit each for every 4 KB, which a job that has not failed often stays under.
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html

    Example:
        >>> job = client.submit(capture, payment)  # doctest: +SKIP
        >>> receipt = job.result(timeout=30)
    """

    __slots__ = ()

    def state(self) -> JobState:
        """Return the job's current state, which is inferred while nothing is recorded of the job.

        `history` tells if it is inferred, and from what.
        """
        return self._run(self._lookup.history(self.id, self._declared, self._keep)).state

    def progress(self) -> ProgressRecord | None:
        """Return the latest progress that the handler reported; None if it has reported none."""
        return self.history().progress

    def history(self) -> JobRecord:
        """Return the job's record: its attempts, errors, progress and times.

        A sealed result or progress that can't be opened here is left out, with the reason in
        `result_fault` of the record or `sealed_fault` of its progress.
        """
        return self._run(self._lookup.opened(self.id, self._declared, self._keep))

    def wait(self, timeout: Duration | None = None) -> JobState:
        """Wait until the job is in a final state, and return that state.

        Args:
            timeout: seconds or a timedelta; None waits for ever.

        Raises:
            ResultTimeout: the job is in no final state by then.
            SettingsInvalid: the timeout is no duration.
            JobTypeWrong: the id is that of a job of another type, or of jobs of several.
            RecordsOff: the app doesn't keep completed jobs.
        """
        return self._run(self._lookup.finished(self.id, self._declared, timeout, self._keep)).state

    def result(self, timeout: Duration | None = None) -> R:
        """Wait until the job has completed, and return its handler's result.

        Args:
            timeout: seconds or a timedelta; None waits for ever.

        Raises:
            JobDead: it failed for good; the error tells the reason.
            JobDiscarded, JobDropped, JobCancelled: it ended without a result.
            ResultTimeout: it has not finished by then.
            SettingsInvalid: the timeout is no duration.
            ResultInvalid: the kept result doesn't fit the handler's return annotation.
            JobTypeWrong: the id is that of a job of another type, or of jobs of several.
            RecordsOff: the app doesn't keep results.
        """
        result: R = self._run(self._lookup.result(self.id, self._declared, timeout, self._keep))
        return result

    def cancel(self, reason: str = "") -> None:
        """Request the job's cancellation.

        A job that has not started never does, if its worker reads the request first: workers look
        every few seconds. A running job is interrupted: an async handler or a child process ends,
        a synchronous handler sees ``ctx.cancelled``. A job that completes meanwhile counts as
        completed: `state` tells the outcome. One that has ended is left as it is, so that a replay
        of it runs. The call costs a lookup and four requests, of one write each: two are entries of
        the audit (`headgate.Client.audit`).

        Args:
            reason: up to 300 characters.

        Raises:
            RecordsOff: without records workers don't look for cancellations.
            SettingsInvalid: the reason is too long.
            AuditFailed: nothing was requested, since the audit could not be written.
        """
        self._run(self._lookup.cancel(self.id, self._declared, reason))

    def _run(self, looking: Coroutine[Any, Any, T]) -> T:
        return drive(looking)


class AsyncJobHandle(_Handle[R]):
    """A submitted job, for use in an event loop: `JobHandle` with awaited methods.

    Made by `AsyncClient.submit`, or by `AsyncClient.handle`. Usable while its client is open.
    """

    __slots__ = ()

    async def state(self) -> JobState:
        """`JobHandle.state`, awaited."""
        return (await self._lookup.history(self.id, self._declared, self._keep)).state

    async def progress(self) -> ProgressRecord | None:
        """`JobHandle.progress`, awaited."""
        return (await self.history()).progress

    async def history(self) -> JobRecord:
        """`JobHandle.history`, awaited."""
        return await self._lookup.opened(self.id, self._declared, self._keep)

    async def wait(self, timeout: Duration | None = None) -> JobState:  # noqa: ASYNC109 - as JobHandle
        """`JobHandle.wait`, awaited."""
        return (await self._lookup.finished(self.id, self._declared, timeout, self._keep)).state

    async def result(self, timeout: Duration | None = None) -> R:  # noqa: ASYNC109 - as JobHandle
        """`JobHandle.result`, awaited."""
        result: R = await self._lookup.result(self.id, self._declared, timeout, self._keep)
        return result

    async def cancel(self, reason: str = "") -> None:
        """`JobHandle.cancel`, awaited."""
        await self._lookup.cancel(self.id, self._declared, reason)


def check_id(job_id: str) -> str:
    """Return a job's id in the form used in records.

    Raises:
        ValueError: it is not a job id.
    """
    # As nearly all are: to parse one takes several times as long.
    if _AS_RECORDED.fullmatch(job_id):
        return job_id
    try:
        return str(UUID(job_id))
    except ValueError as error:
        raise ValueError(f"{job_id!r} is not a job id: it has to be a UUID") from error
