"""Output of ``headgate jobs list`` and ``count``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from headgate.jobs.client.jobs.desk import JobCounts
from headgate.jobs.client.jobs.jobs import JobsCancelled
from headgate.jobs.client.jobs.pages import ListedJob
from headgate.ops.views.output import TextTable, in_line, show, show_json
from headgate.ops.views.spans import in_short

EXIT_NONE = 3
"""There are no such jobs."""

_LINE = 76
"""Characters of an error that fit a line."""


def show_page(jobs: Sequence[ListedJob], following: str, now: datetime, *, as_json: bool) -> int:
    """Print jobs, and where the list goes on; returns the exit code."""
    if as_json:
        show_json({"jobs": [asdict(each) for each in jobs], "next": following})
        return 0 if jobs else EXIT_NONE
    for each in jobs:
        show_job(each, now)
    if not jobs:
        show("No such jobs." if not following else "No such jobs among those looked at.")
    else:
        show(f"\n{_jobs_of(len(jobs))}; `show ID` has all of one.")
    if following:
        show(f"There may be more: --after {following}")
    return 0 if jobs else EXIT_NONE


def show_counts(counts: JobCounts, *, as_json: bool) -> int:
    """Print counts by type and state; returns the exit code."""
    if as_json:
        show_json(asdict(counts))
        return 0 if counts.total else EXIT_NONE
    if counts.total:
        table = TextTable("count", "type", "state", right=("count",))
        for each in counts.counts:
            table.row(f"{each.count:,}", each.type, each.state)
        table.show()
        show(f"{_jobs_of(counts.total)} in all")
    else:
        show("No such jobs.")
    if not counts.complete and counts.oldest is not None:
        show(f"Only those since {counts.oldest:%Y-%m-%d %H:%M}Z were counted: --since narrows it.")
    return 0 if counts.total else EXIT_NONE


def tell_cancelled(outcome: JobsCancelled, verb: str) -> int:
    """Say how many jobs of which types are meant; returns the exit code."""
    if not outcome.jobs:
        show("No such jobs.")
        return EXIT_NONE
    for name, count in Counter(each.type for each in outcome.jobs).most_common():
        show(in_line(f"{count:>7,}  {name}"))
    more = "" if outcome.complete else "; there may be more"
    show(f"{_jobs_of(len(outcome.jobs))} {verb} cancelled{more}.")
    return 0


def show_job(job: ListedJob, now: datetime) -> None:
    """Print up to three lines, which fit 80 columns unless its names are long."""
    age = in_short(now - job.changed_at)
    show(in_line(f"{job.id}  {age:>4}  {job.type}: {job.state}"))
    error = ": ".join(filter(None, (job.error_type, job.error_message))) or job.reason
    for said in filter(None, (error, job.explanation)):
        show(in_line(f"    {said if len(said) <= _LINE else f'{said[: _LINE - 1]}…'}"))


def _jobs_of(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"
