"""Lanes, which are the queues of one priority, as pages list them: with a word on their state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from headgate.jobs.client.overview.health import SystemHealth, SystemState
from headgate.jobs.client.overview.queues import QueueList, QueueStatus
from headgate.jobs.definitions.app import App
from headgate.jobs.values.light_dataclass import light_dataclass

_SHORTEST = timedelta(minutes=1)
"""The shortest wait that shows: CloudWatch tells ages by the minute."""

_WORDS = {SystemState.UNHEALTHY: "unhealthy", SystemState.DEGRADED: "degraded"}
_LEVELS = {SystemState.UNHEALTHY: "bad", SystemState.DEGRADED: "warn"}


@light_dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """One lane as a row of a table."""

    status: QueueStatus
    start_within: timedelta
    word: str
    """The state in a word: ``paused``, ``missing``, ``degraded``, ``working``, ``idle`` ..."""
    level: str
    """The colour that the word has: ``bad``, ``warn``, ``ok``, ``held`` or ``idle``."""
    why: str
    """The reason of the state; empty if there is none."""

    @property
    def lateness(self) -> float | None:
        """The age of the oldest job, as a multiple of the time in which jobs have to start."""
        oldest = self.status.metrics.oldest
        return None if oldest is None else oldest / max(self.start_within, _SHORTEST)


def lanes(app: App, found: QueueList, health: SystemHealth) -> Sequence[LaneRow]:
    """Return the lanes of an app, as its queues are listed."""
    within = {spec.name: spec.lane.start_within for spec in app.topology.queues}
    reasons: dict[str | None, tuple[SystemState, str]] = {}
    for each in health.reasons:  # the worst first
        reasons.setdefault(each.queue, (each.state, each.text))
    return [_row(each, within[each.name], reasons) for each in found.queues]


def _row(
    status: QueueStatus,
    start_within: timedelta,
    reasons: Mapping[str | None, tuple[SystemState, str]],
) -> LaneRow:
    word, level, why = _state(status, reasons)
    return LaneRow(status=status, start_within=start_within, word=word, level=level, why=why)


def _state(
    status: QueueStatus, reasons: Mapping[str | None, tuple[SystemState, str]]
) -> tuple[str, str, str]:
    if not status.exists:
        return "missing", "bad", "the queue or its dead-letter queue doesn't exist"
    if status.pauses:
        return "paused", "held", status.pauses[0].reason
    if (found := reasons.get(status.name)) is not None:
        state, why = found
        return _WORDS[state], _LEVELS[state], why
    if status.waiting or status.in_flight:
        return "working", "ok", ""
    return "idle", "idle", ""


def groups(rows: Sequence[LaneRow]) -> Mapping[str, Sequence[LaneRow]]:
    """Return rows by their queue group."""
    found: dict[str, list[LaneRow]] = {}
    for row in rows:
        found.setdefault(row.status.queue, []).append(row)
    return found


def total(found: QueueList, name: str) -> int | None:
    """Return a count of all queues together; None if none of them is known."""
    known = [getattr(each, name) for each in found.queues]
    counts = [each for each in known if each is not None]
    return sum(counts) if counts else None
