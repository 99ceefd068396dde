"""A job's history as one value: attempts, errors, progress, result; read from its items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.messages.envelope import PayloadRef, Sealed
from headgate.jobs.records.items import REPLAY_SOURCE, Mark
from headgate.jobs.records.reading import result_ref, sealed_value
from headgate.jobs.records.state import (
    CANCEL,
    PROGRESS,
    SUBMITTED,
    Happening,
    JobState,
    last_final,
    order_of,
    paused_by,
    state_of,
    timeline_of,
)
from headgate.jobs.records.writes import REFUSAL
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.stored import moment

_ATTEMPTED: Mapping[str, Mark] = {
    Mark.COMPLETED: Mark.COMPLETED,
    Mark.DISCARDED: Mark.DISCARDED,
    Mark.CANCELLED: Mark.CANCELLED,
    Mark.FAILED: Mark.FAILED,
    Mark.CRASHED: Mark.CRASHED,
    Mark.DEAD: Mark.FAILED,
    Mark.QUARANTINED: Mark.CRASHED,
}
"""An attempt's outcome by the marks of its delivery; the first mark present decides."""

_FOR_GOOD = frozenset({Mark.COMPLETED, Mark.DISCARDED, Mark.DROPPED, Mark.CANCELLED})
"""Ends after which no replay follows."""

_RESULTS = {"result", "result_ref", "result_sealed"}
"""Fields of a completion that hold the handler's result."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt; deliveries that were deferred or given back are not attempts."""

    number: int
    """From 1."""
    outcome: Mark | None
    """``completed``, ``discarded``, ``cancelled``, ``failed`` or ``crashed``; None while it runs,
    or if its end is unknown."""
    started_at: datetime | None
    """None if unknown: below the level ``full`` a first start is written only once the job has run
    for a second."""
    ended_at: datetime | None
    worker: str
    """Name of the worker that recorded it."""
    ran_s: float | None
    error_type: str = ""
    error_message: str = ""
    traceback: str = ""
    retry_in_s: float | None = None
    """Seconds from its end to the planned start of the next attempt."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRecord:
    """The progress that a job reported last."""

    at: datetime
    percent: float
    """0 to 100."""
    note: str
    data: Mapping[str, Any]
    """JSON values added by the handler."""
    attempt: int | None
    sealed: Sealed | None = field(default=None, repr=False)
    """Stands in place of ``note`` and ``data``, as long as it has not been opened."""
    sealed_fault: str = ""
    """Reason why these are missing: they could not be sealed, or not be opened."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """All that is known of one job; a field that no item records is None or empty."""

    id: str
    state: JobState
    inferred: bool = False
    """True if nothing is recorded of the job, and its state follows from its id alone."""
    explanation: str = ""
    """The basis of a state that no record tells, or the pause that the job waits for."""
    type: str | None = None
    """Of a job that was replayed as another type, that one."""
    other_types: tuple[str, ...] = ()
    """Types of other jobs that have the same id, which its sender chooses; this record has nothing
    of theirs."""
    queue: str | None = None
    """The queue group."""
    priority: str | None = None
    tenant: Tenant | None = None
    source: str | None = None
    parent: str | None = None
    """The id of the job that submitted it."""
    submitted_at: datetime | None = None
    """Of a job of which nothing is recorded, the time in its id."""
    not_before: datetime | None = None
    expires_at: datetime | None = None
    """The time by which it has to start, as its message says."""
    finished_at: datetime | None = None
    """Time at which it reached its final state."""
    attempts: tuple[AttemptRecord, ...] = ()
    progress: ProgressRecord | None = None
    has_result: bool = False
    """True if the handler's return value was kept."""
    result_ref: PayloadRef | None = None
    """Address of the result, if it is too large for a record."""
    result_sealed: Sealed | None = field(default=None, repr=False)
    """Stands in place of ``result``, as long as it has not been opened."""
    result_fault: str = ""
    """Reason why the result was not kept, although it should have been."""
    result: Any = None
    """The result, as JSON values."""
    reason: str = ""
    """Reason why it is discarded, dropped, cancelled, dead or quarantined."""
    drop_kind: str = ""
    """The kind of a job that was dropped: ``replaced`` or ``expired``; else empty."""
    error_type: str = ""
    """Type of the error that ended it."""
    error_message: str = ""
    cancel_requested_at: datetime | None = None
    cancel_reason: str = ""
    cancel_actor: str = ""
    """The actor that requested it; empty if that is not known."""
    timeline: tuple[Happening, ...] = ()
    """Everything that happened to it, in order."""

    @property
    def is_recorded(self) -> bool:
        """False if nothing tells its state: it waits, was never submitted, or is forgotten."""
        return not self.inferred and self.state is not JobState.UNKNOWN


def read_job(
    job_id: str, items: Iterable[Item], job_type: str | None = None, *, now: datetime
) -> JobRecord:
    """Return the history that a job's items record, whatever their order and number.

    Args:
        job_id: the job's id.
        items: the items of its partition; those that aren't records are ignored.
        job_type: the job's type, since jobs of several types may have one id; None: that of the
            first thing that happened under the id. A job that was replayed as another type has
            one history, under either.
        now: the time, by which a delayed job is due or not.
    """
    everything = timeline_of(items)
    types = dict.fromkeys(each.job_type for each in everything if each.job_type)
    chosen = job_type or next(iter(types), None)
    own = _types_of(everything, chosen)
    timeline = [each for each in everything if each.job_type is None or each.job_type in own]
    state = state_of(timeline, now)
    ended = last_final(timeline) if state.is_final else None
    paused = paused_by(timeline, state)
    if ended is not None and ended.what == Mark.COMPLETED:
        ended = _with_result(timeline, ended)
    of_job = {each.what: each for each in timeline if not each.message_id}
    cancel = of_job.get(CANCEL)
    return JobRecord(
        id=job_id,
        state=state,
        explanation=_pause(paused) if paused is not None else "",
        type=_named(timeline, "type"),
        other_types=tuple(each for each in types if each not in own),
        queue=_named(timeline, "queue"),
        **_submission(timeline, of_job.get(SUBMITTED)),
        attempts=tuple(_attempts(timeline)),
        progress=_progress(of_job.get(PROGRESS)),
        **(_ending(ended) if ended is not None else {}),
        cancel_requested_at=cancel.at if cancel else None,
        cancel_reason=cancel.text("reason") if cancel else "",
        cancel_actor=cancel.text("actor") if cancel else "",
        timeline=tuple(timeline),
    )


def _types_of(everything: Sequence[Happening], chosen: str | None) -> set[str | None]:
    """Return the types that a job has had: the one given, and those that replays link to it."""
    own = {chosen}
    links = [{each.job_type, each.former} for each in everything if _links(each, everything)]
    while more := {name for link in links if own & link for name in link - own}:
        own |= more
    return own


def _links(replay: Happening, everything: Sequence[Happening]) -> bool:
    """Return True for a replay as another type, unless what workers wrote tells otherwise.

    Clients write of replays, and may write anything: it must neither add to a job that has ended
    for good, nor make a job that was submitted as its type one of another.
    """
    return replay.former is not None and not any(
        (each.job_type == replay.former and each.what in _FOR_GOOD)
        or (each.job_type == replay.job_type and each.message_id and not _is_of_replay(each))
        for each in everything
    )


def _is_of_replay(delivered: Happening) -> bool:
    return delivered.text("source").startswith(REPLAY_SOURCE)


def _pause(release: Happening) -> str:
    at = release.at.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
    return f"it was given back at {at}, since {release.text('reason')}"


def _with_result(timeline: Sequence[Happening], ended: Happening) -> Happening:
    """Return the completion that has the result: a later delivery of a completed job may not."""
    completions = [each for each in timeline if each.what == Mark.COMPLETED]
    telling = [each for each in completions if each.data.keys() & _RESULTS]
    return telling[-1] if telling else ended


def _named(timeline: Sequence[Happening], name: str) -> Any:
    """Return the latest value recorded under a name, or None."""
    return next((each.data[name] for each in reversed(timeline) if each.data.get(name)), None)


def _submission(timeline: Sequence[Happening], submitted: Happening | None) -> dict[str, Any]:
    """Return what is known of the submission: by its own item, or else by those of deliveries."""
    tenant = _named(timeline, "tenant")
    return {
        "submitted_at": submitted.at if submitted else moment(_named(timeline, "submitted_at")),
        "not_before": moment(_named(timeline, "not_before")),
        "expires_at": moment(_named(timeline, "expires_at")),
        "priority": _named(timeline, "priority"),
        "tenant": Tenant(**tenant) if tenant else None,
        "source": _named(timeline, "source"),
        "parent": _named(timeline, "parent"),
    }


def _progress(progress: Happening | None) -> ProgressRecord | None:
    if progress is None:
        return None
    return ProgressRecord(
        at=progress.at,
        percent=progress.data.get("percent", 0),
        note=progress.text("note"),
        data=progress.data.get("data") or {},
        attempt=progress.data.get("attempt"),
        sealed=sealed_value(progress.data.get("sealed")),
        sealed_fault=progress.text("sealed_fault"),
    )


def _ending(last: Happening) -> dict[str, Any]:
    return {
        "finished_at": last.at,
        "reason": last.text("reason") or last.text("detail"),
        "drop_kind": last.text("kind") if last.what == Mark.DROPPED else "",
        "error_type": last.text("error_type"),
        "error_message": last.text("error_message"),
        "has_result": bool(last.data.keys() & _RESULTS),
        "result_ref": result_ref(ref) if (ref := last.data.get("result_ref")) else None,
        "result_sealed": sealed_value(last.data.get("result_sealed")),
        "result_fault": last.text("result_fault") or last.text(REFUSAL),
        "result": last.data.get("result"),
    }


def _attempts(timeline: Sequence[Happening]) -> Iterable[AttemptRecord]:
    deliveries: dict[tuple[str, int], dict[str, Happening]] = defaultdict(dict)
    for each in timeline:
        if each.receive:
            deliveries[each.message_id, each.receive][each.what] = each
    # Those of one message by their numbers: two may have the same time, and workers' clocks differ.
    messages = [*dict.fromkeys(message_id for message_id, _ in deliveries)]
    ordered = sorted(deliveries, key=lambda each: (messages.index(each[0]), each[1]))
    attempts = [each for each in ordered if _is_attempt(deliveries[each])]
    made = set[tuple[str, int]]()
    for place, (message_id, receive) in enumerate(attempts, start=1):
        facts = deliveries[message_id, receive]
        attempt = _attempt(place, facts)
        if _was_run(attempt, facts) or (message_id, attempt.number) not in made:
            made.add((message_id, attempt.number))
            yield attempt


def _was_run(attempt: AttemptRecord, facts: Mapping[str, Happening]) -> bool:
    """Return False if a delivery may only have given the job up; its number is then that of the
    last attempt before it."""
    return attempt.outcome is None or bool(attempt.ran_s) or Mark.STARTED in facts


def _is_attempt(facts: Mapping[str, Happening]) -> bool:
    if Mark.UNRUNNABLE in facts:
        return False
    if facts.keys() & _ATTEMPTED.keys():
        return True
    return facts.keys() == {Mark.STARTED}


def _attempt(place: int, facts: Mapping[str, Happening]) -> AttemptRecord:
    ended = next((facts[what] for what in _ATTEMPTED if what in facts), None)
    known: dict[str, Any] = {}
    for each in sorted(facts.values(), key=order_of, reverse=True):  # earlier values win
        known |= each.data
    started, ran_s = facts.get(Mark.STARTED), known.get("ran_s")
    started_at = started.at if started else None
    if started_at is None and ended is not None and ran_s is not None:
        started_at = ended.at - timedelta(seconds=ran_s)
    return AttemptRecord(
        number=known.get("attempt") or place,
        outcome=_ATTEMPTED[ended.what] if ended else None,
        started_at=started_at,
        ended_at=ended.at if ended else None,
        worker=str(known.get("worker") or ""),
        ran_s=ran_s,
        error_type=str(known.get("error_type") or ""),
        error_message=str(known.get("error_message") or known.get("detail") or ""),
        traceback=str(known.get("traceback") or ""),
        retry_in_s=known.get("retry_in_s"),
    )
