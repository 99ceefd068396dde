"""Batching of single requests into few batch requests, on an event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

from headgate.jobs.core.batching import TRIES, EntryRejected, Lanes, held_back_by, pause_s
from headgate.jobs.core.ports.transport import EntryFailure
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.errors import TransportError
from headgate.jobs.values.light_dataclass import light_dataclass

T = TypeVar("T")

LINGER_S = 0.005
"""A usual time for an entry to wait for others while a request is in flight."""


@dataclass(slots=True, eq=False)
class _Entry(Generic[T]):
    item: T
    done: asyncio.Future[None]
    lane: Hashable | None
    tries: int = 0


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """The timing of a `Batcher`'s requests, and the number of its tries."""

    on_landing: bool = False
    """True to send what waits as soon as no request is in flight: for callers that wait for it."""
    parallel: int = 16
    """Maximum number of requests in flight; entries beyond them wait, and share fewer requests."""
    tries: int = TRIES
    """Number of times that an entry is sent before it is given up."""
    insist: bool = True
    """True to repeat a request that failed as a whole, after the transport's own retries."""
    patient: bool = True
    """True to let the pauses after such a failure grow to seconds, so that the tries outlast a
    brief outage. Not for callers that retry by themselves or have to finish within a time limit."""


class Batcher(Generic[T]):
    """Collects single requests for one queue and sends them in batches.

    Args:
        call: carries out a batch and returns the entries that failed.
        pacing: when to send.
        linger_s: called for an entry that has no other to go with; returns the seconds for which it
            waits for others, 0 for the end of this turn of the event loop. A full batch goes at
            once.
        size_of: the size of an item in bytes; None if the sizes don't matter, as for deletes.
        name: the name of the tasks.
        rng: spreads the pauses between tries.
        most: the maximum number of entries in a batch; a batch of this size is sent at once.
        lane_of: the lane of an item that must not overtake others of the same lane, or None. Giving
            up an item also gives up those that wait behind it in its lane. By default no item has
            one.
    """

    def __init__(
        self,
        call: Callable[[Sequence[T]], Awaitable[list[EntryFailure]]],
        *,
        pacing: Pacing,
        linger_s: Callable[[], float],
        name: str,
        rng: random.Random,
        size_of: Callable[[T], int] | None = None,
        most: int = MAX_BATCH,
        lane_of: Callable[[T], Hashable | None] | None = None,
    ) -> None:
        self._call = call
        self._most = most
        self._pacing = pacing
        self._linger_s = linger_s
        self._size_of = size_of
        self._name = name
        self._rng = rng
        self._lane_of = lane_of
        self._waiting = Lanes[_Entry[T]](attrgetter("lane"))
        self._flights: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Handle | None = None

    def put(self, item: T) -> asyncio.Future[None]:
        """Add an item; the future is done once the service has carried it out.

        The future raises `EntryRejected` if the service refused this entry at every try, or the
        `TransportError` of the call. Cancelling it doesn't take the item back.
        """
        done = asyncio.get_running_loop().create_future()
        lane = self._lane_of(item) if self._lane_of is not None else None
        self._enqueue(_Entry(item, done, lane))
        return done

    @property
    def busy(self) -> bool:
        """True while a request is in flight."""
        return bool(self._flights)

    @property
    def unfinished(self) -> int:
        """Number of requests in flight plus entries that wait for one."""
        return len(self._flights) + len(self._waiting)

    async def drain(self) -> None:
        """Send the waiting entries, and return once all are carried out or given up."""
        while len(self._waiting) or self._flights:
            self.flush()
            if self._flights:
                await asyncio.wait(self._flights)

    def _enqueue(self, entry: _Entry[T]) -> None:
        self._waiting.add(entry)
        if self._waiting.ready >= self._most:
            self.flush()
        elif self._timer is None and self._waiting.ready:
            loop = asyncio.get_running_loop()
            if linger_s := self._linger_s():
                self._timer = loop.call_later(linger_s, self.flush)
            else:
                self._timer = loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what waits now, as far as requests may be in flight."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting.ready and len(self._flights) < self._pacing.parallel:
            flight = asyncio.create_task(self._send(self._next_batch()), name=self._name)
            self._flights.add(flight)
            flight.add_done_callback(self._landed)

    def _next_batch(self) -> list[_Entry[T]]:
        if (size_of := self._size_of) is None:
            return self._waiting.take(most=self._most)
        return self._waiting.take(lambda entry: size_of(entry.item), most=self._most)

    def _landed(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        is_free = self._pacing.on_landing and not self._flights
        if self._waiting.ready and (self._timer is None or is_free):
            self.flush()

    async def _send(self, batch: list[_Entry[T]]) -> None:
        pending = batch
        try:
            while pending:
                again, answered = await self._attempt(pending)
                if pending := again:
                    self.flush()  # the entries behind those that were taken
                    soon = answered or not self._pacing.patient
                    await asyncio.sleep(pause_s(pending[0].tries, self._rng, answered=soon))
        finally:
            for entry in pending:  # only if this was cancelled: no caller may wait forever
                entry.done.cancel()
                for behind in self._waiting.stopped(entry):
                    behind.done.cancel()

    async def _attempt(self, batch: list[_Entry[T]]) -> tuple[list[_Entry[T]], bool]:
        """Send once; return the entries to send again, and True if the service answered."""
        for entry in batch:
            entry.tries += 1
        try:
            failures = await self._call([entry.item for entry in batch])
        except Exception as error:  # noqa: BLE001 - raised to the callers that await the entries
            return self._after_error(batch, error), False
        failed = {failure.index: failure for failure in failures}
        again = []
        for index, entry in enumerate(batch):
            failure = failed.get(index)
            if failure is None:
                _resolve(entry.done, None)
                self._waiting.passed(entry)
            elif failure.sender_fault or entry.tries >= self._pacing.tries:
                self._give_up(entry, EntryRejected(failure))
            else:
                again.append(entry)
        return again, True

    def _after_error(self, batch: list[_Entry[T]], error: Exception) -> list[_Entry[T]]:
        transient = isinstance(error, TransportError) and error.transient
        if transient and self._pacing.insist and batch[0].tries < self._pacing.tries:
            return batch
        for entry in batch:
            self._give_up(entry, error)
        return []

    def _give_up(self, entry: _Entry[T], error: Exception) -> None:
        _resolve(entry.done, error)
        for behind in self._waiting.stopped(entry):
            _resolve(behind.done, held_back_by(error))


def _resolve(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return  # the caller is gone
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
