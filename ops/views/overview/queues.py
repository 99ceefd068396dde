"""Output of ``headgate queues``: what each queue holds, how fast it moves, who works on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from headgate.jobs.client.overview.queues import QueueList, QueueStatus
from headgate.ops.views.output import TextTable, in_line, show, show_error, show_json
from headgate.ops.views.pauses import in_words, values_of
from headgate.ops.views.spans import in_short

EXIT_MISSING = 1
"""A queue that the app declares does not exist."""

UNKNOWN = "?"
"""Stands for a number that nobody told."""

_NAMED = 3
"""Number of tenants that a note names."""

_NO_CHANGES: Mapping[str, float] = {}


def show_queues(found: QueueList, *, as_json: bool) -> int:
    """Print the queues, and what is paused; returns the exit code."""
    if as_json:
        show_json(values(found))
    else:
        table(found).show()
        for line in notes(found):
            show(in_line(line))
    if not found.missing:
        return 0
    show_error(
        f"these queues don't exist: {', '.join(found.missing)}. `cdk deploy` creates them, unless "
        "the version here is not the deployed one"
    )
    return EXIT_MISSING


def table(found: QueueList, changes: Mapping[str, float] = _NO_CHANGES) -> TextTable:
    """Return the table of queues, which fits 80 columns unless names or numbers are long.

    Args:
        found: the queues.
        changes: by physical name, the change of a queue's messages in a minute, shown where
            CloudWatch doesn't tell how many came and went.
    """
    right = ("waiting", "in flight", "delayed", "dead", "age", "in/out per min", "polled by")
    drawn = TextTable("queue", *right, right=right)
    for each in found.queues:
        counts = (each.waiting, each.in_flight, each.delayed, each.dead)
        drawn.row(
            f"{each.queue} {each.priority}",
            *(_number(count) if each.exists else "missing" for count in counts),
            _age(each.metrics.oldest),
            _rates(each, changes.get(each.name)),
            UNKNOWN if each.workers is None else f"{len(each.workers):,}",
        )
    return drawn


def notes(found: QueueList) -> Iterator[str]:
    """Yield what the table has no column for."""
    quarantined = "missing" if found.quarantined is None else f"{found.quarantined:,}"
    yield f"In quarantine: {quarantined}"
    for each in found.queues:
        if noisy := each.metrics.noisy_tenants:
            tenants = "tenant delays" if noisy == 1 else "tenants delay"
            yield f"{each.queue} {each.priority}: {noisy:,} {tenants} the others{_held(each)}"
    for pause in found.pauses or ():
        yield in_words(pause)
    for what, why in found.unknown.items():
        yield f"{what} can't be read: {why}"


def _held(queue: QueueStatus) -> str:
    """Return whose messages workers hold most of, since SQS tells only how many delay others."""
    most = [f"{held:,} of {name}" for name, held in list((queue.tenants or {}).items())[:_NAMED]]
    return f"; workers hold {', '.join(most)}" if most else ""


def values(found: QueueList) -> dict[str, Any]:
    """Return the queues as they are in JSON."""
    return {
        "queues": [_values(each) for each in found.queues],
        "quarantine": {"name": found.quarantine, "messages": found.quarantined},
        "paused": None if found.pauses is None else [values_of(each) for each in found.pauses],
        "unknown": dict(found.unknown),
    }


def _values(queue: QueueStatus) -> dict[str, Any]:
    metrics = queue.metrics
    return {
        "queue": queue.queue,
        "priority": queue.priority,
        "name": queue.name,
        "waiting": queue.waiting,
        "in_flight": queue.in_flight,
        "delayed": queue.delayed,
        "dead": queue.dead,
        "oldest_s": None if metrics.oldest is None else metrics.oldest.total_seconds(),
        "sent_per_minute": metrics.sent_per_minute,
        "deleted_per_minute": metrics.deleted_per_minute,
        "failed_per_minute": metrics.failed_per_minute,
        "is_received_from": metrics.is_received_from,
        "noisy_tenants": metrics.noisy_tenants,
        "workers": queue.workers,
        "tenants": None if queue.tenants is None else dict(queue.tenants),
    }


def _rates(queue: QueueStatus, change: float | None) -> str:
    sent, deleted = queue.metrics.sent_per_minute, queue.metrics.deleted_per_minute
    if sent is None and deleted is None:
        return UNKNOWN if change is None else f"{change:+,.0f}"
    return f"{_rate(sent)}/{_rate(deleted)}"


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _age(oldest: timedelta | None) -> str:
    return UNKNOWN if oldest is None else in_short(oldest)


def _number(count: int | None) -> str:
    return "missing" if count is None else f"{count:,}"
