"""`jobs.client.large_payloads` for an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from headgate.jobs.client.large_payloads import Batch, check_sizes, refuse_if
from headgate.jobs.core.ports import (
    EntryFailure,
    ObjectStore,
    OutgoingMessage,
    QueueDepth,
    ReceivedMessage,
    Transport,
    VisibilityChange,
)
from headgate.jobs.errors import TransportError
from headgate.jobs.messages.large_payloads import parted
from headgate.jobs.messages.outgoing import size_of


class Storing:
    """A `jobs.core.ports.Transport` over another one; the arguments are `BlockingStoring`'s."""

    def __init__(
        self,
        transport: Transport,
        store: ObjectStore | None,
        *,
        limit: int,
        paused: bool = False,
    ) -> None:
        self._transport = transport
        self._store = store
        self._limit = limit
        self._paused = paused

    def check(self, messages: Iterable[OutgoingMessage]) -> None:
        """Refuse what could not be sent, before anything is; as `BlockingStoring.check`."""
        check_sizes(messages, has_store=self._store is not None)

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        """Send a batch, as `BlockingStoring.send`; large payloads are packed in a thread."""
        refuse_if(self._paused)
        if self._store is None or all(size_of(each) <= self._limit for each in messages):
            return await self._transport.send(queue, messages)
        batch = Batch()
        for message in messages:
            try:
                batch.take(await self._fitting(message, self._store))
            except TransportError as error:
                batch.leave(error)
        return batch.failures(await self._transport.send(queue, batch.fitting()))

    async def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        """As the transport below."""
        return await self._transport.receive(
            queue, limit=limit, wait_s=wait_s, visibility_s=visibility_s
        )

    async def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]:
        """As the transport below."""
        return await self._transport.delete(queue, receipts)

    async def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]:
        """As the transport below."""
        return await self._transport.change_visibility(queue, changes)

    async def depth(self, queue: str) -> QueueDepth:
        """As the transport below."""
        return await self._transport.depth(queue)

    async def _fitting(self, message: OutgoingMessage, store: ObjectStore) -> OutgoingMessage:
        if size_of(message) <= self._limit:
            return message
        slim, kept = await asyncio.to_thread(parted, message)
        await store.put(kept.ref.key, await asyncio.to_thread(kept.packed))
        return slim
