"""Trimming of a type's jobs to the latest ones: ``keep=Keep(last=100, last_failed=1_000)``.

About once a minute a worker reads the lists of the types of which it has completed jobs since, and
deletes the records beyond the number kept. Items that keep such a job from running or being sent
twice stay until they expire. So does what is known of a message that SQS has delivered again: it
may do so once more, and without these items an earlier delivery would seem to have crashed.

Jobs that have failed for good are looked at about once an hour. The message of a dead job may come
again, if it could not be deleted, and only its records tell that it must not run any more. So these
jobs are deleted once nothing has happened to them for as long as SQS keeps and hides a message.
What has been replayed and lives, or has ended otherwise, is left.

Lists are sharded, and each shard keeps its part, so the number kept is approximate. Several workers
may do this concurrently without harm.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, timedelta
from typing import NoReturn

from headgate.jobs.core.batching import in_batches
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Event, Events, JobCompleted, RecordsFailed
from headgate.jobs.core.naming import JOB
from headgate.jobs.core.ports.table import MAX_PUT, AsyncTable, Item
from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import keep_of
from headgate.jobs.errors import TransportError
from headgate.jobs.records.history import read_job
from headgate.jobs.records.items import (
    LISTS,
    SHARDS,
    Mark,
    delivery_of,
    is_partition,
    is_record,
    list_name,
    read_partitions,
)
from headgate.jobs.records.lists.children import entries_of
from headgate.jobs.records.state import JobState

EVERY_S = 60.0
FAILED_EVERY_S = 3600.0

_AT_ONCE = 250
"""Maximum number of jobs of one list that are deleted at a time; the rest follow the next time."""

_DEATHS = (LISTS[Mark.DEAD], LISTS[Mark.QUARANTINED])


class Trimmer:
    """Deletes the oldest jobs of types that are kept by count.

    Args:
        app: determines these types, and the numbers of jobs kept of each.
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
        kept = {name: keep_of(app, job) for name, job in app.types.items()}
        self._last = {name: keep.last for name, keep in kept.items() if keep.last is not None}
        self._last_failed = {
            name: keep.last_failed for name, keep in kept.items() if keep.last_failed is not None
        }
        longest = max((queue.retention for queue in app.topology.queues), default=timedelta(0))
        self._settled_after = longest + MAX_VISIBILITY
        """The time after which no message of a dead job comes again."""
        self._grown: set[str] = set()
        """The types of which jobs have completed since the last look."""
        self._failed_due: set[str] = set()
        """The types whose failed jobs are looked at next."""

    @property
    def is_needed(self) -> bool:
        """True if any type is kept by count."""
        return bool(self._last or self._last_failed)

    def wants(self, kind: type[Event]) -> bool:
        """Return True for completed jobs, if any type's are kept by count."""
        return bool(self._last) and kind is JobCompleted

    def __call__(self, event: Event) -> None:
        """Note a completed job."""
        if isinstance(event, JobCompleted) and event.job_type in self._last:
            self._grown.add(event.job_type)

    async def run(self) -> NoReturn:
        """Trim what has grown about once a minute, and failed jobs every hour, until cancelled."""
        looked_at = -math.inf
        while True:
            await asyncio.sleep(EVERY_S * self._rng.uniform(0.8, 1.2))
            grown, self._grown = self._grown, set()
            for name in grown:
                if not await self._trimmed(name, failed=False):
                    self._grown.add(name)
            if (now := self._clock.monotonic()) - looked_at >= FAILED_EVERY_S:
                looked_at = now
                self._failed_due.update(self._last_failed)
            due, self._failed_due = self._failed_due, set()
            for name in due:
                if not await self._trimmed(name, failed=True):
                    self._failed_due.add(name)

    async def _trimmed(self, job_type: str, *, failed: bool) -> bool:
        """Trim a type; return False if there is more to do the next time."""
        try:
            if failed:
                return await self.trim_failed(job_type)
            await self.trim(job_type)
        except TransportError as error:
            now = self._clock.now()
            self._events.emit(RecordsFailed(at=now, action="trim", error=str(error)))
            return False
        return True

    async def trim(self, job_type: str) -> None:
        """Delete the completed jobs beyond the number kept from one type's lists.

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

    async def trim_failed(self, job_type: str) -> bool:
        """Delete the dead and quarantined jobs beyond the number kept, once that is safe.

        Returns:
            False if there may be more of them to delete now.

        Raises:
            TransportError: the table could not be reached.
        """
        kept = math.ceil(self._last_failed[job_type] / SHARDS)
        is_done = True
        for list_ in _DEATHS:
            for shard in range(SHARDS):
                lines = await self._beyond(list_name(list_, job_type, shard), kept)
                for item in lines:
                    if is_partition(item.pk):
                        await self._forget_death(item, job_type)
                is_done = is_done and len(lines) < _AT_ONCE
        return is_done

    async def _beyond(self, name: str, kept: int) -> Sequence[Item]:
        """Return the entries of a list that are beyond the number kept, and old enough."""
        newest = await self._table.lines(name, limit=kept)
        if len(newest) < kept or (line := newest[-1].line) is None:
            return []
        settled = (self._clock.now() - self._settled_after).astimezone(UTC).isoformat()
        return await self._table.lines(name, before=min(line.place, settled), limit=_AT_ONCE)

    async def _forget_death(self, entry: Item, job_type: str) -> None:
        job_id = entry.pk.removeprefix(JOB)
        found = await read_partitions(self._table, job_id)
        now = self._clock.now()
        record = read_job(job_id, found, job_type, now=now)
        is_dead = record.state in (JobState.DEAD, JobState.QUARANTINED)
        newest = max((each.at for each in record.timeline), default=now)
        if is_dead and newest > now - self._settled_after:
            return
        if is_dead and record.type == job_type and not record.other_types:
            items = [item for item in found if is_record(item.sk)]
            keys = [(item.pk, item.sk) for item in items]
            await self._delete([*entries_of(job_id, items), *keys])
            return
        for item in found:  # it is listed by what has happened to it since
            if (item.pk, item.sk) == (entry.pk, entry.sk):
                await self._table.put([replace(item, line=None)])

    async def _forget(self, pk: str) -> None:
        found = await read_partitions(self._table, pk.removeprefix(JOB))
        items = [item for item in found if is_record(item.sk)]
        again = {message for message, number in map(_delivery, items) if number > 1}
        gone = [item for item in items if _delivery(item)[0] not in again]
        keys = [(item.pk, item.sk) for item in gone]
        if len(gone) == len(items):  # nothing is left that tells of the job
            keys = [*entries_of(pk.removeprefix(JOB), items), *keys]
        await self._delete(keys)
        for item in items:
            if item not in gone and item.line is not None:
                await self._table.put([replace(item, line=None)])

    async def _delete(self, keys: Sequence[tuple[str, str]]) -> None:
        # What is left over is found again the next time, by its line in the list.
        for batch in in_batches(keys, lambda _key: 0, most=MAX_PUT):
            await self._table.delete(batch)


def _delivery(item: Item) -> tuple[str, int]:
    return delivery_of(item.sk) or ("", 0)
