"""The queue service: messages, deliveries, and the ports that send, receive and settle them.

`jobs.aws.sqs.transport` implements it on SQS, `jobs.testing.memory.sqs` in memory. Queues go by
their physical names; the implementation looks up their URLs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Protocol

from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """One message to send."""

    body: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Message attributes: at most ten, none empty (SQS's rules)."""
    delay_s: int = 0
    """Seconds of delay, 0 to 900."""
    group: str | None = None
    """MessageGroupId: the ordering group on a FIFO queue, the tenant on a fair standard queue."""
    deduplication_id: str | None = None
    """MessageDeduplicationId; FIFO queues only."""
    _size: int = field(default=-1, init=False, repr=False, compare=False)
    """The size, once it has been measured; a copy made by `replace` is measured anew."""

    @property
    def size(self) -> int:
        """Bytes as SQS counts them: of the body, and of each attribute's name, type and value."""
        if self._size < 0:
            object.__setattr__(self, "_size", _size_of(self))
        return self._size


def _size_of(message: OutgoingMessage) -> int:
    attributes = message.attributes
    texts = "".join((*attributes, *attributes.values()))
    return _bytes(message.body) + _bytes(texts) + len("String") * len(attributes)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """One delivery of a message, hidden from other receivers until its visibility timeout ends."""

    message_id: str
    """SQS's own id of the message, not the job's id."""
    receipt: str
    """The receipt handle of this delivery; a later delivery has another."""
    body: str
    receive_count: int
    """Number of deliveries so far, including this one; at least 1."""
    sent_at: datetime
    attributes: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    first_received_ms: str | None = None
    """The time of its first receive as SQS reports it, in milliseconds since 1970."""

    @property
    def first_received_at(self) -> datetime:
        """The time of its first receive, or of its sending if SQS's value is missing or invalid."""
        try:
            first_at = datetime.fromtimestamp(int(self.first_received_ms or "") / 1000, UTC)
        except (TypeError, ValueError, OverflowError, OSError):
            return self.sent_at
        return max(self.sent_at, first_at)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityChange:
    """A request to hide a delivery for ``timeout_s`` from now on; 0 makes it visible at once."""

    receipt: str
    timeout_s: int


@light_dataclass(frozen=True, slots=True, kw_only=True)
class EntryFailure:
    """One entry of a batch that the service did not carry out, although the call succeeded."""

    index: int
    """Position in the sequence that was passed in."""
    code: str
    message: str
    sender_fault: bool
    """True if the request is at fault, so that repeating it can't help."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Numbers of messages in a queue; SQS's counts are approximate."""

    visible: int
    in_flight: int
    delayed: int

    @property
    def total(self) -> int:
        """All of its messages."""
        return self.visible + self.in_flight + self.delayed


class AsyncSender(Protocol):
    """The one call of an `AsyncTransport` that a submitter needs."""

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]: ...


class AsyncReceiver(Protocol):
    """The calls of an `AsyncTransport` that inspect queues."""

    async def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        """Receive up to ``limit`` (1 to 10), waiting up to ``wait_s`` (0 to 20) for the first.

        ``visibility_s`` overrides the queue's own timeout for this delivery.
        """

    async def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]: ...

    async def depth(self, queue: str) -> QueueDepth: ...


class AsyncTransport(AsyncSender, AsyncReceiver, Protocol):
    """The queue service, for an event loop. Any method may raise a `TransportError`.

    Batches hold at most ten entries. A batch method returns those that failed: check it.
    """

    async def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]: ...


class Sender(Protocol):
    """`AsyncSender`, for synchronous code."""

    def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]: ...


class Receiver(Protocol):
    """`AsyncReceiver`, for synchronous code."""

    def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]: ...

    def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]: ...

    def depth(self, queue: str) -> QueueDepth: ...


class Transport(Sender, Receiver, Protocol):
    """`AsyncTransport` for synchronous code, from any thread."""

    def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]: ...
