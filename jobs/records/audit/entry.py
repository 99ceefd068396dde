"""Entries of the audit: who did what to an app, and when; their items in the table.

    pk  audit   sk  PLACE            data  {at, actor, action, kind, name, reason, detail}
    pk  audit   sk  PLACE#outcome    data  {at, outcome, count?, result, error_type}

The first item is written before the action and the second one after it; both are created, and none
is ever replaced. A place counts down in time, so that reading the partition from its beginning
gives the latest entries first; nothing lies between the two items of one.

No entry has a payload, nor any text of an error: that may quote one.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from headgate.jobs.core.ports.table import Item
from headgate.jobs.records.cancellation import LONGEST_ACTOR, LONGEST_REASON
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.stored import moment, text, whole
from headgate.jobs.values.texts import LONGEST_NAME, legible

AUDIT = "audit"
"""The partition of all entries."""

LONGEST_TARGET = 500
"""Maximum number of characters of a target's name, which may be a filter in words."""

LONGEST_DETAIL = 300
"""Maximum number of characters of what else an action was told, and of what came of it."""

_LONGEST_WORD = 40

_LAST_US = 10**16 - 1
"""Microseconds from 1970 to 2286, of sixteen digits."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PLACE = r"[0-9]{16}-[0-9a-f]{12}"
_END = "#outcome"
_made = itertools.count()


class AuditAction(StrEnum):
    """The actions that the audit tells of."""

    CANCEL = "cancel"
    RERUN = "rerun"
    REPLAY = "replay"
    RESUME_REPLAY = "resume-replay"
    ABORT_REPLAY = "abort-replay"
    PURGE = "purge"
    RESTORE = "restore"
    IMPORT = "import"
    EXPORT = "export"
    SHOW_PAYLOAD = "show-payload"
    PAUSE = "pause"
    RESUME = "resume"
    CREATE_SCHEDULE = "create-schedule"
    CHANGE_SCHEDULE = "change-schedule"
    RESET_SCHEDULE = "reset-schedule"
    REMOVE_SCHEDULE = "remove-schedule"
    PAUSE_SCHEDULE = "pause-schedule"
    RESUME_SCHEDULE = "resume-schedule"
    RUN_SCHEDULE = "run-schedule"
    ERASE = "erase"


class AuditOutcome(StrEnum):
    """The end of an action."""

    DONE = "done"
    FAILED = "failed"
    """It raised an error; some of it may have been done."""


_OUTCOMES = {each.value: each for each in AuditOutcome}


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class AuditTarget:
    """The thing that somebody acted on."""

    kind: str
    """``job``, ``jobs``, ``dead letter``, ``dead letters``, ``copy``, ``copies``, ``replay``,
    ``queue``, ``type``, ``tenant`` or ``schedule``."""
    name: str
    """Its id or name; of several, the filter that selected them, in words."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One action of somebody's on an app."""

    id: str
    """Its place in the audit, which is unique."""
    at: datetime
    """The time just before the action; aware."""
    actor: str
    """The one who acted, as the caller told; no proof."""
    action: str
    """One of `AuditAction`, or one that a later version knows."""
    target: AuditTarget
    reason: str = ""
    detail: str = ""
    """Further arguments of the action, such as the times of a schedule."""
    outcome: AuditOutcome | None = None
    """None while the action goes on, or if its process ended without recording its outcome."""
    ended_at: datetime | None = None
    count: int | None = None
    """Number of the things that were acted on, where that is counted."""
    result: str = ""
    """The outcome, such as the id of a replay."""
    error_type: str = ""
    """The class of the error that it failed with."""


def in_one_line(told: object, most: int) -> str:
    """Return a text without line breaks and control characters, of at most ``most`` characters."""
    return legible(" ".join(legible(told).split()), most)


def new_place(at: datetime) -> str:
    """Return the place of an entry that is made at a time.

    Of those that one process makes within a microsecond the later one comes first, too.
    """
    return f"{stamp(at)}-{0xFFFF - next(_made) % 0x10000:04x}{secrets.token_hex(4)}"


def stamp(at: datetime) -> str:
    """Return the beginning of the places of that time, which sorts before those of earlier ones."""
    return f"{_LAST_US - (at - _EPOCH) // _MICROSECOND:016d}"


def begun_item(entry: AuditEntry, keep: timedelta) -> Item:
    """Return the item that tells of an action before it is carried out."""
    told = {
        "actor": in_one_line(entry.actor, LONGEST_ACTOR),
        "action": entry.action,
        "kind": entry.target.kind,
        "name": in_one_line(entry.target.name, LONGEST_TARGET),
        "reason": in_one_line(entry.reason, LONGEST_REASON),
        "detail": in_one_line(entry.detail, LONGEST_DETAIL),
    }
    return _item(entry.id, entry.at, told, entry.at + keep)


def ended_item(entry: AuditEntry, keep: timedelta) -> Item:
    """Return the item that tells of an action's outcome; both expire together.

    Raises:
        ValueError: the entry has no outcome.
    """
    if entry.outcome is None or entry.ended_at is None:
        raise ValueError(f"the entry {entry.id} has no outcome")
    told: dict[str, Any] = {
        "outcome": str(entry.outcome),
        "result": in_one_line(entry.result, LONGEST_DETAIL),
        "error_type": in_one_line(entry.error_type, LONGEST_NAME),
    }
    if entry.count is not None:
        told["count"] = entry.count
    return _item(entry.id + _END, entry.ended_at, told, entry.at + keep)


def read_begun(item: Item) -> AuditEntry | None:
    """Return the entry that an item begins; None if no client can have written it."""
    data = item.data
    at, target = moment(data.get("at")), _target(data)
    actor, action = text(data.get("actor"), LONGEST_ACTOR), text(data.get("action"), _LONGEST_WORD)
    reason = text(data.get("reason", ""), LONGEST_REASON)
    detail = text(data.get("detail", ""), LONGEST_DETAIL)
    if at is None or target is None or not actor or not action or reason is None or detail is None:
        return None
    if not re.fullmatch(_PLACE, item.sk) or not item.sk.startswith(stamp(at)):
        return None
    return AuditEntry(
        id=item.sk, at=at, actor=actor, action=action, target=target, reason=reason, detail=detail
    )


def is_end(item: Item) -> bool:
    """Return True if an item's place is that of an outcome."""
    return item.sk.endswith(_END)


def with_end(entry: AuditEntry, item: Item) -> AuditEntry | None:
    """Return an entry with its outcome; None if that is another's, or none that can be."""
    data = item.data
    ended_at, outcome = moment(data.get("at")), _OUTCOMES.get(str(data.get("outcome")))
    result = text(data.get("result", ""), LONGEST_DETAIL)
    error_type = text(data.get("error_type", ""), LONGEST_NAME)
    count = whole(data.get("count", 0))
    if item.sk != entry.id + _END or ended_at is None or outcome is None:
        return None
    if result is None or error_type is None or count is None:
        return None
    return replace(
        entry,
        outcome=outcome,
        ended_at=ended_at,
        count=count if "count" in data else None,
        result=result,
        error_type=error_type,
    )


def _item(sk: str, at: datetime, told: Mapping[str, Any], expires_at: datetime) -> Item:
    data = {"at": at.isoformat(), **told}
    return Item(pk=AUDIT, sk=sk, data=data, version=1, expires_at=expires_at)


def _target(data: Mapping[str, Any]) -> AuditTarget | None:
    kind, name = text(data.get("kind"), _LONGEST_WORD), text(data.get("name"), LONGEST_TARGET)
    return AuditTarget(kind=kind, name=name) if kind and name is not None else None
