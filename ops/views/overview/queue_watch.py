"""Output of ``headgate queues list --watch``: a table redrawn in place, or one after another."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headgate.jobs.client.overview.queues import QueueList, QueueStatus
from headgate.jobs.errors import Throttled, TransportError
from headgate.ops.views.output import in_line, show, show_error, show_json
from headgate.ops.views.overview.queues import notes, table, values

_MINUTE_S = 60.0

_LEAST_S = 1.0
"""Seconds between two looks below which a change says nothing: SQS's counts settle in seconds."""


class QueueSource(Protocol):
    """Tells what an app's queues hold: a `headgate.jobs.client.overview.queues.QueueDesk`."""

    def list(self) -> QueueList: ...


class WatchDisplay(Protocol):
    """Shows one look after the other."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_error: object) -> None: ...

    def show(self, found: QueueList, changes: Mapping[str, float]) -> None:
        """Show a look."""
        ...

    def tell(self, fault: str) -> None:
        """Say why a look failed; the one before stays."""
        ...


@dataclass(slots=True)
class QueueChanges:
    """The changes of queues between two looks.

    Messages come and go unseen in between, so only their difference is known: what came less what
    went. It needs the same queue in both looks, and counts that both have.
    """

    _before: Mapping[str, int] = field(default_factory=dict)
    _at_s: float = 0.0

    def since(self, found: QueueList, now_s: float) -> Mapping[str, float]:
        """Return the change of each queue's messages in a minute, by its physical name."""
        totals = {each.name: total for each in found.queues if (total := _total(each)) is not None}
        before, passed_s = self._before, now_s - self._at_s
        self._before, self._at_s = totals, now_s
        if passed_s < _LEAST_S:
            return {}
        return {
            name: (total - before[name]) / passed_s * _MINUTE_S
            for name, total in totals.items()
            if name in before
        }


def watch(source: QueueSource, *, every_s: float, count: int | None, as_json: bool) -> None:
    """Look again and again, until Ctrl-C or that many times.

    A look that fails is said, and the next one is made in its time; a throttled one waits twice as
    long.

    Args:
        source: tells what the queues hold.
        every_s: seconds between two looks.
        count: the number of looks; None looks until Ctrl-C.
        as_json: print each look as a JSON document of one line.
    """
    changes = QueueChanges()
    try:
        with _display(as_json=as_json) as display:
            left = count
            while left is None or left > 0:
                pause_s = _look(source, display, changes, every_s)
                if left is not None:
                    left -= 1
                if left != 0:
                    time.sleep(pause_s)
    except KeyboardInterrupt:
        return


def _look(
    source: QueueSource, display: WatchDisplay, changes: QueueChanges, every_s: float
) -> float:
    """Make one look; return the seconds until the next."""
    try:
        found = source.list()
    except TransportError as error:
        display.tell(str(error))
        return 2 * every_s if isinstance(error, Throttled) else every_s
    display.show(found, changes.since(found, time.monotonic()))
    return every_s


def _display(*, as_json: bool) -> WatchDisplay:
    if as_json:
        return QueueDocuments()
    return QueueScreen(Console()) if sys.stdout.isatty() else QueuePages()


class QueueScreen:
    """A table that is redrawn in place; the last one stays."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._last = Group()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()

    def show(self, found: QueueList, changes: Mapping[str, float]) -> None:
        lines = (Text(in_line(line)) for line in _lines(found))
        drawn = table(found, changes).frame(self._live.console)
        self._last = Group(Text(_now()), drawn, *lines)
        self._live.update(self._last, refresh=True)

    def tell(self, fault: str) -> None:
        said = Text(in_line(f"{_now()} not read: {fault}"))
        self._live.update(Group(*self._last.renderables, said), refresh=True)


class QueuePages:
    """A table after the other, for a pipe."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def show(self, found: QueueList, changes: Mapping[str, float]) -> None:
        show(_now())
        table(found, changes).show()
        for line in _lines(found):
            show(in_line(line))
        show(at_once=True)

    def tell(self, fault: str) -> None:
        show_error(fault)


class QueueDocuments(QueuePages):
    """A JSON document on each line."""

    def show(self, found: QueueList, changes: Mapping[str, float]) -> None:
        show_json({"at": datetime.now(UTC), **values(found), "changes": changes}, indent=None)
        sys.stdout.flush()


def _lines(found: QueueList) -> list[str]:
    missing = [f"missing: {', '.join(found.missing)}"] if found.missing else []
    return [*notes(found), *missing]


def _total(queue: QueueStatus) -> int | None:
    counts = (queue.waiting, queue.in_flight, queue.delayed)
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _now() -> str:
    return datetime.now(UTC).strftime("%H:%M:%S UTC")
