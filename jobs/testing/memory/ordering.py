"""Orderings of a queue's visible messages: any order, or that of their groups."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from headgate.jobs.core.ports.transport import OutgoingMessage


class MessageState(StrEnum):
    """The state of a stored message."""

    VISIBLE = "visible"
    IN_FLIGHT = "in-flight"
    DELAYED = "delayed"


@dataclass(slots=True, kw_only=True, eq=False)
class Message:
    """A stored message. Times in ``_s`` are on the service's monotonic clock."""

    id: str
    content: OutgoingMessage
    sent_at: datetime
    sent_s: float
    state: MessageState = MessageState.VISIBLE
    visible_s: float = 0.0
    """Time at which a delayed or in-flight message becomes visible."""
    received_s: float = 0.0
    first_received_at: datetime | None = None
    receive_count: int = 0
    """Number of receives, and so the number of its latest delivery."""


class Ordering(Protocol):
    """The order in which one queue hands out its visible messages; every step takes O(1)."""

    def store(self, message: Message) -> None:
        """Add a message that has come to the queue and is not visible yet."""
        ...

    def show(self, message: Message) -> None:
        """Make a stored message visible."""
        ...

    def take(self, limit: int) -> list[Message]:
        """Return up to ``limit`` messages to deliver; the caller hides or removes each of them."""
        ...

    def forget(self, message: Message) -> None:
        """Drop a message that has left the queue, whatever its state."""
        ...


class StandardOrdering:
    """First come, first served; SQS promises no order, and real fair queues consider groups too."""

    def __init__(self) -> None:
        # Ordered dicts here and below, since they drop both their first entry and any other in
        # O(1); a plain dict has to skip all deleted entries to find its first.
        self._visible: OrderedDict[str, Message] = OrderedDict()

    def store(self, message: Message) -> None:
        """Do nothing: only visible messages have a place in the order."""

    def show(self, message: Message) -> None:
        self._visible[message.id] = message

    def take(self, limit: int) -> list[Message]:
        return [self._visible.popitem(last=False)[1] for _ in range(min(limit, len(self._visible)))]

    def forget(self, message: Message) -> None:
        self._visible.pop(message.id, None)


class FifoOrdering:
    """Each group in the order of sending: a hidden message holds back those sent after it.

    One receive may still return several messages of a group. SQS does both in LocalStack's
    recordings (test_fifo_group_visibility_extends_with_change_message_visibility).
    """

    def __init__(self) -> None:
        self._groups: dict[str, OrderedDict[str, Message]] = {}
        self._open: OrderedDict[str, None] = OrderedDict()
        """Groups whose first message may be visible. A group is removed when messages of it are
        taken, and returns at the end when one of its messages is shown or leaves the queue."""

    def store(self, message: Message) -> None:
        self._groups.setdefault(_group(message), OrderedDict())[message.id] = message

    def show(self, message: Message) -> None:
        self._open.setdefault(_group(message))

    def take(self, limit: int) -> list[Message]:
        taken: list[Message] = []
        while self._open and len(taken) < limit:
            group, _ = self._open.popitem(last=False)
            for message in self._groups[group].values():
                if message.state is not MessageState.VISIBLE or len(taken) == limit:
                    break
                taken.append(message)
        return taken

    def forget(self, message: Message) -> None:
        group = _group(message)
        del self._groups[group][message.id]
        if self._groups[group]:
            self._open.setdefault(group)
        else:
            del self._groups[group]
            self._open.pop(group, None)


def _group(message: Message) -> str:
    return message.content.group or ""
