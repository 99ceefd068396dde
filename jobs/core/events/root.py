"""The root of all events, and their delivery to subscribers."""

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
    """Passes each event to every subscriber, in the order of subscription."""

    def __init__(self, *subscribers: Subscriber) -> None:
        self._subscribers = list(subscribers)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Add a subscriber, called in the thread of each event: it must be quick and not block."""
        self._subscribers.append(subscriber)

    def emit(self, event: Event) -> None:
        """Pass ``event`` to all subscribers. One that raises is logged; the others still run."""
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:  # noqa: BLE001 - the users' code; logged with its traceback
                _log.exception("a subscriber raised on %s", event.name)
