"""Background writing of records to the table: no job waits for it.

Items are collected for a moment, sent 25 to a request, and retried for as long as the worker
lives. The backlog is bounded: items that no longer fit are shed and counted. `Journal.is_behind`
tells early enough that they come too fast, so that jobs which are to be recorded in full can wait.
Of two items for one place the later one counts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, RecordsFailed, RecordsShed, RecordsWritten
from headgate.jobs.core.ports.table import MAX_PUT, AsyncTable, Item, Key
from headgate.jobs.errors import TransportError
from headgate.jobs.records.writes import WriteRefusal, put_items
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import text_of

ROOM, ROOM_BYTES = 10_000, 32 * 2**20
"""Limits of the backlog: items, and approximate bytes."""

_BEHIND_S = 1.0
"""Seconds for which items may wait before the journal is behind. When the worker stops, those that
wait then can still be written in the time for it."""

_HALF, _MOST = 0.5, 0.75
"""Parts of the room that may be taken before it is; the latter for jobs that start at once."""

_SILENT_S = 5.0
"""Seconds without an item written after which no job waits for the table any longer."""

_LINGER_S = 0.1
"""Seconds that an item waits for others to share its request."""

_PARALLEL = 4
"""Maximum number of requests under way."""

_PAUSES = Backoff.exponential(base=0.2, factor=2, cap=10, jitter="equal")

_log = OwnLog("headgate.worker")


@light_dataclass(frozen=True, slots=True)
class _Entry:
    item: Item
    size: int
    since: float
    """Time of the monotonic clock at which it was put here."""


class Shed:
    """The items that a backlog has given up, until that is told.

    Args:
        clock: tells the time.
        events: receives an event of them.
    """

    def __init__(self, clock: Clock, events: Events) -> None:
        self._clock = clock
        self._events = events
        self.items = 0

    def tell(self) -> None:
        """Emit how many there were since the last time, if there were any."""
        if self.items:
            shed, self.items = self.items, 0
            self._events.emit(RecordsShed(at=self._clock.now(), items=shed))


class Journal:
    """Writes items in the background.

    Args:
        table: the table to write to.
        clock: tells the time.
        events: receives events of items written, of failures, and of items shed.
        rng: spreads the pauses after failures.
        on_room: called when items that waited are on their way, so that there is room for more.
    """

    def __init__(
        self,
        table: AsyncTable,
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_room = on_room
        self._table = table
        self._clock = clock
        self._events = events
        self._rng = rng
        self._waiting: dict[Key, _Entry] = {}
        self._bytes = 0
        self._under_way: dict[Key, Item] = {}
        self._flights: set[asyncio.Task[None]] = set()
        self._failures = 0
        """Number of requests that failed since one last succeeded."""
        self._hopeless = False
        """True if the last failure was one that retrying soon won't mend."""
        self._took_s = 0.0
        """Seconds that the last request took."""
        self._is_recalling = False
        """True while requests are cancelled, whose items are not to be sent again at once."""
        self._moved_at = 0.0
        """Time of the monotonic clock at which an item was last written, or put where none was."""
        self._shed = Shed(clock, events)
        self._news = asyncio.Event()

    def put(self, item: Item, *, size: int = 0) -> None:
        """Queue an item to be written in the background.

        Args:
            item: the item.
            size: the approximate size of its longest values, in bytes.
        """
        key = (item.pk, item.sk)
        if key in self._waiting:
            self._take(key)
        now = self._clock.monotonic()
        if not self._waiting and not self._under_way:
            self._moved_at = now
        if len(self._waiting) < ROOM and self._bytes + size <= ROOM_BYTES:
            self._add(_Entry(item, size, now))
        else:
            self._shed.items += 1
        self._news.set()

    def is_behind(self, *, urgent: bool = False) -> bool:
        """Return True while items come faster than the table takes them: they wait for a second, or
        will, or half of the room is taken.

        A table that has taken nothing for five seconds, or won't soon, is not waited for. Whoever
        waits has to ask again now and then, and whenever ``on_room`` is called.

        Args:
            urgent: True for what waits only once three quarters of the room are taken.
        """
        if not self._waiting or self._hopeless:
            return False
        now, items = self._clock.monotonic(), len(self._waiting)
        if now - self._moved_at >= _SILENT_S:
            return False
        part = _MOST if urgent else _HALF
        if items >= part * ROOM or self._bytes >= part * ROOM_BYTES:
            return True
        if urgent:
            return False
        waited_s = now - next(iter(self._waiting.values())).since
        return max(waited_s, items * self._took_s / (_PARALLEL * MAX_PUT)) >= _BEHIND_S

    def unwritten(self, pk: str) -> list[Item]:
        """Return the items of a partition that may not have been written yet."""
        waiting = (entry.item for entry in self._waiting.values())
        return [item for item in (*self._under_way.values(), *waiting) if item.pk == pk]

    async def run(self) -> NoReturn:
        """Write queued items, until cancelled."""
        while True:
            await self._news.wait()
            if self._failures:
                await self._pause()
            elif len(self._waiting) < MAX_PUT:
                await asyncio.sleep(_LINGER_S)
            self._news.clear()
            self._shed.tell()
            if not self._is_recalling:
                self._send()
            self._on_room()

    async def flush(self) -> None:
        """Write the items that still wait, and return when all are written.

        If cancelled, the items left are kept, and so are those that were under way, which may have
        been written or not.
        """
        try:
            while self._waiting or self._flights:
                failed = self._failures
                self._send()
                if self._flights:
                    await asyncio.wait(self._flights, return_when=asyncio.FIRST_COMPLETED)
                if self._failures > failed:
                    if self._hopeless:
                        return
                    await self._pause()
        finally:
            await self._recall()

    async def drain(self) -> None:
        """Flush for the last time; items left over are shed."""
        try:
            await self.flush()
        finally:
            self._shed.items += len(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            self._shed.tell()

    async def _recall(self) -> None:
        """Cancel the requests under way, and return when all their items wait again."""
        self._is_recalling = True
        try:
            for flight in self._flights:
                flight.cancel()
            if self._flights:
                await asyncio.wait(self._flights)
        finally:
            self._is_recalling = False
            self._news.set()

    async def _pause(self) -> None:
        await asyncio.sleep(_PAUSES.delay_s(self._failures, self._rng))

    def _send(self) -> None:
        """Start as many requests as there is need and room for."""
        most = 1 if self._failures else _PARALLEL  # one is enough to see if it works again
        while len(self._flights) < most and (batch := self._next_batch()):
            flight = asyncio.create_task(self._write(batch), name="headgate-journal")
            self._flights.add(flight)
            flight.add_done_callback(self._landed)

    def _next_batch(self) -> dict[Key, _Entry]:
        keys: list[Key] = []
        for key in self._waiting:
            if key in self._under_way:
                continue  # the two could overtake each other
            keys.append(key)
            if len(keys) == MAX_PUT:
                break
        batch = {key: self._take(key) for key in keys}
        self._under_way |= {key: entry.item for key, entry in batch.items()}
        return batch

    async def _write(self, batch: Mapping[Key, _Entry]) -> None:
        left, began = set(batch), self._clock.monotonic()
        try:
            written = await put_items(self._table, [entry.item for entry in batch.values()])
            left = {(item.pk, item.sk) for item in written.left}
            self._took_s = self._clock.monotonic() - began
            self._succeeded(len(batch) - len(left), len(left))
            self._tell_refused(written.refused)
        except TransportError as error:
            self._failed(error)
        finally:
            for key, entry in batch.items():
                del self._under_way[key]
                if key in left:
                    self._put_back(key, entry)

    def _tell_refused(self, refused: Sequence[WriteRefusal]) -> None:
        for refusal in refused:
            error = text_of(refusal.error)
            self._events.emit(RecordsFailed(at=self._clock.now(), action="write", error=error))
            self._shed.items += not refusal.marked

    def _succeeded(self, written: int, left: int) -> None:
        self._hopeless = False
        # Items left unprocessed mean that the table is too busy. If it takes some, the pauses don't
        # grow: they would leave more and more of its capacity unused.
        self._failures = 0 if not left else 1 if written else self._failures + 1
        if written:
            self._moved_at = self._clock.monotonic()
            self._events.emit(RecordsWritten(at=self._clock.now(), items=written))

    def _failed(self, error: TransportError) -> None:
        self._failures += 1
        self._hopeless = not error.transient
        self._events.emit(RecordsFailed(at=self._clock.now(), action="write", error=text_of(error)))

    def _put_back(self, key: Key, entry: _Entry) -> None:
        if key not in self._waiting:  # else a later one is there
            self._add(entry)

    def _add(self, entry: _Entry) -> None:
        self._waiting[entry.item.pk, entry.item.sk] = entry
        self._bytes += entry.size

    def _take(self, key: Key) -> _Entry:
        entry = self._waiting.pop(key)
        self._bytes -= entry.size
        return entry

    def _landed(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        if not flight.cancelled() and (error := flight.exception()) is not None:
            _log.error("unexpected error while writing records", exc_info=error)  # a fault of ours
        if self._waiting or self._shed.items:
            self._news.set()
