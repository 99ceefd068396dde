"""The states of jobs of which nothing is recorded, inferred from their ids.

    what is known                                                      state
    a one-time schedule holds it                                       delayed
    a queue may still hold a job of its age                            waiting
    none can, its id is none that a job can have, or what would be     unknown
    known of it is not recorded, or may have expired

A job's id has the time of its submission. Workers record a job's end, and that it runs once it has
run for a second, so one of which nothing is recorded waits, as long as its queue keeps it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from headgate.jobs.client.waiting import keeps_outcomes, longest_in_queue
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import keep_of
from headgate.jobs.messages.job_ids import time_of
from headgate.jobs.messages.job_options import JobKeep
from headgate.jobs.records.history import JobRecord
from headgate.jobs.records.state import JobState

_SKEW = timedelta(minutes=1)
"""Allowance for a submitter's clock that is ahead."""


def inferred(
    app: App,
    record: JobRecord,
    declared: JobType[Any, Any] | None,
    *,
    now: datetime,
    due: datetime | None = None,
    keep: JobKeep | None = None,
) -> JobRecord:
    """Return a record with the state that can be inferred; as it is if its items tell the state.

    Args:
        app: its types say what is recorded, and its queues how long they keep a job.
        record: the job's record.
        declared: the job's type; None if it is unknown.
        now: the time.
        due: the time until which a one-time schedule holds the job; None if none does.
        keep: the retention that its submission has set, as far as that is known.
    """
    if record.state is not JobState.UNKNOWN:
        return record
    if due is not None:
        return replace(
            record,
            state=JobState.DELAYED,
            submitted_at=time_of(UUID(record.id)),
            not_before=due,
            explanation="a one-time schedule holds it until it is due",
        )
    return _by_its_id(app, record, declared, now, keep)


def _by_its_id(
    app: App,
    record: JobRecord,
    declared: JobType[Any, Any] | None,
    now: datetime,
    keep: JobKeep | None,
) -> JobRecord:
    at = time_of(UUID(record.id))
    if record.other_types:
        others = ", ".join(map(repr, record.other_types))
        return replace(record, explanation=f"the id is that of a job of the type {others}")
    if at is None:
        return replace(record, explanation="no job has such an id: it is not a UUIDv7")
    if at > now + _SKEW:
        return replace(record, explanation=f"no job has the id yet: its time is {_said(at)}")
    record = replace(record, submitted_at=at)
    until = at + longest_in_queue(app)
    if now >= until:
        return replace(
            record,
            explanation=f"nothing is recorded of it, and no queue has kept it since {_said(until)}"
            + (", unless it was submitted with a long delay" if app.long_delays else ""),
        )
    if silent := _silent(app, declared, keep):
        return replace(
            record,
            explanation="nothing is recorded of jobs that complete at their first delivery, of "
            f"the {_named(silent)}: it may wait, run or have completed",
        )
    if forgotten := _forgotten(app, declared, keep, now - at):
        return replace(
            record,
            explanation="nothing is recorded of it: it waits or runs, or has completed and its "
            f"record has expired, as those of the {_named(forgotten)} do by then",
        )
    return replace(
        record,
        state=JobState.WAITING,
        inferred=True,
        explanation="nothing is recorded of it: it waits in its queue, which keeps it until "
        f"{_said(until)}, has run for less than a second, or its worker died within one and it "
        "comes back after its visibility timeout",
    )


def _silent(app: App, declared: JobType[Any, Any] | None, keep: JobKeep | None) -> Sequence[str]:
    """Return the types that the job may be of whose completed jobs are not recorded."""
    return [each.name for each in _types(app, declared) if not keeps_outcomes(app, each, keep)]


def _forgotten(
    app: App, declared: JobType[Any, Any] | None, keep: JobKeep | None, age: timedelta
) -> Sequence[str]:
    """Return the types that the job may be of whose record of a completion may have expired."""
    return [each.name for each in _types(app, declared) if _kept_for(app, each, keep) <= age]


def _kept_for(app: App, each: JobType[Any, Any], keep: JobKeep | None) -> timedelta:
    declared = keep_of(app, each)
    return (declared if keep is None else keep.over(declared)).completed


def _types(app: App, declared: JobType[Any, Any] | None) -> Collection[JobType[Any, Any]]:
    """Return the types that the job may be of."""
    return app.types.values() if declared is None else [declared]


def _named(types: Sequence[str]) -> str:
    names = ", ".join(map(repr, types[:3])) + (", ..." if len(types) > 3 else "")
    return f"type{'s' if len(types) > 1 else ''} {names}"


def _said(at: datetime) -> str:
    return at.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
