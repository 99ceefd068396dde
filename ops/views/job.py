"""Output of ``headgate jobs`` and ``headgate submit --wait``: one job's state and history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.jobs.client.jobs.children import ChildPage
from headgate.jobs.errors import ResultTimeout
from headgate.jobs.handles.handle import JobHandle
from headgate.jobs.records.history import JobRecord
from headgate.jobs.records.state import Happening, JobState
from headgate.ops.views.job_list import show_job
from headgate.ops.views.output import TextTable, in_line, show, show_error, show_json

EXIT_ENDED = 1
"""Exit code of a cancellation that came too late."""
EXIT_FAILED = 3
"""Exit code for a job that is dead, quarantined or cancelled."""
EXIT_UNFINISHED = 4
EXIT_UNKNOWN = 5
"""Exit code for a job of which nothing is known."""


def exit_code(state: JobState) -> int:
    """Return the exit code for a state: 0 if it completed, was discarded or was dropped."""
    match state:
        case JobState.COMPLETED | JobState.DISCARDED | JobState.DROPPED:
            return 0
        case JobState.DEAD | JobState.QUARANTINED | JobState.CANCELLED:
            return EXIT_FAILED
        case JobState.UNKNOWN:
            return EXIT_UNKNOWN
        case _:
            return EXIT_UNFINISHED


def show_record(
    record: JobRecord, children: ChildPage, *, as_json: bool, tracebacks: bool = False
) -> int:
    """Print all that is known of a job, with every traceback or the last; returns the exit code."""
    if as_json:
        known = {field.name: getattr(record, field.name) for field in fields(record)}
        show_json({**known, "children": children})
        return exit_code(record.state)
    # Only a job's message has its type until a worker records it.
    heading = f"{record.id}  {record.type or ''}".rstrip()
    _show_line(f"{heading}: {record.state}")
    for name, value in (*_facts(record), *_places(record)):
        _show_line(f"  {name:<10} {value}")
    show_attempts(record, tracebacks=tracebacks)
    show()
    for happening in record.timeline:
        _show_line(_line(happening))
    _show_children(children, datetime.now(UTC))
    return exit_code(record.state)


def show_attempts(record: JobRecord, *, tracebacks: bool = False) -> None:
    """Print a job's attempts, and every traceback or that of the last one."""
    if record.attempts:
        _attempts(record).show()
    for attempt in record.attempts if tracebacks else record.attempts[-1:]:
        if attempt.traceback:
            show(f"\n{attempt.traceback.rstrip()}")


def _show_children(children: ChildPage, now: datetime) -> None:
    if not (children.jobs or children.skipped or children.next):
        return
    show("\nchildren, as they were submitted:")
    for each in children.jobs:
        show_job(each, now)
    if children.skipped:
        entries = "entry" if children.skipped == 1 else "entries"
        show(f"{children.skipped:,} {entries} can't be read.")
    if children.next:
        show("There may be more: --children N shows up to 1,000.")


def show_end(job: JobHandle[Any], timeout: timedelta | None) -> int:
    """Wait for a job to end, and print its result as JSON; returns the exit code.

    Raises:
        ResultInvalid: it has completed, and its result was not kept or can't be read.
    """
    try:
        job.wait(timeout)
    except ResultTimeout as error:
        show_error(str(error))
        return EXIT_UNFINISHED
    record = job.history()
    if record.state is JobState.COMPLETED:
        # The record has a large result's address alone, and of one that it can't tell the reason.
        is_told = record.result_ref is None and not record.result_fault
        show_json(record.result if is_told else job.result(), indent=None)
    else:
        show_error(f"the job {job.id} is {record.state}: {_why(record)}")
    return exit_code(record.state)


def cancel(job: JobHandle[Any], reason: str) -> int:
    """Request a job's cancellation unless it has ended; returns the exit code."""
    if (state := job.state()).is_final and state is not JobState.CANCELLED:
        show_error(f"the job {job.id} is {state} already: there is nothing to cancel")
        return EXIT_ENDED
    job.cancel(reason)
    show(f"{job.id}: cancellation requested")
    return 0


def _facts(record: JobRecord) -> Iterator[tuple[str, str]]:
    if record.explanation:
        yield "inferred" if record.inferred else "because", record.explanation
    if record.queue:
        yield "queue", "/".join(filter(None, (record.queue, record.priority)))
    if record.tenant:
        yield "tenant", record.tenant.org
    for name, at in (
        ("submitted", record.submitted_at),
        ("due", record.not_before),
        ("expires", record.expires_at),
        ("finished", record.finished_at),
    ):
        if at is not None:
            yield name, _time(at)
    if why := _why(record):
        yield "why", why
    if (progress := record.progress) is not None:
        yield "progress", f"{progress.percent:g} % {progress.note}".rstrip()
    if (asked := record.cancel_requested_at) is not None:
        who = f" by {record.cancel_actor}" if record.cancel_actor else ""
        yield "cancel", f"requested at {_time(asked)}{who} {record.cancel_reason}".rstrip()


def _places(record: JobRecord) -> Iterator[tuple[str, str]]:
    """Yield where the job came from, and where its payload and its result are."""
    if record.parent:
        yield "parent", record.parent
    if record.source:
        yield "source", record.source
    if (ref := record.result_ref) is not None:
        yield "result", f"{ref.size:,} bytes in the app's bucket: {ref.key}"
    elif record.has_result:
        yield "result", json.dumps(record.result, ensure_ascii=False)
    if record.result_fault:
        yield "result", f"not kept: {record.result_fault}"
    if record.state in (JobState.DEAD, JobState.QUARANTINED):
        yield "payload", f"in its dead letter: headgate dead-letters show {record.id} --payload"


def _attempts(record: JobRecord) -> TextTable:
    table = TextTable("attempt", "started", "ended", "ran", "outcome", "worker", "error")
    for each in record.attempts:
        table.row(
            str(each.number),
            _time(each.started_at),
            _time(each.ended_at),
            "" if each.ran_s is None else f"{each.ran_s:.3g} s",
            each.outcome or "running",
            each.worker,
            _joined(each.error_type, each.error_message),
        )
    return table


def _show_line(text: str) -> None:
    show(in_line(text))


def _line(happening: Happening) -> str:
    data = happening.data
    about = [f"{name}={data[name]}" for name in _TOLD if data.get(name) not in (None, "")]
    return " ".join((f"  {_time(happening.at)}  {happening.what:<12}", *about)).rstrip()


_TOLD = (
    *("attempt", "worker", "actor", "reason", "kind", "detail", "error_type", "retry_in_s"),
    *("percent", "note", "replay", "replays"),
)
"""Fields of an event that its line of the timeline shows."""


def _why(record: JobRecord) -> str:
    error = _joined(record.error_type, record.error_message)
    return "; ".join(filter(None, (record.reason, error)))


def _joined(error_type: str, error_message: str) -> str:
    return ": ".join(filter(None, (error_type, error_message)))


def _time(at: datetime | None) -> str:
    if at is None:
        return ""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
