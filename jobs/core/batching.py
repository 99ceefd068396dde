"""Splitting of requests into SQS batches, and handling of the entries that fail.

A batch succeeds or fails entry by entry: a response with HTTP 200 may have a `Failed` list. An
entry that failed through no fault of the sender is sent again after a pause; one that is given up
is reported to its caller.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import chain, islice
from typing import Generic, TypeVar

from headgate.jobs.core.ports.transport import EntryFailure
from headgate.jobs.core.topology import MAX_BATCH, MAX_MESSAGE_BYTES
from headgate.jobs.errors import TransportError
from headgate.jobs.retry.backoff import Backoff

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

TRIES = 4
"""Tries of an entry before it is given up or, by callers that keep trying, reported."""

_PAUSES = Backoff.exponential(base=0.05, factor=2, cap=5, jitter="equal")
_OUTAGE_PAUSES = Backoff.exponential(base=0.05, factor=8, cap=5, jitter="equal")


class EntryRejected(TransportError):
    """The service answered, but did not carry out this entry after all tries.

    Args:
        failure: what it answered.
        entry: the entry in words; empty where what raises this tells.
    """

    def __init__(self, failure: EntryFailure, entry: str = "") -> None:
        self.failure = failure
        self.transient = not failure.sender_fault
        refused = f"SQS did not take {entry}: " if entry else ""
        super().__init__(f"{refused}{failure.code}: {failure.message}")


class HeldBack(TransportError):
    """Not sent, since an earlier entry of its FIFO group failed and would have been overtaken."""

    def __init__(self, cause: TransportError) -> None:
        self.transient = cause.transient
        super().__init__(f"not sent, since one before it in its group was not taken: {cause}")
        self.__cause__ = cause


def held_back_by(error: E) -> E | HeldBack:
    """Return the error of the entries that wait behind one with this error."""
    return HeldBack(error) if isinstance(error, EntryRejected) else error


def pause_s(tries: int, rng: random.Random, *, answered: bool = True) -> float:
    """Return the seconds to wait before the next try after ``tries``; about 50 ms at first.

    Pauses stay short if the service ``answered`` and refused single entries. Without an answer they
    grow to seconds, so that the tries outlast a brief outage.
    """
    return (_PAUSES if answered else _OUTAGE_PAUSES).delay_s(tries, rng)


def in_batches(
    items: Iterable[T], size_of: Callable[[T], int], *, most: int = MAX_BATCH
) -> Iterator[list[T]]:
    """Split a sequence into batches of at most ``most`` entries and 1 MiB each, in order.

    Args:
        items: the items to send.
        size_of: an item's size in bytes, as SQS counts it (body and attributes).
        most: the maximum number of entries in a batch; ten for SQS.
    """
    batch: list[T] = []
    size = 0
    for item in items:
        item_size = size_of(item)
        if batch and (len(batch) == most or size + item_size > MAX_MESSAGE_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item_size
    if batch:
        yield batch


class Lanes(Generic[T]):
    """Entries in the order in which they may be sent, one at a time for each lane.

    SQS may fail any entry of a batch and take those after it. A batch therefore has at most one
    entry of a lane, and the next one follows once that has been taken.

    Args:
        lane_of: the lane of an entry; None for one that may overtake and be overtaken.
    """

    def __init__(self, lane_of: Callable[[T], Hashable | None]) -> None:
        self._lane_of = lane_of
        self._ready: deque[T] = deque()
        self._behind: dict[Hashable, deque[T]] = {}
        """Waiting entries by lane, for each lane with an entry that is ready or in flight."""

    @property
    def ready(self) -> int:
        """Number of entries that could be sent now."""
        return len(self._ready)

    def __len__(self) -> int:
        return len(self._ready) + sum(map(len, self._behind.values()))

    def __iter__(self) -> Iterator[T]:
        return chain(self._ready, *self._behind.values())

    def add(self, entry: T) -> None:
        """Append an entry."""
        lane = self._lane_of(entry)
        if lane is not None:
            if (behind := self._behind.get(lane)) is not None:
                behind.append(entry)
                return
            self._behind[lane] = deque()
        self._ready.append(entry)

    def take(self, size_of: Callable[[T], int] | None = None, *, most: int = MAX_BATCH) -> list[T]:
        """Take the next batch, empty if nothing is ready; settle each by `passed` or `stopped`.

        Args:
            size_of: an entry's size in bytes; None if only the number of entries is bounded.
            most: the maximum number of entries.
        """
        if size_of is None:
            batch = list(islice(self._ready, most))
        else:
            batch = next(in_batches(self._ready, size_of, most=most), [])
        for _ in batch:
            self._ready.popleft()
        return batch

    def again(self, entry: T) -> None:
        """Queue an entry that was not taken for another try, after those that are ready."""
        self._ready.append(entry)

    def passed(self, entry: T) -> None:
        """Mark an entry as taken, which makes the next one of its lane ready."""
        lane = self._lane_of(entry)
        if lane is None:
            return
        if behind := self._behind[lane]:
            self._ready.append(behind.popleft())
        else:
            del self._behind[lane]

    def stopped(self, entry: T) -> Collection[T]:
        """Give up an entry; return those behind it in its lane, which are given up as well."""
        lane = self._lane_of(entry)
        return () if lane is None else self._behind.pop(lane)
