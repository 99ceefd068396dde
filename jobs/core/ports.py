"""Interfaces of the AWS services that Headgate uses, implemented on AWS and in memory for tests.

`AsyncTransport` covers SQS, whose queues go by their physical names, `AsyncTable` DynamoDB,
`AsyncObjectStore` S3 and `AsyncScheduler` EventBridge Scheduler. A conformance suite for each holds
both implementations to the service's documented behaviour. The ports for an event loop are named
``AsyncX``, those for synchronous code ``X``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
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
    return _bytes(message.body) + sum(
        len(name) + len("String") + _bytes(value) for name, value in message.attributes.items()
    )


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityChange:
    """A request to hide a delivery for ``timeout_s`` from now on; 0 makes it visible at once."""

    receipt: str
    timeout_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFailure:
    """One entry of a batch that the service did not carry out, although the call succeeded."""

    index: int
    """Position in the sequence that was passed in."""
    code: str
    message: str
    sender_fault: bool
    """True if the request is at fault, so that repeating it can't help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Numbers of messages in a queue; SQS's counts are approximate."""

    visible: int
    in_flight: int
    delayed: int


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLine:
    """An item's entry in one of the table's lists, a sparse index without most of the items."""

    list: str
    """The name of the list; not empty."""
    place: str
    """Its sort key in the list; not empty. Starts with a time, as lists are read from the end."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """The item's fields that the list includes, as JSON values; others require reading the item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of the table."""

    pk: str
    """The partition key; not empty."""
    sk: str
    """The sort key; not empty. Items of a partition are read in this order."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """JSON values: strings, numbers, booleans, None, lists and maps of them."""
    version: int = 0
    """The version of an item written by `AsyncTable.replace`, from 1; 0 for one that was put."""
    expires_at: datetime | None = None
    """The time from which the table may delete the item; aware. Reads leave out expired items."""
    line: ListLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of what was asked for; ``after`` is where the next begins, empty at the end."""

    items: Sequence[Item]
    after: str = ""


Key = tuple[str, str]
"""An item's ``pk`` and ``sk``."""


MAX_PUT = 25
"""Maximum number of items that are written or deleted in one request.
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html"""


class AsyncTable(Protocol):
    """One DynamoDB table, keyed by ``pk`` and ``sk``. Any method may raise a `TransportError`."""

    async def put(self, items: Sequence[Item]) -> list[Item]:
        """Write up to 25 items with distinct keys, replacing any that exist.

        Returns those that were not written; the caller tries them again.
        """

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """Return a partition's items whose ``sk`` has the prefix, in order, strongly consistent."""

    async def page(self, pk: str, *, after: str = "", limit: int = 1_000) -> Page:
        """As `query`, but at most ``limit`` items and a MiB, from ``after`` an earlier page on."""

    async def get(self, pk: str, sk: str) -> Item | None:
        """Return one item, strongly consistent; None if there is none."""

    async def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        """Return a list's items from the end, last one first; eventually consistent.

        Args:
            name: the name of the list.
            after, before: only lines whose place lies between these; empty is no bound.
            limit: the maximum number of items, up to 1,000.

        Returns:
            items with their key and line, and without their data.
        """

    async def scan(self, path: Sequence[str], value: str, *, after: str = "") -> Page:
        """Return those items of the table's next MiB whose data has a text at a path, in any order.

        Costs the whole MiB, whatever is found; for what no key and no list finds.
        """

    async def delete(self, keys: Sequence[Key]) -> list[Key]:
        """Delete up to 25 items, existing or not, and return the keys still to delete."""

    async def replace(self, item: Item) -> Item | None:
        """Write an item if the stored one is of the version just before its own.

        ``version`` 1 thus creates an item, and is refused if one exists that has not expired.

        Returns:
            None if it was written, else the stored item. An item of version 0 without data means
            that none is stored.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """One schedule of EventBridge Scheduler that invokes a Lambda function."""

    group: str
    """The physical name of its schedule group."""
    name: str
    """At most 64 letters, digits, hyphens, underscores and full stops; unique in its group."""
    expression: str
    """``cron(...)``, ``rate(...)`` or ``at(...)``."""
    function: str
    """The physical name of the function that it invokes."""
    role: str
    """The role that it assumes to invoke it, as named by `jobs.core.topology.Topology`."""
    input: str
    """JSON that is passed to the function, at most 256 KiB."""
    timezone: str = "UTC"
    start: datetime | None = None
    end: datetime | None = None
    flexible_minutes: int | None = None
    """Minutes over which the service may spread the firing; None for none."""
    enabled: bool = True
    delete_when_done: bool = False
    """True if the service deletes it after its last firing."""
    dead_letters: str | None = None
    """The queue for firings that the function did not take."""
    description: str = ""
    created_at: datetime | None = None
    """The time of its creation according to the service; None for one that is to be created."""
    modified_at: datetime | None = None
    as_of: datetime | None = field(default=None, compare=False)
    """The time of the service's response, by the service's own clock."""
    beyond: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Its other properties under the service's own names; an update sends them back unchanged."""


class AsyncScheduler(Protocol):
    """The part of EventBridge Scheduler that is used. Any method may raise a `TransportError`.

    Methods raise `ScheduleGroupMissing` if the service reports that the group does not exist.
    """

    async def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
        """Create a schedule; return False if the name is taken, and leave that schedule unchanged.

        ``token``, at most 64 letters, digits, hyphens and underscores, identifies the request: a
        repetition with the same token gets the same answer.
        """

    async def get(self, group: str, name: str) -> ScheduleSpec | None: ...

    async def names(self, group: str, *, prefix: str) -> list[str]:
        """Return the names of a group's schedules that start with ``prefix``."""

    async def update(self, schedule: ScheduleSpec) -> bool:
        """Replace all of a schedule; return False if there is none of that name."""

    async def delete(self, group: str, name: str) -> bool:
        """Delete a schedule; return False if there is none of that name."""


class Scheduler(Protocol):
    """`AsyncScheduler`, for synchronous code."""

    def create(self, schedule: ScheduleSpec, *, token: str) -> bool: ...

    def get(self, group: str, name: str) -> ScheduleSpec | None: ...

    def names(self, group: str, *, prefix: str) -> list[str]: ...

    def update(self, schedule: ScheduleSpec) -> bool: ...

    def delete(self, group: str, name: str) -> bool: ...


class Table(Protocol):
    """`AsyncTable` for synchronous code: the same calls and guarantees, from any thread."""

    def put(self, items: Sequence[Item]) -> list[Item]: ...

    def query(self, pk: str, *, prefix: str = "") -> list[Item]: ...

    def page(self, pk: str, *, after: str = "", limit: int = 1_000) -> Page: ...

    def get(self, pk: str, sk: str) -> Item | None: ...

    def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]: ...

    def scan(self, path: Sequence[str], value: str, *, after: str = "") -> Page: ...

    def delete(self, keys: Sequence[Key]) -> list[Key]: ...

    def replace(self, item: Item) -> Item | None: ...


class AsyncObjectStore(Protocol):
    """One S3 bucket, for an event loop; holds what is too large for messages and records.

    Any method may raise a `TransportError`.
    """

    async def put(self, key: str, content: bytes) -> None:
        """Store an object, replacing any under that key; reads see it once this returns."""

    async def create(self, key: str, content: bytes) -> bool:
        """Store an object; return False if the key is taken, and leave that object unchanged."""

    async def get(self, key: str, *, max_bytes: int) -> bytes | None:
        """Return an object's content, or None; raise `PayloadLost` if over ``max_bytes``."""

    async def keys(self, prefix: str, *, after: str = "") -> list[str]:
        """Return the first 1,000 keys behind ``after`` that start with ``prefix``, in order."""

    async def delete(self, key: str) -> None:
        """Delete an object, whether it exists or not."""


class ObjectStore(Protocol):
    """`AsyncObjectStore` for synchronous code, from any thread."""

    def put(self, key: str, content: bytes) -> None: ...

    def create(self, key: str, content: bytes) -> bool: ...

    def get(self, key: str, *, max_bytes: int) -> bytes | None: ...

    def keys(self, prefix: str, *, after: str = "") -> list[str]: ...

    def delete(self, key: str) -> None: ...
