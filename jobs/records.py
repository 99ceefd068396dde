"""What a job's deliveries came to, as immutable items in a table, and what follows from them.

    sk of an item                            written
    run#MESSAGE#00002#started                before a second or later delivery is run
    run#MESSAGE#00002#failed                 before the message shows again: an attempt was made
    run#MESSAGE#00002#crashed                by who received it next, or by the worker of a child
    run#MESSAGE#00002#deferred               before it shows again: no attempt was made
    run#MESSAGE#00002#released               likewise, by a worker that gave it back

Items of one delivery have one place each, so writing one again changes nothing, and the order in
which they are written doesn't matter. What is still unexplained when the message comes again was a
crash: the delivery's process died without a word. A first delivery writes no ``started``, so that
the usual job costs nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, get_args

from jobs.errors import ConfigurationError
from jobs.ports import Item

RecordsLevel = Literal["full", "outcomes", "failures", "off"]

KEEP = timedelta(days=30)
"""How long the items of a job that did not simply complete are kept."""


class Mark(StrEnum):
    """What can be known of one delivery."""

    STARTED = "started"
    FAILED = "failed"
    CRASHED = "crashed"
    DEFERRED = "deferred"
    RELEASED = "released"
    COMPLETED = "completed"
    DISCARDED = "discarded"
    DEAD = "dead"
    QUARANTINED = "quarantined"
    CANCELLED = "cancelled"


_KINDS = frozenset(Mark)


def check_level(level: str) -> RecordsLevel:
    """The level, checked.

    Raises:
        ConfigurationError: there is no such level.
    """
    for known in get_args(RecordsLevel):
        if level == known:
            found: RecordsLevel = known
            return found
    raise ConfigurationError(
        f"records must be one of {', '.join(get_args(RecordsLevel))}, got {level!r}"
    )


def partition(job_id: str) -> str:
    """The partition key of a job's items."""
    return f"job#{job_id}"


def deliveries_of(message_id: str) -> str:
    """What the sort keys of a message's items start with."""
    return f"run#{message_id}#"


def mark(
    job_id: str,
    message_id: str,
    receive: int,
    kind: Mark,
    at: datetime,
    data: Mapping[str, Any] | None = None,
) -> Item:
    """The item that says what became of one delivery.

    Args:
        job_id: whose delivery it was.
        message_id: SQS's own id, since a job may travel in several messages.
        receive: which delivery of the message, from 1.
        kind: what is said.
        at: when; aware.
        data: more about it, as JSON values.
    """
    return Item(
        pk=partition(job_id),
        sk=f"{deliveries_of(message_id)}{receive:05d}#{kind}",
        data={"at": at.isoformat(), **(data or {})},
        expires_at=at + KEEP,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What records tell of a message's earlier deliveries."""

    failures: int = 0
    crashes: int = 0
    """Of all time; both are attempts."""
    recent_crashes: int = 0
    """Within the time that counts."""
    unexplained: tuple[int, ...] = ()
    """Deliveries that turn out to have been crashes only now; counted in both."""

    def number(self, used: int) -> int:
        """The attempt that comes next, when ``used`` were made under earlier messages."""
        return used + self.failures + self.crashes + 1


def read_history(
    items: Iterable[Item], message_id: str, receive: int, *, now: datetime, window: timedelta
) -> History:
    """What happened to a message before its delivery number ``receive``.

    Args:
        items: of the job; those of other messages are left out.
        message_id: SQS's own id.
        receive: the delivery at hand, from 1.
        now: when a crash that is found only now counts as having happened; aware.
        window: how old a crash may be to count as recent.
    """
    marks = _by_receive(items, message_id)
    earlier = range(1, receive)
    unexplained = tuple(number for number in earlier if _was_crash(number, marks[number]))
    crashed = [marks[number][Mark.CRASHED] for number in earlier if Mark.CRASHED in marks[number]]
    recent = sum(now - at <= window for at in crashed)
    return History(
        failures=sum(Mark.FAILED in marks[number] for number in earlier),
        crashes=len(crashed) + len(unexplained),
        recent_crashes=recent + len(unexplained),
        unexplained=unexplained,
    )


def _was_crash(receive: int, marks: Mapping[Mark, datetime]) -> bool:
    if not marks:
        # Later ones write a mark before they run: without it a delivery was not even started, as
        # when another job killed the worker that had it waiting.
        return receive == 1
    return marks.keys() == {Mark.STARTED}


def _by_receive(items: Iterable[Item], message_id: str) -> dict[int, dict[Mark, datetime]]:
    prefix = deliveries_of(message_id)
    found: dict[int, dict[Mark, datetime]] = defaultdict(dict)
    for item in items:
        if item.sk.startswith(prefix):
            receive, _, kind = item.sk.removeprefix(prefix).partition("#")
            if kind in _KINDS:
                found[int(receive)][Mark(kind)] = datetime.fromisoformat(item.data["at"])
    return found
