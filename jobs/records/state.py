"""A job's timeline, read from its items, and the state that results from it.

    waiting ───┐                ┌─▶ completed
               ├─▶ running ─────┼─▶ discarded
    delayed ───┘    │   ▲       ├─▶ dropped
                    │   │       ├─▶ cancelled
                    ▼   │       │
                   retrying ────┼─▶ dead ────────┬─ a replay ─▶ waiting
                                └─▶ quarantined ─┘

    state         what the items say
    unknown       nothing; `jobs.client.inference` then infers the state from the job's id
    waiting       it was sent to its queue; or given back unstarted, before any attempt
    delayed       likewise, and ``not_before`` is still to come
    running       a worker has started it; said of a job that has run for a second
    retrying      it is delivered again: an attempt failed, crashed or was interrupted, it was
                  put off, or it could not be run where it was received
    completed     its handler returned
    discarded     its handler ended it
    dropped       it ended without a run: a later job replaced it
    cancelled     somebody did, before its handler returned
    dead          it is in its dead-letter queue
    quarantined   it is in the quarantine: it kills what runs it

A job without a known delivery waits, or has run for less than a second; ``full`` records every
start at once, and ``failures`` none of a first delivery. The state follows from the facts that are
present. Items are immutable and written in the background, so they come in any order, twice, or
not at all: nothing here goes beyond the facts.
Four rules decide:

1. The latest final fact counts, whatever else is known. Nothing reopens a job that has completed,
   was discarded, dropped or cancelled: a message that SQS delivers twice may well run again.
2. A job that has completed is never discarded, dropped or cancelled by a later delivery.
3. A death is final until something newer is known under another message: that is a replay.
4. Without a final fact, the latest fact of the latest delivery counts.

Deliveries of one message are ordered by their number, messages by their times, on the clocks of
their writers. That suffices where a message is sent minutes after the one before it died.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from headgate.jobs.core.ports.table import Item
from headgate.jobs.records.items import REPLAY_SOURCE, REPLAYED, Mark
from headgate.jobs.records.reading import checked
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.stored import moment


class JobState(StrEnum):
    """The state of a job by its items; see the drawing at the top of this module."""

    UNKNOWN = "unknown"
    WAITING = "waiting"
    DELAYED = "delayed"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    DISCARDED = "discarded"
    DROPPED = "dropped"
    CANCELLED = "cancelled"
    DEAD = "dead"
    QUARANTINED = "quarantined"

    @property
    def is_final(self) -> bool:
        """True if nothing more happens to the job, unless a dead one is replayed."""
        return self in _FINAL.values()


SUBMITTED, PROGRESS, CANCEL = "submitted", "progress", "cancel"
"""The places of the items that belong to the job as a whole."""

_FINAL: Mapping[str, JobState] = {
    Mark.COMPLETED: JobState.COMPLETED,
    Mark.DISCARDED: JobState.DISCARDED,
    Mark.DROPPED: JobState.DROPPED,
    Mark.CANCELLED: JobState.CANCELLED,
    Mark.QUARANTINED: JobState.QUARANTINED,
    Mark.DEAD: JobState.DEAD,
}
_DEATHS = frozenset({Mark.DEAD, Mark.QUARANTINED})

_UNBEGUN = frozenset({Mark.DEFERRED, Mark.RELEASED})
"""Ends of deliveries that may have come before the job was due."""

_LESSER = frozenset({Mark.DISCARDED, Mark.DROPPED, Mark.CANCELLED})
"""Final facts that mean nothing to a job that has completed."""

_ORDER = (
    *(SUBMITTED, REPLAYED, CANCEL, Mark.STARTED, PROGRESS, Mark.RELEASED, Mark.INTERRUPTED),
    *(Mark.DEFERRED, Mark.UNRUNNABLE),
    *(Mark.CRASHED, Mark.FAILED, Mark.DEAD, Mark.QUARANTINED),
    *(Mark.CANCELLED, Mark.DROPPED, Mark.DISCARDED, Mark.COMPLETED),
)
"""Order of happenings that have the same time."""
_RECEIVE = re.compile(r"[0-9]{1,9}")

_RANKS: Mapping[str, int] = {what: rank for rank, what in enumerate(_ORDER)}


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One thing that happened to a job."""

    at: datetime
    """Time by the writer's clock; aware."""
    what: str
    """``submitted``, ``progress``, ``cancel``, ``replayed``, or one of
    `jobs.records.items.Mark`."""
    message_id: str = ""
    """SQS's id of the message that was delivered; empty where it concerns the job as a whole."""
    receive: int = 0
    """Number of that delivery, from 1; 0 if the message was never sent."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Further values, as they were written."""

    @property
    def job_type(self) -> str | None:
        """The type of the job that it happened to; None if the item names none."""
        return self.data.get("type")

    @property
    def former(self) -> str | None:
        """Of a replay as another type, the type that the job had before; else None."""
        return self.data.get("former")

    def text(self, name: str) -> str:
        """Return a text field of its data; empty if there is none."""
        return str(self.data.get(name) or "")


def timeline_of(items: Iterable[Item]) -> list[Happening]:
    """Return what the items record, in order; of two at one place, the later one."""
    by_place: dict[str, Happening] = {}
    for item in items:
        if (found := _happening(item)) is None:
            continue
        standing = by_place.get(item.sk)
        if standing is None or order_of(standing) < order_of(found):
            by_place[item.sk] = found
    return sorted(by_place.values(), key=order_of)


def order_of(happening: Happening) -> tuple[datetime, int, str, int, str]:
    """Return the sort key of a happening; no two different ones have the same."""
    # The data comes last, only to make the order of any two the same however they arrive.
    return (
        happening.at,
        _RANKS[happening.what],
        happening.message_id,
        happening.receive,
        repr(sorted(happening.data.items())),
    )


def _happening(item: Item) -> Happening | None:
    if (at := moment(item.data.get("at"))) is None:
        return None  # a claim, or anything else in the job's partition
    data = checked(item.data)
    if item.sk in (SUBMITTED, PROGRESS, CANCEL):
        return Happening(at=at, what=item.sk, data=data)
    match item.sk.split("#"):
        case ["replayed", _]:
            return Happening(at=at, what=REPLAYED, data=data)
        case ["run", message_id, receive, what] if what in _RANKS and _RECEIVE.fullmatch(receive):
            return Happening(
                at=at, what=what, message_id=message_id, receive=int(receive), data=data
            )
    return None


def state_of(timeline: Sequence[Happening], now: datetime) -> JobState:
    """Return the state that a timeline results in, by the rules at the top of this module."""
    if (last := last_final(timeline)) is None:
        return _open_state(timeline, now)
    if last.what in _DEATHS and (newer := _since(timeline, last)):
        return _open_state(newer, now)
    return _FINAL[last.what]


def last_final(timeline: Sequence[Happening]) -> Happening | None:
    """Return the final fact that counts, or None."""
    finals = [each for each in timeline if each.what in _FINAL]
    if not finals or finals[-1].what not in _LESSER:
        return finals[-1] if finals else None
    completed = (each for each in reversed(finals) if each.what == Mark.COMPLETED)
    return next(completed, finals[-1])


def _since(timeline: Sequence[Happening], death: Happening) -> list[Happening]:
    """Return what is known of a replay after a death."""
    return [
        each
        for each in timeline
        if each.at > death.at and each.message_id != death.message_id and _begins_a_life(each)
    ]


def _begins_a_life(happening: Happening) -> bool:
    """Return True if it can be the first known fact of a replay.

    A submission that is not a replay's came first, whatever its writer's clock says.
    """
    if happening.what == SUBMITTED:
        return happening.text("source").startswith(REPLAY_SOURCE)
    return happening.what != CANCEL


def _open_state(timeline: Sequence[Happening], now: datetime) -> JobState:
    """Return the state of a job without a final fact."""
    latest = _latest_delivery(timeline)
    progress = next((each for each in timeline if each.what == PROGRESS), None)
    if progress is not None and (latest is None or progress.at > latest.at):
        return JobState.RUNNING
    if latest is not None and latest.what == Mark.STARTED:
        return JobState.RUNNING
    if latest is not None:
        if latest.what in _UNBEGUN and _is_early(latest, now):
            return JobState.DELAYED
        given_back = all(each.what == Mark.RELEASED for each in timeline if each.message_id)
        return JobState.WAITING if given_back else JobState.RETRYING
    submitted = next((each for each in timeline if each.what in (SUBMITTED, REPLAYED)), None)
    if submitted is None:
        return JobState.UNKNOWN
    return JobState.DELAYED if _is_early(submitted, now) else JobState.WAITING


def paused_by(timeline: Sequence[Happening], state: JobState) -> Happening | None:
    """Return the release by which a job that waits for its delivery went back because of a pause.

    None if the latest that is known of it is something else.
    """
    if state not in (JobState.WAITING, JobState.RETRYING, JobState.DELAYED):
        return None
    latest = _latest_delivery(timeline)
    return latest if latest is not None and latest.data.get("paused") is True else None


def _is_early(happening: Happening, now: datetime) -> bool:
    due = moment(happening.data.get("not_before"))
    return due is not None and due > now


def _latest_delivery(timeline: Sequence[Happening]) -> Happening | None:
    """Return the last known fact of the last delivery of the last message."""
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
