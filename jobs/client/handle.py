"""A submitted job in the hands of whoever submitted it: its state, its result, its end.

`JobHandle` is for plain code, `AsyncJobHandle` for an event loop; they differ in the calls alone.
What a record means is decided in `jobs.records.history` and `jobs.client.waiting`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headgate.jobs.client.waiting import (
    Patience,
    check_id,
    longest_in_queue,
    require_outcomes,
    require_records,
    require_store,
    result_of,
    with_result,
)
from headgate.jobs.core.batching import TRIES, pause_s
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports import BlockingObjectStore, BlockingTable, Item, ObjectStore, Table
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import Throttled
from headgate.jobs.messages.envelope import PayloadRef
from headgate.jobs.records.cancellation import cancellation, never_sent
from headgate.jobs.records.history import JobRecord, ProgressRecord, read_job
from headgate.jobs.records.items import partition
from headgate.jobs.records.state import JobState

R = TypeVar("R")


def _in_no_schedule(_job_id: str) -> bool:
    """No job waits in a schedule of its own."""
    return False


def _no_store() -> None:
    """Nothing is kept beside the table."""


async def _in_no_schedule_async(_job_id: str) -> bool:
    """`_in_no_schedule`, awaited."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What the handles of one `Client` share."""

    app: App
    table: BlockingTable
    clock: Clock
    rng: random.Random
    sleep: Callable[[float], None]
    unschedule: Callable[[str], bool] = _in_no_schedule
    """Deletes the one-time schedule of a job by its id; False if it waits in none."""
    store: Callable[[], BlockingObjectStore | None] = _no_store
    """Where large results are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncLookup:
    """What the handles of one `AsyncClient` share."""

    app: App
    table: Table
    clock: Clock
    rng: random.Random
    sleep: Callable[[float], Awaitable[None]]
    unschedule: Callable[[str], Awaitable[bool]] = _in_no_schedule_async
    """Deletes the one-time schedule of a job by its id; False if it waits in none."""
    store: Callable[[], ObjectStore | None] = _no_store
    """Where large results are."""


class _Named(Generic[R]):
    """What a handle knows without asking."""

    __slots__ = ("_declared", "id", "is_duplicate")

    def __init__(
        self, job_id: str, declared: JobType[Any, R] | None, *, is_duplicate: bool
    ) -> None:
        self.id = check_id(job_id)
        self.is_duplicate = is_duplicate
        """It was submitted before, by another call: that job stands for what this one asked for."""
        self._declared = declared

    @property
    def type(self) -> str | None:
        """The name of the job's type; None where whoever asked for the handle did not say."""
        return self._declared.name if self._declared is not None else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.type or 'unknown type'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and type(other) is type(self) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def _result_of(self, app: App, record: JobRecord) -> R:
        declared = self._declared or app.types.get(record.type or "")
        result: R = result_of(record, declared)
        return result


class JobHandle(_Named[R]):
    """A submitted job. ``R`` is what its handler returns.

    Made by `Client.submit`, or by `Client.handle` for an id from elsewhere. Every method but `id`
    and `type` asks the app's table, and all of them raise `RecordsOff` where the app keeps nothing
    that would tell, and a `TransportError` when the table can't be asked.

    Each look is one strongly consistent Query of the job's items: a read unit for every 4 KB,
    which one that has not failed much stays under.
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html

    Example:
        >>> job = client.submit(capture, payment)  # doctest: +SKIP
        >>> receipt = job.result(timeout=30)
    """

    __slots__ = ("_lookup",)

    def __init__(
        self,
        job_id: str,
        lookup: Lookup,
        declared: JobType[Any, R] | None,
        *,
        is_duplicate: bool = False,
    ) -> None:
        super().__init__(job_id, declared, is_duplicate=is_duplicate)
        self._lookup = lookup

    def status(self) -> JobState:
        """What the job's items say now."""
        return self.history().state

    def progress(self) -> ProgressRecord | None:
        """How far its handler last said that it is; None if it has not said anything."""
        return self.history().progress

    def history(self) -> JobRecord:
        """All that is known of the job: attempts, errors, progress, times."""
        require_records(self._lookup.app, self._declared, self.id)
        return read_job(self.id, self._lookup.table.query(partition(self.id)))

    def wait(self, timeout: float | None = None) -> JobState:
        """Return its final state, once it is in one.

        Args:
            timeout: seconds; None waits for ever.

        Raises:
            ResultTimeout: it is in none by then.
            RecordsOff: the app doesn't keep what completes.
        """
        return self._finished(timeout).state

    def result(self, timeout: float | None = None) -> R:
        """Return what its handler returned, once it has.

        Args:
            timeout: seconds; None waits for ever.

        Raises:
            JobDead: it failed for good; says of what.
            JobDiscarded, JobCancelled: it ended without a result.
            ResultTimeout: it has not finished by then.
            ResultInvalid: what was kept is not what its handler returns by its annotation.
            RecordsOff: the app doesn't keep results.
        """
        record = self._finished(timeout)
        if (ref := record.result_ref) is not None:
            store = require_store(record, self._lookup.store())
            record = with_result(record, ref, store.get(ref.key))
        return self._result_of(self._lookup.app, record)

    def cancel(self, reason: str = "") -> None:
        """Ask for the job not to run, or to end.

        A job that has not started never does, if that is read by its worker first: workers look
        every few seconds. A running one is interrupted: an async handler and a child process end,
        a plain function sees ``ctx.cancelled``. One that completes meanwhile has completed:
        `status` says what happened. It costs one request, of two writes.

        Args:
            reason: up to 300 characters.

        Raises:
            RecordsOff: without records workers don't look for cancellations.
        """
        lookup = self._lookup
        require_records(lookup.app, self._declared, self.id)
        useful = longest_in_queue(lookup.app)
        at = lookup.clock.now()
        self._put(cancellation(self.id, reason, at, useful=useful))
        if lookup.unschedule(self.id):
            self._put([never_sent(self.id, reason, at)])

    def _finished(self, timeout: float | None) -> JobRecord:
        lookup = self._lookup
        require_outcomes(lookup.app, self._declared, self.id)
        patience = Patience(self.id, timeout, clock=lookup.clock, rng=lookup.rng)
        while not (record := self.history()).state.is_final:
            lookup.sleep(patience.pause_s(record.state))
        return record

    def _put(self, items: Sequence[Item]) -> None:
        for tries in range(1, TRIES + 1):
            if not (items := self._lookup.table.put(items)):
                return
            if tries < TRIES:
                self._lookup.sleep(pause_s(tries, self._lookup.rng))
        raise _not_taken(self.id)


class AsyncJobHandle(_Named[R]):
    """A submitted job, for an event loop: `JobHandle`, each of whose methods is awaited.

    Made by `AsyncClient.submit`, or by `AsyncClient.handle`. It is of use while its client is open.
    """

    __slots__ = ("_lookup",)

    def __init__(
        self,
        job_id: str,
        lookup: AsyncLookup,
        declared: JobType[Any, R] | None,
        *,
        is_duplicate: bool = False,
    ) -> None:
        super().__init__(job_id, declared, is_duplicate=is_duplicate)
        self._lookup = lookup

    async def status(self) -> JobState:
        """`JobHandle.status`, awaited."""
        return (await self.history()).state

    async def progress(self) -> ProgressRecord | None:
        """`JobHandle.progress`, awaited."""
        return (await self.history()).progress

    async def history(self) -> JobRecord:
        """`JobHandle.history`, awaited."""
        require_records(self._lookup.app, self._declared, self.id)
        return read_job(self.id, await self._lookup.table.query(partition(self.id)))

    async def wait(self, timeout: float | None = None) -> JobState:  # noqa: ASYNC109 - as JobHandle
        """`JobHandle.wait`, awaited."""
        return (await self._finished(timeout)).state

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109 - as JobHandle
        """`JobHandle.result`, awaited."""
        record = await self._finished(timeout)
        if (ref := record.result_ref) is None:
            return self._result_of(self._lookup.app, record)
        import asyncio  # which the handles of plain code do without

        content = await require_store(record, self._lookup.store()).get(ref.key)
        return await asyncio.to_thread(self._opened, record, ref, content)

    def _opened(self, record: JobRecord, ref: PayloadRef, content: bytes | None) -> R:
        return self._result_of(self._lookup.app, with_result(record, ref, content))

    async def cancel(self, reason: str = "") -> None:
        """`JobHandle.cancel`, awaited."""
        lookup = self._lookup
        require_records(lookup.app, self._declared, self.id)
        useful = longest_in_queue(lookup.app)
        at = lookup.clock.now()
        await self._put(cancellation(self.id, reason, at, useful=useful))
        if await lookup.unschedule(self.id):
            await self._put([never_sent(self.id, reason, at)])

    async def _finished(self, timeout: float | None) -> JobRecord:  # noqa: ASYNC109 - as JobHandle
        lookup = self._lookup
        require_outcomes(lookup.app, self._declared, self.id)
        patience = Patience(self.id, timeout, clock=lookup.clock, rng=lookup.rng)
        while not (record := await self.history()).state.is_final:
            await lookup.sleep(patience.pause_s(record.state))
        return record

    async def _put(self, items: Sequence[Item]) -> None:
        for tries in range(1, TRIES + 1):
            if not (items := await self._lookup.table.put(items)):
                return
            if tries < TRIES:
                await self._lookup.sleep(pause_s(tries, self._lookup.rng))
        raise _not_taken(self.id)


def _not_taken(job_id: str) -> Throttled:
    return Throttled(
        f"the cancellation of the job {job_id} was not written: the table is too busy. Ask again"
    )
