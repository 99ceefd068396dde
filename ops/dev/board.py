"""The state of an app under `headgate dev`, by the lines that its process writes.

Pure: lines in, counts and texts out; `ops.dev.screen` draws them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.texts import printable
from headgate.ops.dev import notes

Style = Literal["plain", "good", "bad", "warning", "faint"]

_WORKER = "headgate.worker"
_AUDIT = "headgate.audit"
"""The logger that tells who did what, by the web console or in the app's own code."""
_SWEPT = ("headgate.sweep", "dead letter")
"""The logger of the sweep, and its line for each new dead letter."""
_OURS, _JOBS = "headgate.", "headgate.job."
_FIELDS = ("logger", "level", "message")
_LOUD = ("WARNING", "ERROR", "CRITICAL")
_EVENT = re.compile(r"[a-z_]+\.[a-z_]+")
"""The message of an event's line, whose facts are the line's other fields."""
_UNDER_WAY = ("job.progress", "job.stalled")
"""Events of a job whose handler runs on."""
_OF_LINES = {*_FIELDS, "at", "exc_info", "traceback"}
"""Fields that are no fact of an event, or too long for a line."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A text to print, of one line or several."""

    text: str
    style: Style = "plain"


@dataclass(slots=True)
class TypeCounts:
    """The jobs of one type since `headgate dev` began."""

    running: set[str] = field(default_factory=set)
    """Ids of those that run."""
    completed: int = 0
    retried: int = 0
    dead: int = 0

    def follow(self, event: str, job_id: str) -> None:
        """Note whether a job runs, by an event of it."""
        if event == "job.started":
            self.running.add(job_id)
        elif event not in _UNDER_WAY:
            self.running.discard(job_id)


class Board:
    """The counts by type, and what came last."""

    def __init__(self) -> None:
        self.app = ""
        """Name of the app, with its stage's; empty until it was loaded."""
        self.tallies: dict[str, TypeCounts] = {}
        """By type, in the order of their declaration."""
        self.schedules: Mapping[str, datetime] = {}
        """The next time of any schedule, by type."""
        self.provisioned = ""
        """As `ops.dev.preparing.Prepared.provisioned`."""
        self.state = "starting"
        """The present state of `headgate dev`, in a few words."""

    def begin(self) -> None:
        """Note that another process takes over: nothing runs in it yet."""
        self.state = "loading"
        for tally in self.tallies.values():
            tally.running.clear()

    def hear(self, line: str) -> Said | None:
        """Take a line of the app's process; return what to print of it."""
        record = _record(line)
        if record is None:
            return Said(text=printable(line))
        match record["logger"]:
            case notes.LOGGER:
                return self._noted(record)
            case logger if logger == _WORKER and (event := _event(record)):
                return self._happened(event, record)
            case logger if (logger, record["message"]) == _SWEPT:
                return None  # the job's own line and the sweep's alert say so
            case logger if logger == _AUDIT:
                return _logged(record)
            case logger if logger.startswith(_OURS) and not logger.startswith(_JOBS):
                return _logged(record) if record["level"] in _LOUD else None
        return _logged(record)

    def _noted(self, record: Mapping[str, Any]) -> Said | None:
        match record["message"]:
            case notes.READY:
                return self._ready(record)
            case notes.DUE:
                self._expect(record)
                return None
            case notes.BROKEN:
                text = "\n".join(filter(None, (record["trace"].rstrip(), record["reason"])))
                return Said(text=printable(text), style="bad")
        return _logged(record)

    def _ready(self, record: Mapping[str, Any]) -> Said:
        self.state = "running"
        self.app, self.provisioned = record["app"], record["provisioned"]
        self.tallies = {name: self.tallies.get(name, TypeCounts()) for name in record["types"]}
        self._expect(record)
        return Said(text=f"ready: {self.app}, {_counted(len(self.tallies), 'job type')}")

    def _expect(self, record: Mapping[str, Any]) -> None:
        self.schedules = {
            name: datetime.fromisoformat(due) for name, due in record["schedules"].items()
        }

    def _happened(self, event: str, record: Mapping[str, Any]) -> Said | None:
        job_type, job_id = record.get("job_type", ""), record.get("job_id", "")
        tally = self.tallies.get(job_type, TypeCounts())
        tally.follow(event, job_id)
        name = f"{job_type} {job_id}"
        match event:
            case "job.completed":
                tally.completed += 1
                return Said(text=f"{name} completed in {_s(record['ran_s'])}", style="good")
            case "job.failed":
                text = f"{name} failed: {record['error_type']}: {record['error_message']}"
                return Said(text=printable(f"{text}\n{record['traceback'].rstrip()}"), style="bad")
            case "job.retry_scheduled":
                tally.retried += 1
                when = f"in {_s(record['delay_s'])}" if record["delay_s"] else "at once"
                return Said(text=f"{name} again {when}", style="warning")
            case "job.crashed":
                return Said(text=printable(f"{name} crashed: {record['detail']}"), style="bad")
            case "job.dead_lettered":
                tally.dead += 1
                return Said(text=f"{name} is a dead letter: {record['reason']}", style="bad")
            case "job.quarantined":
                tally.dead += 1
                text = f"{name} is a dead letter: quarantined, since {record['detail']}"
                return Said(text=printable(text), style="bad")
        if (ended := _ENDS.get(event)) is not None:
            return Said(text=printable(f"{name} {ended(record)}"), style="warning")
        if (told := _WARNINGS.get(event)) is not None:
            return Said(text=printable(told(record)), style="warning")
        return (
            Said(text=_told(event, record), style="warning") if record["level"] in _LOUD else None
        )


def _record(line: str) -> dict[str, Any] | None:
    """Return a line of the app's log; None for what its code printed."""
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    return found if all(isinstance(found.get(name), str) for name in _FIELDS) else None


def _event(record: Mapping[str, Any]) -> str:
    """Return the name of the event that a line tells of, or an empty text."""
    name = str(record["message"])
    return name if _EVENT.fullmatch(name) else ""


def _told(event: str, record: Mapping[str, Any]) -> str:
    """Return an event in a line, with the fields that it has."""
    fields = (f"{name}={value}" for name, value in record.items() if name not in _OF_LINES)
    return printable(" ".join((event, *fields)))


def _logged(record: Mapping[str, Any]) -> Said:
    where = f"{record['job_type']}: " if "job_type" in record else ""
    text = "\n".join(filter(None, (f"{where}{record['message']}", record.get("exc_info"))))
    loud = record["level"] in _LOUD
    return Said(text=printable(text), style="warning" if loud else "plain")


def _blocked(record: Mapping[str, Any]) -> str:
    """Return the text for an event loop that was kept from running other jobs."""
    by = " or ".join(record["job_types"]) or "other programs on this machine, it seems"
    return f"the event loop was blocked for {_s(record['blocked_s'])}, by {by}"


def _unrunnable(record: Mapping[str, Any]) -> str:
    """Return the text for a message that no handler of this app takes."""
    name = f"{record['job_type'] or 'a message'} {record['job_id'] or record['message_id']}"
    wait = record["retry_in_s"]
    next_ = "it is a dead letter" if wait is None else f"looked at again in {_s(wait)}"
    return f"{name} can't run: {record['detail']}; {next_}"


def _paused(record: Mapping[str, Any]) -> str:
    """Return the text for a queue, a type or a tenant that is paused."""
    by = f" by {record['actor']}" if record["actor"] else ""
    why = f": {record['reason']}" if record["reason"] else ""
    return f"paused: {_subject(record)}{by}{why}"


def _resumed(record: Mapping[str, Any]) -> str:
    return f"resumed: {_subject(record)}"


def _subject(record: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (record["kind"], record["target"], record["priority"])))


def _deferred(record: Mapping[str, Any]) -> str:
    """Return the words for a job that its handler has given back, which is no failure."""
    when = f"in {_s(record['delay_s'])}" if record["delay_s"] else "at once"
    return f"comes back {when}{_because(record)}"


def _because(record: Mapping[str, Any]) -> str:
    return f": {record['reason']}" if record["reason"] else ""


_ENDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "job.deferred": _deferred,
    "job.discarded": lambda record: f"was discarded{_because(record)}",
    "job.dropped": lambda record: f"was dropped without a run{_because(record)}",
    "job.cancelled": lambda record: f"was cancelled{_because(record)}",
    "job.interrupted": lambda record: f"goes back to its queue{_because(record)}",
    "job.already_done": lambda _record: "was done already: this copy of it is deleted",
}
"""The words, after its name, for a job that neither completed nor failed."""

_WARNINGS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "loop.blocked": _blocked,
    "message.unrunnable": _unrunnable,
    "queue.paused": _paused,
    "queue.resumed": _resumed,
}
"""The texts of events that are in no job's life."""


def _s(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
