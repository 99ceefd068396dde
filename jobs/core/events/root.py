"""The root of all events, and who is told of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

_log = logging.getLogger("headgate.events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The root of all events."""

    name: ClassVar[str]
    at: datetime


Subscriber = Callable[[Event], None]


class Events:
    """Hands each event to every subscriber, in the order of their subscription."""

    def __init__(self, *subscribers: Subscriber) -> None:
        self._subscribers = list(subscribers)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Add a subscriber. It runs where the event happens, so it must be quick and not block."""
        self._subscribers.append(subscriber)

    def emit(self, event: Event) -> None:
        """Hand ``event`` to all. One that raises is reported, and changes nothing for others."""
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:  # noqa: BLE001 - the users' code; logged with its traceback
                _log.exception("a subscriber failed on %s", event.name)
