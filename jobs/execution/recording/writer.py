"""Writes that jobs wait for: made at once, and never waited for long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from headgate.jobs.core.batcher import LINGER_S, Batcher, Pacing
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, RecordsFailed
from headgate.jobs.core.ports.table import MAX_PUT, AsyncTable, Item
from headgate.jobs.core.ports.transport import EntryFailure
from headgate.jobs.errors import ServiceUnavailable, TransportError
from headgate.jobs.records.items import Scribe
from headgate.jobs.records.journal import Journal
from headgate.jobs.records.writes import WriteRefusal, put_batch
from headgate.jobs.values.texts import text_of

_PACING = Pacing(tries=3)

PATIENCE_S = 1.0
"""Seconds for which a job waits for the table, each time that it has to."""

LEAST_PATIENCE_S = 0.2
"""The same after the table has failed to answer in time, and while the worker stops."""

T = TypeVar("T")


class RecordWriter:
    """Writes items at once, for as long as a job may wait, and leaves the rest to the journal.

    Args:
        table: takes the items.
        clock: tells the time.
        events: receives an event for each failed read or write.
        rng: spreads the pauses between tries.
        on_room: called when there is room for more items in the journal.
    """

    def __init__(
        self,
        table: AsyncTable,
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
        on_room: Callable[[], None],
    ) -> None:
        self._table = table
        self._clock = clock
        self._events = events
        self._slow = False
        """True if the last answer did not come in time."""
        self._hurried = False
        self._writes = Batcher(
            self._put,
            pacing=_PACING,
            linger_s=lambda: LINGER_S if self._writes.busy else 0.0,
            name="headgate-record",
            rng=rng,
            most=MAX_PUT,
        )
        self.journal = Journal(table, clock=clock, events=events, rng=rng, on_room=on_room)
        """Writes the items that no job waits for."""

    def answered(self) -> None:
        """Note that the table accepts records again."""
        self._slow = False

    def hurry(self) -> None:
        """Wait less long from now on, since the worker is stopping."""
        self._hurried = True

    async def drain(self) -> None:
        """Wait for the writes in progress."""
        await self._writes.drain()

    async def write(self, scribe: Scribe, item: Item) -> None:
        """Write an item now; if that takes too long or fails, the journal writes it later."""
        try:
            await self.within(self._writes.put(item))
        except TransportError as error:
            self.journal.put(item)
            self.report("write", scribe, error)

    def _refused(self, refusal: WriteRefusal) -> None:
        error = text_of(refusal.error)
        self._events.emit(RecordsFailed(at=self._clock.now(), action="write", error=error))

    async def _put(self, items: Sequence[Item]) -> list[EntryFailure]:
        async with asyncio.timeout(PATIENCE_S):
            return await put_batch(self._table, items, on_refused=self._refused)

    async def within(self, answer: Awaitable[T]) -> T:
        """Wait for the table, for at most as long as it may delay a job.

        Raises:
            TransportError: it has failed, or has not answered in time.
        """
        patience_s = LEAST_PATIENCE_S if self._slow or self._hurried else PATIENCE_S
        try:
            async with asyncio.timeout(patience_s):
                found = await answer
        except TimeoutError as error:
            self._slow = True
            raise ServiceUnavailable(f"no answer within {patience_s:g} s") from error
        self._slow = False
        return found

    def report(self, action: str, scribe: Scribe, error: TransportError) -> None:
        """Emit that records of one job could not be read or written."""
        self._events.emit(
            RecordsFailed(
                at=self._clock.now(), action=action, error=str(error), job_id=scribe.job_id
            )
        )
