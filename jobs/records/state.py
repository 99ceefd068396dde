"""What has happened to a job, by its items, and the state that leaves it in.

    submitted ─┐                ┌─▶ completed
               ├─▶ running ─────┼─▶ discarded
    scheduled ─┘    │   ▲       ├─▶ cancelled
                    ▼   │       │
                   retrying ────┼─▶ dead ────────┬─ a replay ─▶ submitted
                                └─▶ quarantined ─┘

    state         what the items say
    unknown       nothing
    submitted     it was sent to its queue
    scheduled     likewise, and it starts no sooner than ``not_before``
    running       a worker has started it; said of a job that has run for a second
    retrying      it is delivered again: an attempt failed or crashed, it was given back, or it
                  could not be run where it was received
    completed     its handler returned
    discarded     its handler ended it
    cancelled     somebody did, before its handler returned
    dead          it is in its dead-letter queue
    quarantined   it is in the quarantine: it kills what runs it

A job of which no delivery is known waits, or has run for less than a second; ``full`` tells every
start at once, and ``failures`` none of a first delivery. The state is that of the facts which are
there. Items are immutable and written beside the jobs, so they come in any order, twice, or not at
all: what is missing is not known, and a later state than the facts' is never made up.
Three rules decide:

1. The latest final fact counts, whatever else is known. Nothing reopens a job that has completed,
   was discarded or cancelled: a message that SQS delivers twice may well run again.
2. A death is final until something newer is known under another message: that is a replay.
3. Without a final fact it is the latest delivery's latest.

Deliveries of one message are told apart by their number, messages by their times, by the clocks of
whoever wrote them. That is enough where a message is sent minutes after the one before had died.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from headgate.jobs.core.ports import Item
from headgate.jobs.records.items import Mark


class JobState(StrEnum):
    """What a job's items say of it; the drawing is at the top of this module."""

    UNKNOWN = "unknown"
    SUBMITTED = "submitted"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    DEAD = "dead"
    QUARANTINED = "quarantined"

    @property
    def is_final(self) -> bool:
        """Whether nothing more happens to the job, unless a dead one is replayed."""
        return self in _FINAL.values()


SUBMITTED, PROGRESS, CANCEL = "submitted", "progress", "cancel"
"""The places of the items that belong to the job as a whole."""

_FINAL: Mapping[str, JobState] = {
    Mark.COMPLETED: JobState.COMPLETED,
    Mark.DISCARDED: JobState.DISCARDED,
    Mark.CANCELLED: JobState.CANCELLED,
    Mark.QUARANTINED: JobState.QUARANTINED,
    Mark.DEAD: JobState.DEAD,
}
_REPLAY = "replay:"
"""What the source of a replayed job begins with (`jobs.messages.envelope.Envelope.source`)."""

_DEATHS = frozenset({Mark.DEAD, Mark.QUARANTINED})

_ORDER = (
    *(SUBMITTED, CANCEL, Mark.STARTED, PROGRESS, Mark.RELEASED, Mark.DEFERRED, Mark.UNRUNNABLE),
    *(Mark.CRASHED, Mark.FAILED, Mark.DEAD, Mark.QUARANTINED),
    *(Mark.CANCELLED, Mark.DISCARDED, Mark.COMPLETED),
)
"""What happens at one time happens in this order."""
_RANKS: Mapping[str, int] = {what: rank for rank, what in enumerate(_ORDER)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One thing that happened to a job."""

    at: datetime
    """By the clock of whoever wrote it; aware."""
    what: str
    """``submitted``, ``progress``, ``cancel``, or one of `jobs.records.items.Mark`."""
    message_id: str = ""
    """SQS's id of the message whose delivery it happened to; empty where it is of the job."""
    receive: int = 0
    """The number of that delivery, from 1; 0 where it was never sent."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """More about it, as it was written."""

    def text(self, name: str) -> str:
        """A field of its data that is a text; empty where there is none."""
        return str(self.data.get(name) or "")


def timeline_of(items: Iterable[Item]) -> list[Happening]:
    """What the items tell, in order; of two of one place the later one."""
    by_place: dict[str, Happening] = {}
    for item in items:
        if (found := _happening(item)) is None:
            continue
        standing = by_place.get(item.sk)
        if standing is None or order_of(standing) < order_of(found):
            by_place[item.sk] = found
    return sorted(by_place.values(), key=order_of)


def order_of(happening: Happening) -> tuple[datetime, int, str, int, str]:
    """What sorts happenings; no two different ones are equal."""
    # Its data last, only so that of any two different ones the same comes first, however they come.
    return (
        happening.at,
        _RANKS[happening.what],
        happening.message_id,
        happening.receive,
        repr(sorted(happening.data.items())),
    )


def _happening(item: Item) -> Happening | None:
    if "at" not in item.data:
        return None  # a claim, or whatever else stands in the job's partition
    at = datetime.fromisoformat(item.data["at"])
    if item.sk in (SUBMITTED, PROGRESS, CANCEL):
        return Happening(at=at, what=item.sk, data=item.data)
    match item.sk.split("#"):
        case ["run", message_id, receive, what] if what in _RANKS:
            return Happening(
                at=at, what=what, message_id=message_id, receive=int(receive), data=item.data
            )
    return None


def state_of(timeline: Sequence[Happening]) -> JobState:
    """The state that this leaves a job in, by the rules at the top of this module."""
    if (last := last_final(timeline)) is None:
        return _open_state(timeline)
    if last.what in _DEATHS and (newer := _since(timeline, last)):
        return _open_state(newer)
    return _FINAL[last.what]


def last_final(timeline: Sequence[Happening]) -> Happening | None:
    """The latest fact that is final."""
    return next((each for each in reversed(timeline) if each.what in _FINAL), None)


def _since(timeline: Sequence[Happening], death: Happening) -> list[Happening]:
    """What is known of a life after a death."""
    return [
        each
        for each in timeline
        if each.at > death.at and each.message_id != death.message_id and _begins_a_life(each)
    ]


def _begins_a_life(happening: Happening) -> bool:
    """Whether it can be the first that is known of a replay.

    A submission that is no replay's came first, whatever the clock of whoever wrote it says.
    """
    if happening.what == SUBMITTED:
        return happening.text("source").startswith(_REPLAY)
    return happening.what != CANCEL


def _open_state(timeline: Sequence[Happening]) -> JobState:
    """The state by facts of which none is final."""
    latest = _latest_delivery(timeline)
    progress = next((each for each in timeline if each.what == PROGRESS), None)
    if progress is not None and (latest is None or progress.at > latest.at):
        return JobState.RUNNING
    if latest is not None:
        return JobState.RUNNING if latest.what == Mark.STARTED else JobState.RETRYING
    submitted = next((each for each in timeline if each.what == SUBMITTED), None)
    if submitted is None:
        return JobState.UNKNOWN
    return JobState.SCHEDULED if submitted.data.get("not_before") else JobState.SUBMITTED


def _latest_delivery(timeline: Sequence[Happening]) -> Happening | None:
    """The last that is known of the last delivery of the last message."""
    begun: dict[str, datetime] = {}
    for each in timeline:
        begun.setdefault(each.message_id, each.at)
    return max(
        (each for each in timeline if each.message_id),
        key=lambda each: (
            begun[each.message_id],
            each.message_id,
            each.receive,
            each.what != Mark.STARTED,
        ),
        default=None,
    )
