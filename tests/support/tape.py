"""Everything that an app in memory ever hands to AWS, or logs, in one text to be searched."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from headgate.jobs.aws.dynamo.attributes import encode_all, encode_next
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import Event
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.testing import MemoryScheduler, MemorySqs
from headgate.jobs.testing.memory import store, table
from tests.support.loggers import restored


class Tape:
    """All that was sent, stored, scheduled and logged; subscribed to events, it has them logged."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def __call__(self, event: Event) -> None:
        """Log an event, as a worker does, with all its fields."""
        log_event(event)

    def take(self, *parts: object) -> None:
        self.parts += [repr(part) for part in parts]

    def where(self, *words: str) -> list[str]:
        """Return the recorded parts, cut, that contain one of the words."""
        return [part[:300] for part in self.parts if any(word in part for word in words)]

    def kinds(self) -> set[str]:
        """Return the first word of each part, which names what was recorded."""
        return {part.partition("(")[0].strip("'\"") for part in self.parts}


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tape]:
    """Record all that happens in memory while the block runs, whatever becomes of it later."""
    tape = Tape()
    _record_messages(tape, monkeypatch)
    _record_items(tape, monkeypatch)
    _record_objects(tape, monkeypatch)
    with restored() as logger:
        logger.addHandler(_Log(tape))
        logger.setLevel(logging.DEBUG)
        yield tape


class _Log(logging.Handler):
    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._tape.take(f"log {self.format(record)} {record.__dict__}")


def _record_messages(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    send, put = MemorySqs.send_now, MemoryScheduler.put

    def sending(self: MemorySqs, queue: str, messages: Sequence[OutgoingMessage]) -> Any:
        tape.take(*messages)
        return send(self, queue, messages)

    def scheduling(self: MemoryScheduler, schedule: ScheduleSpec, token: str) -> bool:
        tape.take(schedule)
        return put(self, schedule, token)

    monkeypatch.setattr(MemorySqs, "send_now", sending)
    monkeypatch.setattr(MemoryScheduler, "put", scheduling)


def _record_items(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:

    def all_of(items: Sequence[Item]) -> Any:
        tape.take(*items)
        return encode_all(items)

    def next_of(item: Item) -> Any:
        tape.take(item)
        return encode_next(item)

    monkeypatch.setattr(table, "encode_all", all_of)
    monkeypatch.setattr(table, "encode_next", next_of)


def _record_objects(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    put = store._ObjectStore.put

    def putting(self: Any, key: str, content: bytes) -> None:
        tape.take(f"object({key})", gzip.decompress(content), content)
        put(self, key, content)

    monkeypatch.setattr(store._ObjectStore, "put", putting)
