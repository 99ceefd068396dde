"""The root of all events, and their delivery to subscribers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import ClassVar

from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.events")


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The root of all events."""

    name: ClassVar[str]
    at: datetime


Subscriber = Callable[[Event], None]

Wants = Callable[[type[Event]], bool]
"""Returns True for the kinds of events that a subscriber is called with."""


def any_of(*kinds: type[Event]) -> Wants:
    """Return a subscriber's wish for events of these classes and their subclasses."""
    return lambda kind: issubclass(kind, kinds)


_EVERY = any_of(Event)


class _ByKind(dict[type[Event], tuple[Subscriber, ...]]):
    """By kind, the subscribers that want it; filled in as the kinds come up."""

    def __init__(self, subscribers: Iterable[tuple[Subscriber, Wants]]) -> None:
        self._subscribers = tuple(subscribers)

    def __missing__(self, kind: type[Event]) -> tuple[Subscriber, ...]:
        self[kind] = wanting = tuple(each for each, wants in self._subscribers if wants(kind))
        return wanting


class Events:
    """Passes each event to the subscribers that want its kind, in the order of subscription."""

    def __init__(self, *subscribers: Subscriber) -> None:
        self._subscribers: list[tuple[Subscriber, Wants]] = []
        self._of_kind = _ByKind(self._subscribers)
        for subscriber in subscribers:
            self.subscribe(subscriber)

    def subscribe(self, subscriber: Subscriber, *, wants: Wants = _EVERY) -> None:
        """Add a subscriber, called in the thread of each event: it must be quick and not block.

        Args:
            subscriber: the subscriber.
            wants: called once for each kind of event; by default the subscriber gets all.
        """
        self._subscribers.append((subscriber, wants))
        self._of_kind = _ByKind(self._subscribers)

    def has_listeners(self, kind: type[Event]) -> bool:
        """Return True if any subscriber wants that kind: if none does, no event need be made."""
        return bool(self._of_kind[kind])

    def emit(self, event: Event) -> None:
        """Pass ``event`` to its subscribers. One that raises is logged; the others still run."""
        for subscriber in self._of_kind[type(event)]:
            try:
                subscriber(event)
            except Exception:  # noqa: BLE001 - the users' code; logged with its traceback
                _log.exception("a subscriber raised on %s", event.name)
