"""Sending with large payloads kept in the object store: first the object, then the message.

Its users (a client, its batches, its spool) handle messages with their whole payload, and without
a signature: they are signed here, each time that they are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.ports.transport import AsyncSender, EntryFailure, OutgoingMessage
from headgate.jobs.errors import PayloadTooLarge, ServiceUnavailable, TransportError
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.messages.large_payloads import LARGEST, parted


class Storing:
    """Sends the messages of one client; its ports are awaited.

    Args:
        transport: sends the messages.
        store: takes payloads that are too large.
        concurrency: packs payloads.
        limit: maximum size of a message in bytes.
        paused: if true, sends nothing, as if SQS could not be reached.
        keyring: signs the messages; None leaves them unsigned.
    """

    def __init__(
        self,
        transport: AsyncSender,
        store: AsyncObjectStore,
        *,
        concurrency: Parallelism,
        limit: int,
        paused: bool,
        keyring: Keyring | None,
    ) -> None:
        self._transport = transport
        self._store = store
        self._concurrency = concurrency
        self._limit = limit
        self._paused = paused
        self._keyring = keyring

    def passes(self, messages: Sequence[OutgoingMessage]) -> bool:
        """Return True for a batch that `send` would pass to the transport unchanged.

        Raises:
            ServiceUnavailable: submissions are paused.
        """
        refuse_if(self._paused)
        return self._keyring is None and all(each.size <= self._limit for each in messages)

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        """Send a batch; a message that could not be stored or signed is returned as a failed entry.

        Raises:
            TransportError: no message of the batch could be sent.
        """
        if self.passes(messages):
            return await self._transport.send(queue, messages)
        batch = Sendable()
        for message in messages:
            try:
                batch.take(await self._signed(queue, await self._fitting(message)))
            except TransportError as error:
                batch.leave(error)
        return batch.failures(await self._transport.send(queue, batch.fitting()))

    async def _signed(self, queue: str, message: OutgoingMessage) -> OutgoingMessage:
        if self._keyring is None:
            return message
        return await self._keyring.signed_message(queue, message)

    async def _fitting(self, message: OutgoingMessage) -> OutgoingMessage:
        if message.size <= self._limit:
            return message
        slim, key, content = await self._concurrency.aside(lambda: _packed(message))
        # A key that is taken is the job's own: an earlier try has stored the same, or workers will
        # find that it has not the message's SHA-256.
        await self._store.create(key, content)
        return slim


def _packed(message: OutgoingMessage) -> tuple[OutgoingMessage, str, bytes]:
    """Return a message without its payload, and the key and content of the payload's object."""
    slim, kept = parted(message)
    return slim, kept.ref.key, kept.packed()


def refuse_if(paused: bool, *, scheduled: bool = False) -> None:
    """Refuse to send, as in an outage, if submissions are paused.

    Args:
        paused: whether they are.
        scheduled: whether the jobs are for a one-time schedule, which nothing stands in for.

    Raises:
        ServiceUnavailable: submissions are paused.
    """
    if paused:
        asked = "EventBridge Scheduler" if scheduled else "SQS"
        instead = (
            "; neither a spool nor a fallback takes a job that waits in a one-time schedule"
            if scheduled
            else "; meanwhile a client with spool= stores jobs, and one with "
            'fallback="inline" runs those that may run in place'
        )
        raise ServiceUnavailable(
            f"submissions are paused by HEADGATE_PAUSED=1, so {asked} was not asked: unset it and "
            f"start this process again{instead}"
        )


@dataclass(slots=True)
class Sendable:
    """Messages, some of which can't be sent, with their original indices."""

    _taken: dict[int, OutgoingMessage] = field(default_factory=dict)
    _left: dict[int, TransportError] = field(default_factory=dict)

    def take(self, message: OutgoingMessage) -> None:
        """Add the next message, which can be sent."""
        self._taken[self._next] = message

    def leave(self, error: TransportError) -> None:
        """Add the error of the next message, which can't be sent."""
        self._left[self._next] = error

    def fitting(self) -> list[OutgoingMessage]:
        """Return the messages that can be sent; raises the first error if there are none."""
        if not self._taken:
            raise self._left[0]
        return [*self._taken.values()]

    def failures(self, sent: Sequence[EntryFailure]) -> list[EntryFailure]:
        """Return all failures by their original indices, given those of the messages sent."""
        places = [*self._taken]
        failed = [replace(each, index=places[each.index]) for each in sent]
        failed += [failure_of(index, error) for index, error in self._left.items()]
        return sorted(failed, key=lambda each: each.index)

    @property
    def _next(self) -> int:
        return len(self._taken) + len(self._left)


def check_sizes(messages: Iterable[OutgoingMessage]) -> None:
    """Refuse messages whose payloads could not be stored, before any is sent.

    Raises:
        PayloadTooLarge: a message is over the limit.
    """
    for message in messages:
        if (size := message.size) > LARGEST:
            raise PayloadTooLarge(
                f"the message for {message.attributes.get('JobType')!r} would have {size:,} bytes; "
                f"at most {LARGEST:,} are kept: store the data elsewhere and submit a reference "
                "to it"
            )


def failure_of(index: int, error: TransportError) -> EntryFailure:
    """Return the failed entry of a message that could not be sent for an error."""
    return EntryFailure(
        index=index,
        code=type(error).__name__,
        message=str(error),
        sender_fault=not error.transient,
    )
