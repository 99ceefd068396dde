"""Submissions written down by who submits, for types whose records are ``full``.

SQS has the jobs by then: what can't be written is reported, and nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from headgate.jobs.core.batching import TRIES, in_batches, pause_s
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, RecordsFailed
from headgate.jobs.core.ports import MAX_PUT, BlockingTable, Item
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import TransportError
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.records.items import keeps, submitted_item


class Enveloped(Protocol):
    """What SQS has taken: a submission, or a job that waited in a spool."""

    @property
    def envelope(self) -> Envelope: ...


def items_of(app: App, submissions: Iterable[Enveloped]) -> list[Item]:
    """What is written of some submissions."""
    return [
        submitted_item(each.envelope, app.keep_of(job))
        for each in submissions
        # A spool may have jobs of a type that has been taken out since.
        if (job := app.types.get(each.envelope.type)) and keeps(app.records_of(job), "full")
    ]


class BlockingRegister:
    """Writes submissions down, and returns when that is done or has failed."""

    def __init__(
        self,
        app: App,
        table: BlockingTable,
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
        sleep: Callable[[float], None],
    ) -> None:
        self._app = app
        self._table = table
        self._clock = clock
        self._events = events
        self._rng = rng
        self._sleep = sleep

    def enter(self, submissions: Sequence[Enveloped]) -> None:
        """Write these down, as far as their types want it."""
        items = items_of(self._app, submissions)
        try:
            for batch in in_batches(items, lambda _item: 0, most=MAX_PUT):
                self._write(batch)
        except TransportError as error:
            report(self._events, self._clock, str(error))

    def _write(self, items: Sequence[Item]) -> None:
        left = [*items]
        for tries in range(1, TRIES + 1):
            if not (left := self._table.put(left)):
                return
            if tries < TRIES:
                self._sleep(pause_s(tries, self._rng))
        report(self._events, self._clock, f"the table was too busy for {len(left)} items")


def report(events: Events, clock: Clock, error: str) -> None:
    """Say that submissions were not written down."""
    events.emit(RecordsFailed(at=clock.now(), action="write", error=error))
