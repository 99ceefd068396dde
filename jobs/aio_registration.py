"""`jobs.registration` for an event loop: beside the path of whoever submits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial

from jobs.app import App
from jobs.batcher import Batcher, Pacing
from jobs.clock import Clock
from jobs.events import Events
from jobs.ports import MAX_PUT, Item, Table
from jobs.registration import Enveloped, items_of, report
from jobs.texts import text_of
from jobs.writes import Refusal, put_batch


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
