"""What Headgate needs from AWS, and nothing else: the seam for AWS and for tests.

A queue service is a `Transport`: `jobs.aws.sqs.transport` implements it on SQS, `jobs.testing` in
memory, and one conformance suite holds both to SQS's documented behaviour. Queues go by their
physical names; the implementation finds addresses. A `Table` is what DynamoDB is used for, an
`ObjectStore` what S3 is, a `Scheduler` what EventBridge Scheduler is, and a `Publisher` what SNS
is, with suites likewise.
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
    """At most ten, none empty (SQS's rules)."""
    delay_s: int = 0
    """0 to 900."""
    group: str | None = None
    """MessageGroupId: the order on a FIFO queue, the tenant of a fair standard queue."""
    deduplication_id: str | None = None
    """FIFO only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """One delivery of a message: it is hidden from others until its visibility timeout ends."""

    message_id: str
    """SQS's own id, which is not the job's."""
    receipt: str
    """The handle of this delivery; a later delivery has another."""
    body: str
    receive_count: int
    """Deliveries so far, this one counted, so at least 1."""
    sent_at: datetime
    attributes: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    first_received_ms: str | None = None
    """The time of its first receive, as SQS says it: in milliseconds since 1970."""

    @property
    def first_received_at(self) -> datetime:
        """The time of its first receive, or of its sending where SQS doesn't say that legibly."""
        try:
            first_at = datetime.fromtimestamp(int(self.first_received_ms or "") / 1000, UTC)
        except (TypeError, ValueError, OverflowError, OSError):
            return self.sent_at
        return max(self.sent_at, first_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityChange:
    """Hide a delivery for ``timeout_s`` from now on; 0 shows it at once."""

    receipt: str
    timeout_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFailure:
    """One entry of a batch that the service did not carry out, though the call succeeded."""

    index: int
    """Position in the sequence that was passed in."""
    code: str
    message: str
    sender_fault: bool
    """True when the request is at fault, so that repeating it can't help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """About how many messages a queue holds; SQS's counts are approximate."""

    visible: int
    in_flight: int
    delayed: int


class Sender(Protocol):
    """The one call of a `Transport` that a submitter needs."""

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]: ...


class Transport(Protocol):
    """The queue service, for an event loop. Any method may raise a `TransportError`.

    Batches hold at most ten entries. A batch method returns the failed entries, so an empty
    list means that all were carried out: whoever calls has to read it.
    """

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]: ...

    async def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        """Take up to ``limit`` (1 to 10), waiting up to ``wait_s`` (0 to 20) for the first.

        ``visibility_s`` overrides the queue's own timeout for this delivery.
        """
        ...

    async def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]: ...

    async def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]: ...

    async def depth(self, queue: str) -> QueueDepth: ...


class BlockingTransport(Protocol):
    """`Sender`, for synchronous code."""

    def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]: ...


class BlockingReceiver(Protocol):
    """Looking into queues, for plain code: each as `Transport`'s."""

    def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]: ...

    def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]: ...

    def depth(self, queue: str) -> QueueDepth: ...


class Publisher(Protocol):
    """A topic that people are subscribed to, for plain code."""

    def publish(self, subject: str, text: str) -> None:
        """Tell them; once this returns, the service has it. May raise a `TransportError`.

        Args:
            subject: 1 to 99 printable characters of ASCII.
            text: at most 256 KiB.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An item's line in one of the table's lists: a sparse index, in which most items have none."""

    list: str
    """Which list; not empty."""
    place: str
    """Its place there; not empty. Begin it with a time, since lists are read from the end."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """What the list tells of the item, as JSON values; the rest takes a look at the item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of the table."""

    pk: str
    """The partition it stands in; not empty."""
    sk: str
    """Its place there; not empty. Items of a partition are read in this order."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """JSON values: strings, numbers, booleans, None, lists and maps of them."""
    version: int = 0
    """Of an item written by `Table.replace`, counted from 1; 0 for one that was simply put."""
    expires_at: datetime | None = None
    """When the table may forget it; aware. Reads leave out what has expired."""
    line: Line | None = None


Key = tuple[str, str]
"""An item's ``pk`` and ``sk``."""


MAX_PUT = 25
"""Items that are written or deleted at once.
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html"""


class Table(Protocol):
    """One DynamoDB table, keyed by ``pk`` and ``sk``. Any method may raise a `TransportError`."""

    async def put(self, items: Sequence[Item]) -> list[Item]:
        """Write up to 25 items, each replacing what stands in its place; no two of one place.

        Returns those that were not written; whoever calls tries them again.
        """
        ...

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """All items of a partition whose ``sk`` starts with ``prefix``, in the order of ``sk``.

        Strongly consistent: every write that was confirmed before is seen.
        """
        ...

    async def get(self, pk: str, sk: str) -> Item | None:
        """One item, strongly consistent."""
        ...

    async def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        """The last items of a list, the last one first; one just written may not be among them yet.

        Args:
            name: which list.
            after, before: only lines whose place lies between these; empty is no bound.
            limit: how many, at most 1,000.

        Returns:
            items with their key and line, and without their data.
        """
        ...

    async def delete(self, keys: Sequence[Key]) -> list[Key]:
        """Delete up to 25 items; what is not there is deleted already. Returns those still to do.

        Raises a `TransportError` as other methods do.
        """
        ...

    async def replace(self, item: Item) -> Item | None:
        """Write an item if what stands in its place is of the version just before its own.

        ``version`` 1 thus creates, and is refused where there is an item that has not expired.

        Returns:
            None once it is written; else what stands there instead. An item of version 0 without
            data says that there is nothing.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """One schedule of EventBridge Scheduler's that invokes a Lambda function."""

    group: str
    """The physical name of the group that it stands in."""
    name: str
    """At most 64 letters, digits, hyphens, underscores and full stops; unique in its group."""
    expression: str
    """``cron(...)``, ``rate(...)`` or ``at(...)``."""
    function: str
    """The physical name of the function that it invokes."""
    role: str
    """The role that it assumes for that, as `jobs.core.topology.Topology` names it."""
    input: str
    """JSON that the function is handed, at most 256 KiB."""
    timezone: str = "UTC"
    start: datetime | None = None
    end: datetime | None = None
    flexible_minutes: int | None = None
    """Over how many minutes the service may spread the firing."""
    enabled: bool = True
    delete_when_done: bool = False
    """It goes away by itself after it has fired for the last time."""
    dead_letters: str | None = None
    """The queue for firings that the function did not take."""
    description: str = ""
    created_at: datetime | None = None
    """What the service says; None for one that is to be created."""
    modified_at: datetime | None = None
    as_of: datetime | None = field(default=None, compare=False)
    """The time by the service's own clock when it said so."""
    beyond: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """All else that the service holds of it, in its own words; an update gives it back."""


class Scheduler(Protocol):
    """EventBridge Scheduler, as far as Headgate needs it. Any method may raise a `TransportError`.

    A group that does not exist is a `ScheduleGroupMissing`, where the service says so.
    """

    async def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
        """Create a schedule; False if there is another of that name, which stays as it is.

        ``token``, at most 64 letters, digits, hyphens and underscores, names the request: repeated
        with the same token, it answers as it did before.
        """
        ...

    async def get(self, group: str, name: str) -> ScheduleSpec | None: ...

    async def names(self, group: str, *, prefix: str) -> list[str]:
        """The names that start with ``prefix``."""
        ...

    async def update(self, schedule: ScheduleSpec) -> bool:
        """Replace a schedule, all of it; False if there is none of that name."""
        ...

    async def delete(self, group: str, name: str) -> bool:
        """Delete a schedule; False if there is none of that name."""
        ...


class BlockingScheduler(Protocol):
    """`Scheduler`, for plain code."""

    def create(self, schedule: ScheduleSpec, *, token: str) -> bool: ...

    def get(self, group: str, name: str) -> ScheduleSpec | None: ...

    def names(self, group: str, *, prefix: str) -> list[str]: ...

    def update(self, schedule: ScheduleSpec) -> bool: ...

    def delete(self, group: str, name: str) -> bool: ...


class BlockingTable(Protocol):
    """`Table` for synchronous code: the same calls with the same promises, from any thread."""

    def put(self, items: Sequence[Item]) -> list[Item]:
        """As `Table.put`."""
        ...

    def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """As `Table.query`."""
        ...

    def get(self, pk: str, sk: str) -> Item | None:
        """As `Table.get`."""
        ...

    def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        """As `Table.lines`."""
        ...

    def delete(self, keys: Sequence[Key]) -> list[Key]:
        """As `Table.delete`."""
        ...

    def replace(self, item: Item) -> Item | None:
        """As `Table.replace`."""
        ...


class ObjectStore(Protocol):
    """One S3 bucket, for an event loop: what is too large for messages and records.

    Any method may raise a `TransportError`.
    """

    async def put(self, key: str, content: bytes) -> None:
        """Keep an object, in place of what stands under that key; once this returns, it is read."""
        ...

    async def get(self, key: str) -> bytes | None:
        """An object's content; None if there is none."""
        ...


class BlockingObjectStore(Protocol):
    """The same for plain code, from any thread."""

    def put(self, key: str, content: bytes) -> None: ...

    def get(self, key: str) -> bytes | None: ...
