"""Trimming of a type's completed jobs to the latest ones: ``keep=Keep(last=100)``.

About once a minute a worker reads the lists of the types of which it has completed jobs since, and
deletes the records beyond the number kept. Items that keep such a job from running or being sent
twice stay until they expire. So does what is known of a message that SQS has delivered again: it
may do so once more, and without these items an earlier delivery would seem to have crashed. Lists
are sharded, and each shard keeps its part, so the number kept is approximate. Several workers may
do this concurrently without harm.
"""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import replace
from typing import NoReturn

from headgate.jobs.core.batching import in_batches
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Event, Events, JobCompleted, RecordsFailed
from headgate.jobs.core.naming import JOB
from headgate.jobs.core.ports.table import MAX_PUT, AsyncTable, Item
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import keep_of
from headgate.jobs.errors import TransportError
from headgate.jobs.records.items import (
    SHARDS,
    delivery_of,
    is_partition,
    is_record,
    list_name,
    read_partitions,
)
from headgate.jobs.records.lists.children import entries_of

EVERY_S = 60.0

_AT_ONCE = 250
"""Maximum number of jobs of one list that are deleted at a time; the rest follow the next time."""


class Trimmer:
    """Deletes the oldest completed jobs of types that are kept by count.

    Args:
        app: determines these types, and the number of jobs kept of each.
        table: the table that holds the records.
        clock: tells the time.
        events: receives an event for each failure.
        rng: adds jitter to the times at which workers look.
    """

    def __init__(
        self, app: App, table: AsyncTable, *, clock: Clock, events: Events, rng: random.Random
    ) -> None:
        self._table = table
        self._clock = clock
        self._events = events
        self._rng = rng
        kept = {name: keep_of(app, job).last for name, job in app.types.items()}
        self._last = {name: last for name, last in kept.items() if last is not None}
        self._grown: set[str] = set()
        """The types of which jobs have completed since the last look."""

    @property
    def is_needed(self) -> bool:
        """True if any type is kept by count."""
        return bool(self._last)

    def wants(self, kind: type[Event]) -> bool:
        """Return True for completed jobs, if any type is kept by count."""
        return self.is_needed and kind is JobCompleted

    def __call__(self, event: Event) -> None:
        """Note a completed job."""
        if isinstance(event, JobCompleted) and event.job_type in self._last:
            self._grown.add(event.job_type)

    async def run(self) -> NoReturn:
        """Trim about once a minute, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S * self._rng.uniform(0.8, 1.2))
            grown, self._grown = self._grown, set()
            for name in grown:
                try:
                    await self.trim(name)
                except TransportError as error:
                    self._grown.add(name)
                    now = self._clock.now()
                    self._events.emit(RecordsFailed(at=now, action="trim", error=str(error)))

    async def trim(self, job_type: str) -> None:
        """Delete the jobs beyond the number kept from one type's lists.

        Raises:
            TransportError: the table could not be reached.
        """
        kept = math.ceil(self._last[job_type] / SHARDS)
        for shard in range(SHARDS):
            name = list_name("recent", job_type, shard)
            lines = await self._table.lines(name, limit=kept + _AT_ONCE)
            for item in lines[kept:]:
                if is_partition(item.pk):
                    await self._forget(item.pk)

    async def _forget(self, pk: str) -> None:
        found = await read_partitions(self._table, pk.removeprefix(JOB))
        items = [item for item in found if is_record(item.sk)]
        again = {message for message, number in map(_delivery, items) if number > 1}
        gone = [item for item in items if _delivery(item)[0] not in again]
        keys = [(item.pk, item.sk) for item in gone]
        if len(gone) == len(items):  # nothing is left that tells of the job
            keys = [*entries_of(pk.removeprefix(JOB), items), *keys]
        # What is left over of either is found again the next time, by its line in the list.
        for batch in in_batches(keys, lambda _key: 0, most=MAX_PUT):
            await self._table.delete(batch)
        for item in items:
            if item not in gone and item.line is not None:
                await self._table.put([replace(item, line=None)])


def _delivery(item: Item) -> tuple[str, int]:
    return delivery_of(item.sk) or ("", 0)
