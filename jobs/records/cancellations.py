"""The jobs to cancel, and the pauses: one partition of the table, read every few seconds.

So no job costs a read, and an idle worker costs one read unit every four seconds, about 22,000 a
day. A job cancelled between two looks may have ended before the second. A Lambda function, which
has no time between invocations, looks before each.

A look reads at most one page of the partition, `PAGE` items and a MiB, and the next look goes on
from there: however many items there are, a worker's traffic stays the same, and they are known
after a few looks instead of after one.

The pauses (`jobs.records.pausing.pause`) stand at the beginning of the same partition, so that they
cost no request of their own. As long as the cancellations take several looks, every other look
reads the pauses alone: what is paused or resumed is known after two looks.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping
from itertools import islice
from typing import NoReturn

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import CancellationsFailed, Events, ItemsSkipped
from headgate.jobs.core.ports.table import AsyncTable, Page
from headgate.jobs.errors import TransportError
from headgate.jobs.records.cancellation import (
    CANCELLATIONS,
    CancelRequest,
    is_asked,
    read_cancellations,
)
from headgate.jobs.records.pausing.pause import MOST_PAUSES, PREFIX
from headgate.jobs.records.pausing.paused import Paused

POLL_S = 4.0
"""Approximate seconds between two looks; with their jitter, what is paused is known within five."""

PAGE = 1_000
"""Maximum number of items that a look reads."""

MOST = 20_000
"""Maximum number of requests that are known at a time; about 10 MB."""

_JITTER = 0.2

_PATIENCE_S = 2.0
"""Seconds that a look may take: no job starts before a worker's first one."""


class Cancelling:
    """Keeps the set of cancelled jobs, and reads the pauses.

    Args:
        table: the table that holds them.
        paused: keeps the pauses that a look has read.
        clock: tells the time.
        events: receives an event when they could not be read, or when some had to be left out.
        rng: spreads the looks of many workers.
        on_news: called after a look that found any new ones, or new pauses.
    """

    def __init__(
        self,
        table: AsyncTable,
        paused: Paused,
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self._table = table
        self._paused = paused
        self._clock = clock
        self._events = events
        self._rng = rng
        self._on_news = on_news
        self._known: Mapping[str, CancelRequest] = {}
        self._after = ""
        """The place at which the last look ended; empty at the partition's beginning."""
        self._round: Mapping[str, CancelRequest] = {}
        """The requests read since that beginning."""
        self._skipped = self._told = 0
        """Items left out in this round, and in the last one that was reported."""
        self._strange_pauses = 0
        """Items left out that should be pauses, as last reported."""
        self._pauses_are_due = False
        """True if the last look did not read the pauses."""
        self._fault = ""
        self._looked_at = -math.inf

    def reason(self, job_id: str, job_type: str) -> str | None:
        """Return the reason why a job is to be cancelled; None if no request is known here."""
        request = self._known.get(job_id)
        return request.reason if request is not None and request.concerns(job_type) else None

    async def asked(self, job_id: str, job_type: str) -> bool:
        """Return True if a job is to be cancelled, by the table as it is now; see `is_asked`."""
        return await is_asked(self._table, job_id, job_type)

    async def look(self) -> None:
        """Read the next page; if that fails, what was known before stays known."""
        self._looked_at = self._clock.monotonic()
        only_pauses = self._pauses_are_due and bool(self._after)
        after, limit = ("", MOST_PAUSES) if only_pauses else (self._after, PAGE)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                page = await self._table.page(CANCELLATIONS, after=after, limit=limit)
        except (TransportError, TimeoutError) as error:
            self._tell(str(error) or f"the table did not answer within {_PATIENCE_S:g} s")
            return
        self._fault = ""
        self._pauses_are_due = bool(after)
        has_news = not after and self._read_pauses(page)
        if not only_pauses:
            has_news = self._read_cancellations(page) or has_news
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

    def _read_pauses(self, page: Page) -> bool:
        """Take the pauses off the first page; return True if there are new ones."""
        has_new, strange = self._paused.read(page.items)
        if strange and strange != self._strange_pauses:
            self._events.emit(ItemsSkipped(at=self._clock.now(), kind="pause", items=strange))
        self._strange_pauses = strange
        return has_new

    def _read_cancellations(self, page: Page) -> bool:
        """Take the cancellations off a page; return True if there are new ones."""
        known = self._take_in(page)
        has_new = bool(known.keys() - self._known.keys())
        self._known = known
        return has_new

    def _take_in(self, page: Page) -> Mapping[str, CancelRequest]:
        """Take a page, and return what is known with it; the round's last page ends the round."""
        requests = (item for item in page.items if not item.sk.startswith(PREFIX))
        found, strange = read_cancellations(requests)
        self._skipped += strange
        self._after = page.after
        if page.after:
            self._round = _bounded({**self._round, **found})
            return _bounded({**self._known, **found})
        known, self._round = {**self._round, **found}, {}
        self._tell_skipped(len(known) - MOST)
        return _bounded(known)

    def _tell_skipped(self, beyond: int) -> None:
        """Report what was left out, once for each change of its number."""
        skipped, self._skipped = self._skipped + max(0, beyond), 0
        if skipped and skipped != self._told:
            at = self._clock.now()
            self._events.emit(ItemsSkipped(at=at, kind="cancellation", items=skipped))
        self._told = skipped

    def _tell(self, fault: str) -> None:
        """Report each fault once, not at every look."""
        if fault != self._fault:
            self._fault = fault
            self._events.emit(CancellationsFailed(at=self._clock.now(), error=fault))


def _bounded(found: Mapping[str, CancelRequest]) -> Mapping[str, CancelRequest]:
    return found if len(found) <= MOST else dict(islice(found.items(), MOST))
