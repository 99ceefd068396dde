"""Output of ``headgate plan``: when each attempt of a failing job comes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.deployment.retry_timeline import Planned, timeline
from headgate.ops.views.output import TextTable, show, show_json

_BAR = 30


def show_plan(
    job: JobType[Any, Any], queue: QueueSpec, *, long_delays: bool, as_json: bool
) -> None:
    """Print the expected time of each attempt of a job type.

    Raises:
        SettingsInvalid: its custom backoff failed.
    """
    planned = timeline(job, long_delays=long_delays)
    if as_json:
        show_json(planned)
        return
    table = TextTable("attempt", "wait before it", "comes after", "", title=_title(job))
    for each in planned:
        table.row(
            str(each.attempt),
            _span(each.least_wait_s, each.most_wait_s),
            _span(each.earliest_s, each.latest_s),
            _bar(each, planned[-1].latest_s),
        )
    table.show()
    show(
        f"All attempts come within {_duration(planned[-1].latest_s)} and what the attempts "
        f"themselves take; SQS keeps the message for {_duration(queue.retention.total_seconds())}."
    )


def _title(job: JobType[Any, Any]) -> str:
    return f"{job.name}: {job.retry.max_attempts} attempts, {job.retry.backoff!r}"


def _bar(each: Planned, whole_s: float) -> str:
    """Draw the range from the earliest to the latest time on a line that spans the whole."""
    if whole_s == 0:
        return ""
    start, end = (round(_BAR * at / whole_s) for at in (each.earliest_s, each.latest_s))
    return " " * start + "█" * max(1, end - start)


def _span(least_s: float, most_s: float) -> str:
    if least_s == most_s:
        return _duration(least_s)
    return f"{_duration(least_s)} to {_duration(most_s)}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:g} s"
    return str(timedelta(seconds=round(seconds))).removesuffix(", 0:00:00")
