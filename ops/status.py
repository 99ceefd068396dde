"""Output of ``headgate status`` and ``headgate submit --wait``: the state of a job."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import to_json
from rich.console import Console
from rich.table import Table

from headgate.jobs.client.handle import JobHandle
from headgate.jobs.errors import ResultTimeout
from headgate.jobs.records.history import JobRecord
from headgate.jobs.records.state import Happening, JobState

EXIT_FAILED = 3
"""Exit code for a job that is dead, quarantined or cancelled."""
EXIT_UNFINISHED = 4
EXIT_UNKNOWN = 5
"""Exit code for a job of which nothing is known."""


def exit_code(state: JobState) -> int:
    """Return the exit code for a state: 0 if the job completed or was discarded by its handler."""
    match state:
        case JobState.COMPLETED | JobState.DISCARDED:
            return 0
        case JobState.DEAD | JobState.QUARANTINED | JobState.CANCELLED:
            return EXIT_FAILED
        case JobState.UNKNOWN:
            return EXIT_UNKNOWN
        case _:
            return EXIT_UNFINISHED


def show_record(record: JobRecord, *, as_json: bool) -> int:
    """Print all that is known of a job; returns the exit code."""
    if as_json:
        print(to_json(record, indent=2).decode())
        return exit_code(record.state)
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(f"{record.id}  {record.type or 'unknown type'}: {record.state}")
    for name, value in _facts(record):
        console.print(f"  {name:<10} {value}")
    if record.attempts:
        console.print(_attempts(record))
    for attempt in record.attempts[-1:]:
        if attempt.traceback:
            console.print(f"\n{attempt.traceback.rstrip()}")
    console.print()
    for happening in record.timeline:
        console.print(_line(happening))
    return exit_code(record.state)


def show_end(job: JobHandle[Any], timeout: timedelta | None) -> int:
    """Wait for a job to end, and print its result as JSON; returns the exit code."""
    try:
        job.wait(None if timeout is None else timeout.total_seconds())
    except ResultTimeout as error:
        print(f"headgate: {error}", file=sys.stderr)
        return EXIT_UNFINISHED
    record = job.history()
    if record.state is JobState.COMPLETED:
        print(to_json(record.result).decode())
    else:
        print(f"headgate: the job {job.id} is {record.state}: {_why(record)}", file=sys.stderr)
    return exit_code(record.state)


def _facts(record: JobRecord) -> Iterator[tuple[str, str]]:
    if record.queue:
        yield "queue", "/".join(filter(None, (record.queue, record.priority)))
    if record.tenant:
        yield "tenant", record.tenant.org
    for name, at in (
        ("submitted", record.submitted_at),
        ("due", record.not_before),
        ("finished", record.finished_at),
    ):
        if at is not None:
            yield name, _time(at)
    if why := _why(record):
        yield "why", why
    if (progress := record.progress) is not None:
        yield "progress", f"{progress.percent:g} % {progress.note}".rstrip()
    if (asked := record.cancel_requested_at) is not None:
        yield "cancel", f"asked for at {_time(asked)} {record.cancel_reason}".rstrip()
    if record.has_result:
        yield "result", to_json(record.result).decode()


def _attempts(record: JobRecord) -> Table:
    table = Table("attempt", "started", "ended", "ran", "outcome", "worker", "error")
    for each in record.attempts:
        table.add_row(
            str(each.number),
            _time(each.started_at),
            _time(each.ended_at),
            "" if each.ran_s is None else f"{each.ran_s:.3g} s",
            each.outcome or "running",
            each.worker,
            _joined(each.error_type, each.error_message),
        )
    return table


def _line(happening: Happening) -> str:
    data = happening.data
    about = [f"{name}={data[name]}" for name in _TOLD if data.get(name) not in (None, "")]
    return " ".join((f"  {_time(happening.at)}  {happening.what:<12}", *about)).rstrip()


_TOLD = ("attempt", "worker", "reason", "detail", "error_type", "retry_in_s", "percent", "note")
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
