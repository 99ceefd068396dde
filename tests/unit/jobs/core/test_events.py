from __future__ import annotations

import inspect
import logging
import re
from dataclasses import fields
from datetime import UTC, datetime

import pytest

from headgate import Event, Events
from headgate.jobs.core import events
from headgate.jobs.core.events import (
    CancellationsFailed,
    HookFailed,
    ItemsSkipped,
    JobEvent,
    LimitEvent,
    LoopBlocked,
    PauseEvent,
    QueueEvent,
    RecordsFailed,
    RecordsShed,
    RecordsWritten,
    SigningKeysFailed,
    any_of,
)
from headgate.jobs.values.light_dataclass import light_dataclass

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Event):
    name = "tick"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Tock(Event):
    name = "tock"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class LateTock(Tock):
    name = "tock.late"


OF_THE_WORKER = (
    CancellationsFailed,
    HookFailed,
    ItemsSkipped,
    LoopBlocked,
    RecordsFailed,
    RecordsShed,
    RecordsWritten,
    SigningKeysFailed,
)
"""Events that belong to no single job, queue, limit or pause."""


def named() -> list[type[Event]]:
    """Return the classes of `jobs.core.events` that are emitted."""
    classes = (cls for _, cls in inspect.getmembers(events, inspect.isclass))
    found = [cls for cls in classes if issubclass(cls, Event) and "name" in vars(cls)]
    return sorted(found, key=lambda cls: cls.name)


def test_the_table_in_the_docstring_lists_exactly_the_events_that_there_are() -> None:
    table = re.findall(r"^ {4}([a-z_]+\.[a-z_]+)  +\S", events.__doc__ or "", re.MULTILINE)
    assert sorted(table) == [cls.name for cls in named()]
    assert len(set(table)) == len(table)


@pytest.mark.parametrize("cls", named(), ids=lambda cls: cls.name)
def test_an_event_says_what_it_is_about_and_never_a_payload(cls: type[Event]) -> None:
    assert issubclass(cls, JobEvent | QueueEvent | LimitEvent | PauseEvent) or cls in OF_THE_WORKER
    assert cls.name.startswith("job.") is issubclass(cls, JobEvent)
    assert {field.name for field in fields(cls)}.isdisjoint({"payload", "body", "result"})


def test_every_subscriber_hears_every_event_in_the_order_of_subscription() -> None:
    heard: list[str] = []
    hub = Events(lambda event: heard.append(f"first {event.name}"))
    hub.subscribe(lambda event: heard.append(f"second {event.name}"))
    hub.emit(Tick(at=NOW))
    assert heard == ["first tick", "second tick"]


def test_a_subscriber_gets_only_the_kinds_of_events_that_it_wants() -> None:
    heard: list[Event] = []
    hub = Events()
    hub.subscribe(heard.append, wants=any_of(Tock))
    for event in (Tick(at=NOW), Tock(at=NOW), LateTock(at=NOW)):
        hub.emit(event)
    assert heard == [Tock(at=NOW), LateTock(at=NOW)]


def test_a_subscriber_is_asked_once_whether_it_wants_a_kind() -> None:
    asked: list[type[Event]] = []

    def wants(kind: type[Event]) -> bool:
        asked.append(kind)
        return True

    hub = Events()
    hub.subscribe(lambda _event: None, wants=wants)
    for _ in range(3):
        hub.emit(Tick(at=NOW))
    assert asked == [Tick]


def test_a_late_subscriber_hears_kinds_that_nobody_wanted_before() -> None:
    heard: list[Event] = []
    hub = Events()
    hub.emit(Tick(at=NOW))
    assert not hub.has_listeners(Tick)
    hub.subscribe(heard.append)
    hub.emit(Tick(at=NOW))
    assert heard == [Tick(at=NOW)]
    assert hub.has_listeners(Tick)


def test_a_subscriber_that_raises_is_logged_and_the_others_hear_the_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(event: Event) -> None:
        raise ZeroDivisionError(f"in the hook of {event.name}")

    heard: list[Event] = []
    Events(broken, heard.append).emit(Tick(at=NOW))
    assert heard == [Tick(at=NOW)]
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "a subscriber raised on tick")
    assert "in the hook" in caplog.text
