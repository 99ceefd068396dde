"""The set of jobs to cancel: one partition of the table, read every few seconds.

So no job costs a read, and an idle worker costs one read unit every five seconds, about 17,000 a
day. A job cancelled between two looks may have ended before the second. A Lambda function, which
has no time between invocations, looks before each.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping
from typing import NoReturn

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import CancellationsFailed, Events
from headgate.jobs.core.ports import AsyncTable
from headgate.jobs.errors import TransportError
from headgate.jobs.records.cancellation import CANCELLATIONS, read_cancellations

POLL_S = 5.0
"""Approximate seconds between two looks."""

_JITTER = 0.2

_PATIENCE_S = 2.0
"""Seconds that a look may take: no job starts before a worker's first one."""


class Cancelling:
    """Keeps the set of cancelled jobs.

    Args:
        table: the table that holds them.
        clock: tells the time.
        events: receives an event when they could not be read.
        rng: spreads the looks of many workers.
        on_news: called after a look that found any new ones.
    """

    def __init__(
        self,
        table: AsyncTable,
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self._table = table
        self._clock = clock
        self._events = events
        self._rng = rng
        self._on_news = on_news
        self._reasons: Mapping[str, str] = {}
        self._fault = ""
        self._looked_at = -math.inf

    def reason(self, job_id: str) -> str | None:
        """Return the reason why a job is to be cancelled; None if no request is known here."""
        return self._reasons.get(job_id)

    async def look(self) -> None:
        """Read them once; if that fails, those known before stay known."""
        self._looked_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                items = await self._table.query(CANCELLATIONS)
        except (TransportError, TimeoutError) as error:
            self._tell(str(error) or f"the table did not answer within {_PATIENCE_S:g} s")
            return
        found = read_cancellations(items)
        self._fault = ""
        has_news = found.keys() - self._reasons.keys()
        self._reasons = found
        if has_news:
            self._on_news()

    async def catch_up(self) -> None:
        """Look, unless the last look was within `POLL_S`; for workers that run intermittently."""
        if self._clock.monotonic() - self._looked_at >= POLL_S:
            await self.look()

    async def run(self) -> NoReturn:
        """Look every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(POLL_S * self._rng.uniform(1 - _JITTER, 1 + _JITTER))
            await self.look()

    def _tell(self, fault: str) -> None:
        """Report each fault once, not at every look."""
        if fault != self._fault:
            self._fault = fault
            self._events.emit(CancellationsFailed(at=self._clock.now(), error=fault))
