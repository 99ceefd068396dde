"""Sending replayed jobs, and deleting their letters, by the batch."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeVar

from headgate.jobs.core.batching import TRIES, in_batches, pause_s
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.ports.transport import AsyncTransport, EntryFailure, OutgoingMessage
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.dead_letters.replaying.remaking import Remade
from headgate.jobs.dead_letters.walk import HeldLetter
from headgate.jobs.errors import TransportError

T = TypeVar("T")

AT_ONCE = 8
"""Maximum number of requests at the same time: if the process is killed, so many may have been sent
and not marked yet."""

Outcome = tuple[Remade, EntryFailure | None]
"""A message, and why SQS did not take it."""


class Dispatcher:
    """Sends the messages of a replay, and deletes the letters that they stand for.

    Args:
        transport: the queue service.
        concurrency: makes several requests at once.
        sleep: pauses before a request that failed is repeated.
        rng: spreads the pauses.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        *,
        concurrency: Parallelism,
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
    ) -> None:
        self._transport = transport
        self._concurrency = concurrency
        self._sleep = sleep
        self._rng = rng

    async def send(
        self, remade: Sequence[Remade], mark: Callable[[Sequence[Remade]], Awaitable[None]]
    ) -> list[Outcome]:
        """Send messages, and mark those of each request as soon as SQS has them.

        Returns:
            the messages with their failures. What waits behind a failed one of its FIFO group is
            not sent, and left out.

        Raises:
            TransportError: SQS could not be asked, or refused a whole request for good.
        """

        async def send_batch(batch: Sequence[Remade]) -> list[Outcome]:
            outcomes = await self._send_batch(batch)
            await mark([each for each, failure in outcomes if failure is None])
            return outcomes

        batches = [*_batches(each for each in remade if not each.queue.fifo)]
        results = await self._concurrency.each(send_batch, batches, at_once=AT_ONCE)
        outcomes = [outcome for batch in results for outcome in batch]
        stopped: set[tuple[str, str | None]] = set()
        for row in _rows([each for each in remade if each.queue.fifo]):
            for batch in _batches(each for each in row if _lane(each) not in stopped):
                sent = await send_batch(batch)
                stopped |= {_lane(each) for each, failure in sent if failure is not None}
                outcomes += sent
        return outcomes

    async def delete(self, letters: Sequence[HeldLetter]) -> set[str]:
        """Delete letters; return the receipts of those that SQS has deleted.

        Raises:
            TransportError: SQS could not be asked, or refused a whole request for good.
        """
        by_queue: dict[str, list[str]] = defaultdict(list)
        for held in letters:
            by_queue[held.queue.name].append(held.message.receipt)
        batches = [
            (queue, receipts[start : start + MAX_BATCH])
            for queue, receipts in by_queue.items()
            for start in range(0, len(receipts), MAX_BATCH)
        ]
        deleted = await self._concurrency.each(self._delete_batch, batches, at_once=AT_ONCE)
        return {receipt for batch in deleted for receipt in batch}

    async def _send_batch(self, batch: Sequence[Remade]) -> list[Outcome]:
        messages: list[OutgoingMessage] = [each.message for each in batch]
        queue = batch[0].queue.name
        failures = await self._insist(lambda: self._transport.send(queue, messages))
        failed = {each.index: each for each in failures}
        return [(each, failed.get(index)) for index, each in enumerate(batch)]

    async def _delete_batch(self, batch: tuple[str, Sequence[str]]) -> list[str]:
        queue, receipts = batch
        failures = await self._insist(lambda: self._transport.delete(queue, receipts))
        failed = {each.index for each in failures}
        return [receipt for index, receipt in enumerate(receipts) if index not in failed]

    async def _insist(self, request: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request that fails as a whole, through no fault of its own."""
        for tries in range(1, TRIES):
            try:
                return await request()
            except TransportError as error:
                if not error.transient:
                    raise
                await self._sleep(pause_s(tries, self._rng, answered=False))
        return await request()


def _lane(remade: Remade) -> tuple[str, str | None]:
    return remade.queue.name, remade.message.group


def _batches(remade: Iterable[Remade]) -> Iterator[list[Remade]]:
    """Split messages by queue, and into requests."""
    by_queue: dict[str, list[Remade]] = defaultdict(list)
    for each in remade:
        by_queue[each.queue.name].append(each)
    for messages in by_queue.values():
        yield from in_batches(messages, attrgetter("message.size"))


def _rows(remade: Sequence[Remade]) -> Iterator[list[Remade]]:
    """Yield the first messages of all FIFO groups, then the second ones, and so on."""
    groups: dict[tuple[str, str | None], list[Remade]] = defaultdict(list)
    for each in remade:
        groups[_lane(each)].append(each)
    for turn in range(max(map(len, groups.values()), default=0)):
        yield [group[turn] for group in groups.values() if turn < len(group)]
