"""The failures of a harness's jobs in words, for the report of a test that failed."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.jobs.core.events import Event, JobDeadLettered, JobFailed

_MOST = 5
"""Number of jobs that are told; the others are only counted."""


def failures(events: Iterable[Event]) -> str:
    """Return the last failure of each job that failed, with its traceback; empty if none did."""
    last: dict[str, JobFailed | JobDeadLettered] = {}
    for event in events:
        if isinstance(event, JobFailed):
            last[event.job_id] = event
        elif isinstance(event, JobDeadLettered):
            last.setdefault(event.job_id, event)
    told = [_told(event) for event in list(last.values())[:_MOST]]
    if len(last) > _MOST:
        told.append(f"... and {len(last) - _MOST} more")
    return "\n".join(told)


def _told(event: JobFailed | JobDeadLettered) -> str:
    job = f"{event.job_type} {event.job_id}, attempt {event.attempt} of {event.max_attempts}"
    if isinstance(event, JobDeadLettered):
        return f"{job}: {event.reason}: {event.error_message}"
    return f"{job}:\n{event.traceback or f'{event.error_type}: {event.error_message}'}".rstrip()
