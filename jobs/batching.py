"""Cutting requests into SQS batches, and what to do about the entries that fail.

Sending a batch succeeds or fails entry by entry: HTTP 200 may carry a `Failed` list. An entry that
failed through no fault of its own is sent again after a pause; what is given up is reported to
whoever asked for it.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from jobs.backoff import Backoff
from jobs.errors import TransportError
from jobs.ports import EntryFailure
from jobs.topology import MAX_BATCH, MAX_MESSAGE_BYTES

T = TypeVar("T")

TRIES = 4
"""How often an entry is sent before it is given up or, where one insists, reported."""

_PAUSES = Backoff.exponential(base=0.1, factor=2, cap=5, jitter="equal")


class EntryRejected(TransportError):
    """The service answered, but did not carry out this entry, after all tries."""

    def __init__(self, failure: EntryFailure) -> None:
        self.failure = failure
        self.transient = not failure.sender_fault
        super().__init__(f"{failure.code}: {failure.message}")


def pause_s(tries: int, rng: random.Random) -> float:
    """How long to wait before sending again what has failed ``tries`` times."""
    return _PAUSES.delay_s(tries, rng)


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
