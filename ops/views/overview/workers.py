"""Output of ``headgate workers``: who lives, what it polls, and what it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from headgate.jobs.client.overview.workers import WorkerList
from headgate.jobs.core.topology import Priority
from headgate.jobs.records.fleet.worker_status import WorkerStatus
from headgate.ops.views.output import TextTable, in_line, show, show_error, show_json
from headgate.ops.views.spans import in_short

EXIT_NONE = 3
"""No worker lives."""


def show_workers(found: WorkerList, now: datetime, *, as_json: bool, with_jobs: bool) -> int:
    """Print the workers, and with ``with_jobs`` what each runs; returns the exit code."""
    if as_json:
        show_json(_values(found))
    else:
        if found.workers:
            _table(found.workers, now).show()
        else:
            show("no worker lives")
        for line in _notes(found, now):
            show(in_line(line))
        if with_jobs and any(each.running for each in found.workers):
            _jobs(found.workers, now).show()
        elif with_jobs:
            show("no job is running")
    _tell_left_out(found)
    return 0 if found.workers else EXIT_NONE


def _table(workers: Sequence[WorkerStatus], now: datetime) -> TextTable:
    right = ("up", "slots", "waits")
    table = TextTable("worker", "state", *right, "polls", "longest job", right=right)
    for each in workers:
        table.row(
            each.name,
            each.state,
            in_short(now - each.started_at),
            f"{each.busy}/{each.slots}",
            f"{each.waiting:,}",
            ", ".join(_polled(each)),
            _longest(each, now),
        )
    return table


def _polled(worker: WorkerStatus) -> Iterator[str]:
    """Yield the queues that it polls; the priorities where these are not all four."""
    for group, priorities in worker.polls.items():
        all_of_it = len(priorities) == len(Priority)
        yield group if all_of_it else f"{group} ({', '.join(priorities)})"


def _longest(worker: WorkerStatus, now: datetime) -> str:
    if not worker.running:
        return "-"
    longest = min(worker.running, key=lambda job: job.started_at)
    return f"{longest.type}, {in_short(now - longest.started_at)}"


def _jobs(workers: Sequence[WorkerStatus], now: datetime) -> TextTable:
    table = TextTable(
        "job", "type", "attempt", "for", "worker", right=("attempt", "for"), whole=("job",)
    )
    for worker in workers:
        for job in worker.running:
            ran = in_short(now - job.started_at)
            table.row(job.id, job.type, str(job.attempt), ran, worker.name)
    return table


def _notes(found: WorkerList, now: datetime) -> Iterator[str]:
    """Yield what matters of single workers: versions, limits, pauses, silence."""
    versions = Counter((each.version, each.app_version) for each in found.workers)
    for (own, app), count in versions.most_common():
        yield f"{_workers(count)} with Headgate {own}{f' and the app at {app}' if app else ''}"
    kept = Counter((each.slots, each.reserved) for each in found.workers if each.reserved)
    for (slots, reserved), count in kept.items():
        which = f"{slots} slots{' each' if count > 1 else ''}"
        yield f"{_workers(count)} with {which}, of which {reserved} are for critical jobs alone"
    for limit, state, count in _limits(found.workers):
        yield f"{limit}: {state} at {_workers(count)}"
    for target, count in Counter(_pauses(found.workers)).items():
        yield f"paused: {target}, as {_workers(count)} {'knows' if count == 1 else 'know'}"
    for each in found.silent:
        yield f"{each.name} has been silent for {in_short(now - each.seen_at)}"


def _limits(workers: Sequence[WorkerStatus]) -> Iterator[tuple[str, str, int]]:
    counts = Counter((limit, state) for each in workers for limit, state in each.limits.items())
    for (limit, state), count in counts.items():
        yield limit, state, count


def _pauses(workers: Sequence[WorkerStatus]) -> Iterator[str]:
    return (target for each in workers for target in each.pauses)


def _workers(count: int) -> str:
    return f"{count:,} worker{'' if count == 1 else 's'}"


def _tell_left_out(found: WorkerList) -> None:
    if found.skipped:
        show_error(f"skipped items: {found.skipped:,}, which no worker of this version wrote")
    if not found.complete:
        show_error("there are more workers than one look reads")


def _values(found: WorkerList) -> dict[str, Any]:
    return {
        "workers": [asdict(each) for each in found.workers],
        "silent": [asdict(each) for each in found.silent],
        "skipped": found.skipped,
        "complete": found.complete,
    }
