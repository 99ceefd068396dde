"""A replay as a value: what it is to do, how far it is, and how the table keeps it.

pk  replays       sk  ID                   the replay, replaced with each step
pk  replay#ID     sk  sent#MESSAGE_ID      a letter whose job it has sent
pk  replay#ID     sk  refused#MESSAGE_ID   a letter that it leaves where it is, and why
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.ports.table import Item
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.replaying.options import (
    ReplayOptions,
    read_filter,
    read_options,
    stored_filter,
    stored_options,
)
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.stored import epoch_s, moment, text, whole

REPLAYS = "replays"
"""The partition that holds the replays."""

KEPT = timedelta(days=30)
"""Time since its last step for which a replay is kept: longer than any letter stays in its queue,
so that one that could not be deleted is never sent again."""

MAX_LISTED = 100
"""Maximum number of refused letters that a report lists."""

_LONGEST = 500


class ReplayState(StrEnum):
    """The state of a replay."""

    RUNNING = "running"
    STOPPED = "stopped"
    """It can be resumed."""
    ABORTED = "aborted"
    """Somebody has ended it for good."""
    DONE = "done"


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LeftLetter:
    """A dead letter that a replay has left where it is."""

    message_id: str
    job_id: str | None
    job_type: str | None
    why: str


def left_letter(letter: DeadLetter, why: str) -> LeftLetter:
    """Return a letter as one that is left where it is."""
    return LeftLetter(
        message_id=letter.message_id, job_id=letter.job_id, job_type=letter.job_type, why=why
    )


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """A replay: what it is to do, and how far it is."""

    id: str
    """Empty for a dry run."""
    state: ReplayState
    reason: str = ""
    """The reason for which it has stopped, or the person who aborted it; of a dry run, the number
    of letters that it did not see."""
    actor: str = ""
    """The person or program that started it."""
    started_at: datetime
    updated_at: datetime
    filter: DeadLetterFilter
    options: ReplayOptions
    total: int | None = None
    """Letters that were to be sent when it began; None if they were not counted."""
    sent: int = 0
    """Jobs sent; for a dry run, jobs that would be."""
    refused: int = 0
    """Letters left where they are, since they could not have become what was asked for."""
    died_again: int = 0
    """Sent jobs that are known to have died again."""
    canary_passed: bool = False
    """True once its canary has been judged, whichever way."""
    by_queue: Mapping[str, int] = field(default_factory=dict)
    """Jobs by the physical name of the queue that they were sent to, in this process."""
    left: tuple[LeftLetter, ...] = ()
    """The letters that were refused, the first hundred."""

    @property
    def awaits_canary(self) -> bool:
        """True while its canary has yet to be sent or judged."""
        return self.options.canary is not None and not self.canary_passed


def replay_item(report: ReplayReport, *, runner: str, until: datetime, version: int) -> Item:
    """Return the item that holds a replay.

    Args:
        report: the replay.
        runner: the name of the process that carries it out.
        until: the end of its lease; aware.
        version: the item's version.
    """
    told: dict[str, Any] = {
        "state": str(report.state),
        "reason": report.reason[:_LONGEST],
        "actor": report.actor[:_LONGEST],
        "started": report.started_at.isoformat(),
        "updated": report.updated_at.isoformat(),
        "filter": stored_filter(report.filter),
        "options": stored_options(report.options),
        "total": report.total,
        "sent": report.sent,
        "refused": report.refused,
        "died_again": report.died_again,
        "canary_passed": report.canary_passed,
        "runner": runner,
        "until": until.timestamp(),
    }
    return Item(
        pk=REPLAYS,
        sk=report.id,
        data={name: value for name, value in told.items() if value is not None},
        version=version,
        expires_at=report.updated_at + KEPT,
    )


def read_replay(item: Item, now: datetime) -> ReplayReport | None:
    """Return the replay that an item holds; None if no replay can have written it.

    One whose process has died counts as stopped.
    """
    told = item.data
    state = _state(told)
    started, updated = moment(told.get("started")), moment(told.get("updated"))
    chosen, options = read_filter(told.get("filter")), read_options(told.get("options"))
    reason, actor = text(told.get("reason"), _LONGEST), text(told.get("actor"), _LONGEST)
    if state is None or started is None or updated is None or chosen is None or options is None:
        return None
    sent, refused, died_again = _counts(told)
    if reason is None or actor is None or None in (sent, refused, died_again):
        return None
    if state is ReplayState.RUNNING and not is_leased(item, now):
        state, reason = ReplayState.STOPPED, "its process died without reporting an end"
    return ReplayReport(
        id=item.sk,
        state=state,
        reason=reason,
        actor=actor,
        started_at=started,
        updated_at=updated,
        filter=chosen,
        options=options,
        total=whole(told.get("total")),
        canary_passed=told.get("canary_passed") is True,
        sent=sent or 0,
        refused=refused or 0,
        died_again=died_again or 0,
    )


def is_leased(item: Item, now: datetime) -> bool:
    """Return True if a process may be carrying the replay out."""
    until = epoch_s(item.data.get("until"))
    return until is not None and until + SKEW_S > now.timestamp()


def _state(told: Mapping[str, Any]) -> ReplayState | None:
    try:
        return ReplayState(str(told.get("state")))
    except ValueError:
        return None


def _counts(told: Mapping[str, Any]) -> list[int | None]:
    return [whole(told.get(name)) for name in ("sent", "refused", "died_again")]
