"""This worker's sign of life in the table, and its view of the others' (`jobs.records.lives`)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, RecordsFailed
from headgate.jobs.core.ports.table import MAX_PUT, AsyncTable
from headgate.jobs.errors import ServiceUnavailable, TransportError
from headgate.jobs.records.lives import LIVES, RENEW_S, Life, Lives, life_item
from headgate.jobs.values.texts import text_of

_JITTER = 0.2

_AGAIN_S = 2.0
"""Seconds until the next try after a beat that failed."""

_ANSWER_S = 5.0
"""Timeout of a beat."""

_QUICK_ANSWER_S = 1.0
"""Timeout of a beat that jobs, or the end of the process, wait for."""


class Lifeline:
    """Writes this worker's beats, watches the other workers, and ends in order.

    Args:
        table: the table that holds the lives.
        lives: the observed lives of the workers.
        name: this worker's name, which no other process has ever had.
        groups: the queue groups that it serves.
        hides_s: the longest visibility timeout of its app's queues.
        clock: tells the time.
        events: receives an event when the table fails, once for each fault.
        rng: adds jitter to the beats of many workers.
    """

    def __init__(
        self,
        table: AsyncTable,
        lives: Lives,
        *,
        name: str,
        groups: Iterable[str],
        hides_s: int,
        clock: Clock,
        events: Events,
        rng: random.Random,
    ) -> None:
        self._table = table
        self._lives = lives
        self._name = name
        self._groups = frozenset(groups)
        self._hides_s = hides_s
        self._clock = clock
        self._events = events
        self._rng = rng
        self._beats = 0
        self.fault = ""
        """Reason why the last beat failed; empty if it succeeded."""
        self._closed = False
        self._writing = asyncio.Lock()
        """Held while a beat is being written, and for good once this worker has ended."""

    async def start(self) -> None:
        """Write the first beat, before the first receive; a failure stops nothing."""
        await self._beat(_QUICK_ANSWER_S)

    async def run(self) -> None:
        """Beat until closed. Cancel it only after that: a beat under way has to end first."""
        while True:
            spread = self._rng.uniform(1 - _JITTER, 1 + _JITTER)
            await asyncio.sleep(_AGAIN_S if self.fault else RENEW_S * spread)
            if self._closed:
                return
            await self._beat(_ANSWER_S)

    async def close(self) -> None:
        """End in order, once the last record is written: jobs started here did not crash.

        A beat under way is awaited. If it arrived after the end, this worker would seem to be
        alive, and soon to have died.
        """
        self._closed = True
        with suppress(TimeoutError):  # then the end may still come last
            async with asyncio.timeout(_QUICK_ANSWER_S):
                await self._writing.acquire()
        try:
            async with asyncio.timeout(_QUICK_ANSWER_S):
                await self._table.delete([(LIVES, self._name)])
        except TimeoutError:
            self._tell(_unanswered(_QUICK_ANSWER_S))
        except TransportError as error:
            self._tell(text_of(error))

    async def _beat(self, patience_s: float) -> None:
        self._beats += 1
        try:
            async with asyncio.timeout(patience_s):
                await self._write()
                await self._lives.look()
                await self._forget()
        except TimeoutError:
            self._lives.doubt()
            self._tell(_unanswered(patience_s))
        except TransportError as error:
            self._lives.doubt()
            self._tell(text_of(error))
        else:
            self.fault = ""

    async def _write(self) -> None:
        life = Life(
            name=self._name,
            beat=self._beats,
            groups=self._groups,
            at=self._clock.now(),
            hides_s=self._hides_s,
        )
        async with self._writing:
            left_out = await self._table.put([life_item(life)])
        if left_out:
            raise ServiceUnavailable("the table was too busy")

    async def _forget(self) -> None:
        if old := self._lives.forgettable(self._hides_s):
            await self._table.delete([(LIVES, name) for name in old[:MAX_PUT]])

    def _tell(self, fault: str) -> None:
        if fault != self.fault:
            self.fault = fault
            told = RecordsFailed(at=self._clock.now(), action="renew", error=fault)
            self._events.emit(told)


def _unanswered(patience_s: float) -> str:
    return f"no answer within {patience_s:g} s"
