"""One queue of `MemorySqs`: its messages and their states over time. It reads no clock itself."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import OrderedDict
from collections.abc import Collection
from datetime import datetime

from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage, VisibilityChange
from headgate.jobs.testing.memory.bell import Bell
from headgate.jobs.testing.memory.ordering import (
    FifoOrdering,
    Message,
    MessageState,
    Ordering,
    StandardOrdering,
)
from headgate.jobs.testing.memory.sqs_limits import MAX_VISIBILITY_S, EntryRefused, invalid_value
from headgate.jobs.values.light_dataclass import light_dataclass

_DEDUPLICATION_S = 300.0
_GONE = "Message does not exist or is not available for visibility timeout change."
_sequence = itertools.count()
"""Numbers that break ties between messages that become visible at the same time."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """A queue's attributes; `MemorySqs.create_queue` explains them."""

    visibility_s: int
    delay_s: int
    retention_s: int
    dlq: str | None
    max_receive_count: int | None
    fifo: bool


class MemoryQueue:
    """The messages of one queue. The caller holds the service's lock and passes the time.

    Every message is in one of three states: delayed → visible ⇄ in flight. It leaves by being
    deleted, by outliving the retention, or for the dead-letter queue once it exceeds its receives.
    """

    def __init__(
        self,
        name: str,
        settings: QueueSettings,
        *,
        dlq: MemoryQueue | None,
        in_flight_limit: int,
        old_receipts_work: bool,
    ) -> None:
        self.name = name
        self.settings = settings
        self.bell = Bell()
        self._dlq = dlq
        self._in_flight_limit = in_flight_limit
        self._old_receipts_work = old_receipts_work and not settings.fifo
        self._messages: dict[str, Message] = {}
        self._ordering: Ordering = FifoOrdering() if settings.fifo else StandardOrdering()
        self._count = dict.fromkeys(MessageState, 0)
        # Entries of these heaps may be outdated: a message may have changed or gone meanwhile.
        # They hold ids, so that deleted messages are also freed.
        self._appearing: list[tuple[float, int, str]] = []
        self._expiring: list[tuple[float, str]] = []
        self._deduplicated: OrderedDict[tuple[str | None, str], float] = OrderedDict()
        """Times at which each group's deduplication ids are forgotten, the earliest first."""

    @property
    def messages(self) -> Collection[Message]:
        """All messages in the queue, in order of arrival."""
        return self._messages.values()

    @property
    def is_full(self) -> bool:
        """True while the limit on messages in flight is reached."""
        return self._count[MessageState.IN_FLIGHT] >= self._in_flight_limit

    def count(self, state: MessageState) -> int:
        """Return the number of messages in that state."""
        return self._count[state]

    def next_appearance_s(self) -> float:
        """Return the time at which a message may become visible next; infinity for never."""
        return self._appearing[0][0] if self._appearing else math.inf

    def tick(self, now_s: float) -> None:
        """Apply everything that is due: messages become visible or expire."""
        while self._appearing and self._appearing[0][0] <= now_s:
            visible_s, _, message_id = heapq.heappop(self._appearing)
            message = self._messages.get(message_id)
            if message and _is_hidden(message) and message.visible_s == visible_s:
                self._show(message)
        while self._expiring and self._expiring[0][0] <= now_s:
            if expired := self._messages.get(heapq.heappop(self._expiring)[1]):
                self._remove(expired)

    def send(self, message: Message, now_s: float) -> None:
        """Store a new message, or on FIFO drop it if its group has just had that id."""
        if self._is_duplicate(message.content, now_s):
            return
        self._store(message)
        if delay_s := message.content.delay_s or self.settings.delay_s:
            self._hide(message, MessageState.DELAYED, now_s + delay_s)
        else:
            self._show(message)

    def receive(
        self, limit: int, visibility_s: int | None, now_s: float, now: datetime
    ) -> list[ReceivedMessage]:
        """Deliver up to ``limit`` visible messages; those received too often go to the DLQ."""
        until_s = now_s + (self.settings.visibility_s if visibility_s is None else visibility_s)
        limit = min(limit, self._in_flight_limit - self._count[MessageState.IN_FLIGHT])
        delivered: list[ReceivedMessage] = []
        while len(delivered) < limit and (
            candidates := self._ordering.take(limit - len(delivered))
        ):
            for message in candidates:
                if self._dlq is not None and self._is_exhausted(message):
                    self._remove(message)
                    self._dlq.adopt(message)
                else:
                    delivered.append(self._deliver(message, now_s, until_s, now))
        if delivered:  # other polls have to note when these messages may come back
            self.bell.ring()
        return delivered

    def adopt(self, message: Message) -> None:
        """Take over a dead letter, which keeps its id, time of sending and receive count."""
        self._store(message)
        self._show(message)
        self.bell.ring()

    def delete(self, receipt: str) -> None:
        """Remove a message for good.

        FIFO queues refuse the receipt of a past delivery; standard queues report success, and may
        or may not delete (DeleteMessage's reference). Deleting a message that is gone succeeds.
        """
        message = self._find(receipt)
        if message is None:
            return
        if self._old_receipts_work or self._holds(receipt, message):
            self._remove(message)
        elif self.settings.fifo:
            raise invalid_value(receipt, "ReceiptHandle", "The receipt handle has expired.")

    def change_visibility(self, change: VisibilityChange, now_s: float) -> None:
        """Hide a delivery until ``timeout_s`` from now."""
        message = self._find(change.receipt)
        if message is None:
            raise invalid_value(change.receipt, "ReceiptHandle", _GONE)
        if not self._holds(change.receipt, message):
            if not self._old_receipts_work:
                raise invalid_value(change.receipt, "ReceiptHandle", _GONE)
            if message.state is not MessageState.IN_FLIGHT:
                return
        self._check_timeout(change.timeout_s, now_s - message.received_s)
        self._hide(message, MessageState.IN_FLIGHT, now_s + change.timeout_s)

    def _deliver(
        self, message: Message, now_s: float, until_s: float, now: datetime
    ) -> ReceivedMessage:
        message.receive_count += 1
        message.received_s = now_s
        message.first_received_at = message.first_received_at or now
        self._hide(message, MessageState.IN_FLIGHT, until_s)
        return ReceivedMessage(
            message_id=message.id,
            receipt=self._receipt(message),
            body=message.content.body,
            receive_count=message.receive_count,
            sent_at=message.sent_at,
            attributes=dict(message.content.attributes),
            group=message.content.group,
            first_received_ms=str(int(message.first_received_at.timestamp() * 1000)),
        )

    def _receipt(self, message: Message) -> str:
        """Return the receipt of the message's latest delivery."""
        return f"{self.name}/{message.id}/{message.receive_count}"

    @staticmethod
    def _check_timeout(timeout_s: int, held_s: float) -> None:
        if not 0 <= timeout_s <= MAX_VISIBILITY_S:
            raise invalid_value(
                timeout_s, "VisibilityTimeout", f"Must be between 0 and {MAX_VISIBILITY_S}."
            )
        if held_s + timeout_s > MAX_VISIBILITY_S:
            raise invalid_value(
                timeout_s,
                "VisibilityTimeout",
                "Total VisibilityTimeout for the message is beyond the limit "
                f"[{MAX_VISIBILITY_S} seconds]",
            )

    def _find(self, receipt: str) -> Message | None:
        """Return the message that a receipt of this queue belongs to; None if it is gone."""
        queue, _, delivery = receipt.partition("/")
        message_id, _, number = delivery.partition("/")
        if queue != self.name or not number:
            raise EntryRefused(
                "ReceiptHandleIsInvalid",
                f'The input receipt handle "{receipt}" is not a valid receipt handle.',
            )
        return self._messages.get(message_id)

    def _holds(self, receipt: str, message: Message) -> bool:
        return message.state is MessageState.IN_FLIGHT and self._receipt(message) == receipt

    def _is_exhausted(self, message: Message) -> bool:
        allowed = self.settings.max_receive_count
        return allowed is not None and message.receive_count >= allowed

    def _is_duplicate(self, content: OutgoingMessage, now_s: float) -> bool:
        if content.deduplication_id is None:
            return False
        key = (content.group, content.deduplication_id)
        known = self._deduplicated
        while known and next(iter(known.values())) <= now_s:
            known.popitem(last=False)
        if key in known:
            return True
        known[key] = now_s + _DEDUPLICATION_S
        return False

    def _store(self, message: Message) -> None:
        self._messages[message.id] = message
        self._count[message.state] += 1
        self._ordering.store(message)
        heapq.heappush(self._expiring, (message.sent_s + self.settings.retention_s, message.id))

    def _remove(self, message: Message) -> None:
        del self._messages[message.id]
        self._count[message.state] -= 1
        self._ordering.forget(message)

    def _show(self, message: Message) -> None:
        self._enter(message, MessageState.VISIBLE)
        self._ordering.show(message)

    def _hide(self, message: Message, state: MessageState, until_s: float) -> None:
        self._enter(message, state)
        message.visible_s = until_s
        heapq.heappush(self._appearing, (until_s, next(_sequence), message.id))

    def _enter(self, message: Message, state: MessageState) -> None:
        self._count[message.state] -= 1
        self._count[state] += 1
        message.state = state


def _is_hidden(message: Message) -> bool:
    return message.state is not MessageState.VISIBLE
