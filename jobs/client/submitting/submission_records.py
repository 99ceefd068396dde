"""Records of submissions, written by the submitter.

They are the submissions of types whose records are ``full``, and the entries of jobs that have a
parent, of types whose completed jobs are recorded. SQS has the jobs by then, so a failed write is
only reported.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from headgate.jobs.core.batching import in_batches
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports.table import MAX_PUT, AsyncTable, Item
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import job_keep_of, records_of
from headgate.jobs.errors import TransportError
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.records.items import keeps, submitted_item
from headgate.jobs.records.writes import WriteRefusal, put_batch, put_patiently
from headgate.jobs.values.texts import text_of

if TYPE_CHECKING:
    import asyncio

    from headgate.jobs.core.batcher import Batcher


T = TypeVar("T")

_BROKEN = 3
"""Requests in a row that fail before a synchronous submitter, which waits, gives up the rest."""


class Enveloped(Protocol):
    """A job that SQS has taken: a submission, or a job from a spool."""

    @property
    def envelope(self) -> Envelope: ...


def items_of(app: App, submissions: Iterable[Enveloped]) -> list[Item]:
    """Return the items to write for some submissions."""
    items: list[Item] = []
    for each in submissions:
        envelope = each.envelope
        if (job := app.types.get(envelope.type)) is None:
            continue  # a spool may hold jobs of a type that the app no longer has
        level = records_of(app, job)
        is_full, has_parent = keeps(level, "full"), envelope.parent is not None
        if not (is_full or has_parent):
            continue
        keep = job_keep_of(app, job, envelope)
        if is_full:
            items.append(submitted_item(envelope, keep))
        if has_parent and keep.completed and keeps(level, "outcomes"):
            from headgate.jobs.records.lists.children import child_item  # handlers' clients alone

            items.append(child_item(envelope, keep))
    return items


class Register:
    """Records submissions, and returns when that is done or has failed.

    Its ports are awaited, and never suspend.
    """

    def __init__(
        self,
        app: App,
        table: AsyncTable,
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._app = app
        self._table = table
        self._clock = clock
        self._events = events
        self._rng = rng
        self._sleep = sleep

    def enter(self, submissions: Sequence[Enveloped]) -> None:
        """Record these submissions if their types want it."""
        if items := items_of(self._app, submissions):
            drive(self._write_all(items))

    async def _write_all(self, items: Sequence[Item]) -> None:
        """Write by the batch, until three in a row have failed, as in an outage."""
        failed, left = 0, len(items)
        for batch in in_batches(items, lambda _item: 0, most=MAX_PUT):
            if failed == _BROKEN:
                report(self._events, self._clock, f"gave up the other {left:,} items")
                return
            failed = 0 if await self._is_written(batch) else failed + 1
            left -= len(batch)

    async def _is_written(self, batch: Sequence[Item]) -> bool:
        """Write a batch, and report what could not be written; return False for an error."""
        try:
            left = await put_patiently(self._table, batch, sleep=self._sleep, rng=self._rng)
        except TransportError as error:
            report(self._events, self._clock, str(error))
            return False
        if left:
            report(self._events, self._clock, f"the table was too busy for {len(left)} items")
        return True


class AsyncRegister:
    """Records submissions in the background, without delaying submitters.

    The backlog is bounded as a worker's is: items that no longer fit are shed and counted.
    """

    def __init__(
        self, app: App, table: AsyncTable, *, clock: Clock, events: Events, rng: random.Random
    ) -> None:
        # Not needed by synchronous clients.
        from headgate.jobs.core.batcher import LINGER_S, Batcher, Pacing
        from headgate.jobs.records.journal import ROOM, Shed

        self._app = app
        self._clock = clock
        self._events = events
        self._writes: Batcher[Item] = Batcher(
            partial(put_batch, table, on_refused=self._refused),
            pacing=Pacing(),
            linger_s=lambda: LINGER_S if self._writes.busy else 0.0,
            name="headgate-register",
            rng=rng,
            most=MAX_PUT,
        )
        self._room = ROOM
        """Number of items for which there still is room."""
        self._shed = Shed(clock, events)

    def enter(self, submissions: Sequence[Enveloped]) -> None:
        """Record these submissions if their types want it."""
        for item in items_of(self._app, submissions):
            if not self._room:
                self._shed.items += 1
                continue
            self._room -= 1
            self._writes.put(item).add_done_callback(self._written)

    async def drain(self) -> None:
        """Return when every write has succeeded or failed."""
        await self._writes.drain()
        self._shed.tell()

    def _refused(self, refusal: WriteRefusal) -> None:
        report(self._events, self._clock, text_of(refusal.error))

    def _written(self, done: asyncio.Future[None]) -> None:
        self._room += 1
        self._shed.tell()
        if not done.cancelled() and (error := done.exception()) is not None:
            report(self._events, self._clock, str(error))


class _Client(Protocol):
    _register: AsyncRegister


async def drain_records(client: _Client) -> None:
    """Return when what a client has submitted is recorded, or can't be.

    Submitting waits for no record, and closing the client does. This is for whoever stops the event
    loop before that.
    """
    await client._register.drain()  # noqa: SLF001 - not among what users call


@asynccontextmanager
async def recorded(client: _Client, context: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Enter a context, and leave it once what a client has submitted is recorded, or can't be."""
    async with context as entered:
        try:
            yield entered
        finally:
            await drain_records(client)


def report(events: Events, clock: Clock, error: str) -> None:
    """Emit that submissions could not be recorded."""
    from headgate.jobs.core.events import RecordsFailed  # only once something fails

    events.emit(RecordsFailed(at=clock.now(), action="write", error=error))
