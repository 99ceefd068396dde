"""`jobs.client.submission_records` for an event loop: beside the path of whoever submits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial

from headgate.jobs.client.submission_records import Enveloped, items_of, report
from headgate.jobs.core.batcher import Batcher, Pacing
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports import MAX_PUT, Item, Table
from headgate.jobs.definitions.app import App
from headgate.jobs.records.writes import Refusal, put_batch
from headgate.jobs.values.texts import text_of


class Register:
    """Writes submissions down."""

    def __init__(
        self, app: App, table: Table, *, clock: Clock, events: Events, rng: random.Random
    ) -> None:
        self._app = app
        self._clock = clock
        self._events = events
        self._writes: Batcher[Item] = Batcher(
            partial(put_batch, table, on_refused=self._refused),
            pacing=Pacing(),
            eager=lambda: not self._writes.busy,
            name="headgate-register",
            rng=rng,
            most=MAX_PUT,
        )

    def enter(self, submissions: Sequence[Enveloped]) -> None:
        """Write these down, as far as their types want it."""
        for item in items_of(self._app, submissions):
            self._writes.put(item).add_done_callback(self._written)

    async def drain(self) -> None:
        """Return when all is written, or has failed."""
        await self._writes.drain()

    def _refused(self, refusal: Refusal) -> None:
        report(self._events, self._clock, text_of(refusal.error))

    def _written(self, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            report(self._events, self._clock, str(error))
