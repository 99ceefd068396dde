"""Cutting requests into SQS batches, and what to do about the entries that fail.

Sending a batch succeeds or fails entry by entry: HTTP 200 may carry a `Failed` list. An entry that
failed through no fault of its own is sent again after a pause; what is given up is reported to
whoever asked for it.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from headgate.jobs.core.ports import EntryFailure
from headgate.jobs.core.topology import MAX_BATCH, MAX_MESSAGE_BYTES
from headgate.jobs.errors import TransportError
from headgate.jobs.retry.backoff import Backoff

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

TRIES = 4
"""How often an entry is sent before it is given up or, where one insists, reported."""

_PAUSES = Backoff.exponential(base=0.05, factor=2, cap=5, jitter="equal")
_OUTAGE_PAUSES = Backoff.exponential(base=0.05, factor=8, cap=5, jitter="equal")


class EntryRejected(TransportError):
    """The service answered, but did not carry out this entry, after all tries."""

    def __init__(self, failure: EntryFailure) -> None:
        self.failure = failure
        self.transient = not failure.sender_fault
        super().__init__(f"{failure.code}: {failure.message}")


class HeldBack(TransportError):
    """Not sent, since one before it in its FIFO group was not taken: it would have overtaken it."""

    def __init__(self, cause: TransportError) -> None:
        self.transient = cause.transient
        super().__init__(f"not sent, since one before it in its group was not taken: {cause}")
        self.__cause__ = cause


def held_back_by(error: E) -> E | HeldBack:
    """The error of those that were to follow one with this error."""
    return HeldBack(error) if isinstance(error, EntryRejected) else error


def pause_s(tries: int, rng: random.Random, *, answered: bool = True) -> float:
    """Seconds to wait before sending again what has failed ``tries`` times: at first about 50 ms.

    Entries that the service refused while it ``answered`` follow soon; where there was no answer
    the pauses grow to seconds, so that the tries outlast a brief outage.
    """
    return (_PAUSES if answered else _OUTAGE_PAUSES).delay_s(tries, rng)


def in_batches(
    items: Iterable[T], size_of: Callable[[T], int], *, most: int = MAX_BATCH
) -> Iterator[list[T]]:
    """Cut a sequence into batches: at most ``most`` entries and at most 1 MiB each, in order.

    Args:
        items: what to send.
        size_of: an item's bytes as SQS counts them (body and attributes).
        most: entries in a batch; ten for SQS.
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
    """Entries in the order in which they may be sent: of each lane, one at a time.

    SQS may fail any entry of a batch and take those after it. An entry that must not be overtaken
    is therefore the only one of its lane in a batch, and the next follows when it has been taken.

    Args:
        lane_of: an entry's lane; None for one that may overtake and be overtaken.
    """

    def __init__(self, lane_of: Callable[[T], Hashable | None]) -> None:
        self._lane_of = lane_of
        self._ready: deque[T] = deque()
        self._behind: dict[Hashable, deque[T]] = {}
        """By lane of which one is ready or on its way, what follows it."""

    @property
    def ready(self) -> int:
        """How many could be sent now."""
        return len(self._ready)

    def __len__(self) -> int:
        return len(self._ready) + sum(map(len, self._behind.values()))

    def __iter__(self) -> Iterator[T]:
        return chain(self._ready, *self._behind.values())

    def add(self, entry: T) -> None:
        """Put an entry last."""
        lane = self._lane_of(entry)
        if lane is not None:
            if (behind := self._behind.get(lane)) is not None:
                behind.append(entry)
                return
            self._behind[lane] = deque()
        self._ready.append(entry)

    def take(self, size_of: Callable[[T], int], *, most: int = MAX_BATCH) -> list[T]:
        """The next batch; empty while nothing is ready. Each entry is `passed` or `stopped`."""
        batch = next(in_batches(self._ready, size_of, most=most), [])
        for _ in batch:
            self._ready.popleft()
        return batch

    def again(self, entry: T) -> None:
        """It was not taken, and is to be sent again, after what is ready."""
        self._ready.append(entry)

    def passed(self, entry: T) -> None:
        """It has been taken: the next of its lane may follow."""
        lane = self._lane_of(entry)
        if lane is None:
            return
        if behind := self._behind[lane]:
            self._ready.append(behind.popleft())
        else:
            del self._behind[lane]

    def stopped(self, entry: T) -> Collection[T]:
        """It has been given up: returns what stood behind it, which is given up with it."""
        lane = self._lane_of(entry)
        return () if lane is None else self._behind.pop(lane)
