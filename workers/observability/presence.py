"""A worker's status in the table, for ``headgate workers list`` (`jobs.records.fleet`)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, RecordsFailed
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.errors import ServiceUnavailable, TransportError
from headgate.jobs.records.fleet.worker_status import (
    EVERY_S,
    WORKER_STATUSES,
    WorkerStatus,
    status_item,
)
from headgate.jobs.values.texts import text_of

_JITTER = 0.2

_ANSWER_S = 5.0
"""Timeout of a write."""

_QUICK_ANSWER_S = 1.0
"""Timeout of what the end of the process waits for."""


class Presence:
    """Writes this worker's status regularly, and deletes it at the end.

    Nothing waits for a write, and a failure stops nothing: others then see an older status.

    Args:
        table: the table that holds the statuses.
        describe: returns the status now.
        name: this worker's name.
        clock: tells the time.
        events: receives an event when the table fails, once for each fault.
        rng: adds jitter to the writes of many workers.
    """

    def __init__(
        self,
        table: AsyncTable,
        describe: Callable[[], WorkerStatus],
        *,
        name: str,
        clock: Clock,
        events: Events,
        rng: random.Random,
    ) -> None:
        self._table = table
        self._describe = describe
        self._name = name
        self._clock = clock
        self._events = events
        self._rng = rng
        self.fault = ""
        """Reason why the last write failed; empty if it succeeded."""
        self._due = asyncio.Event()
        """Set when a status is to be written before its time."""
        self._closed = False
        self._writing = asyncio.Lock()
        """Held while a status is being written, and for good once this worker has ended."""

    async def run(self) -> None:
        """Write the status now, and again and again, until closed."""
        while not self._closed:
            self._due.clear()
            await self._try(self._write, _ANSWER_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S * self._rng.uniform(1 - _JITTER, 1 + _JITTER)):
                    await self._due.wait()

    def update(self) -> None:
        """Have the status written soon: it has changed in a way that others should see."""
        self._due.set()

    async def close(self) -> None:
        """Delete the status; a write under way is awaited, so that it doesn't come after."""
        self._closed = True
        with suppress(TimeoutError):  # then the status may stay, and others find it silent
            async with asyncio.timeout(_QUICK_ANSWER_S):
                await self._writing.acquire()
        await self._try(self._delete, _QUICK_ANSWER_S)

    async def _write(self) -> None:
        async with self._writing:
            left_out = await self._table.put([status_item(self._describe())])
        if left_out:
            raise ServiceUnavailable("the table was too busy")

    async def _delete(self) -> None:
        if await self._table.delete([(WORKER_STATUSES, self._name)]):
            raise ServiceUnavailable("the table was too busy")

    async def _try(self, request: Callable[[], Awaitable[None]], patience_s: float) -> None:
        """Make a request; report each fault once."""
        try:
            async with asyncio.timeout(patience_s):
                await request()
        except TimeoutError:
            self._tell(f"no answer within {patience_s:g} s")
        except TransportError as error:
            self._tell(text_of(error))
        else:
            self.fault = ""

    def _tell(self, fault: str) -> None:
        if fault != self.fault:
            self.fault = fault
            told = RecordsFailed(at=self._clock.now(), action="status", error=fault)
            self._events.emit(told)
