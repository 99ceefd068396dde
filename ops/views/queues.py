"""Output of ``headgate queues``: the messages in each of an app's queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.jobs.records.pausing.pause import Pause
from headgate.ops.queue_depths import Depths, LaneDepth
from headgate.ops.views.output import TextTable, show, show_error, show_json
from headgate.ops.views.pauses import show_paused, values_of

EXIT_MISSING = 1
"""A queue that the app declares does not exist."""


def show_queues(found: Depths, paused: Sequence[Pause] | None, *, as_json: bool) -> int:
    """Print the messages in each queue, and what is paused; returns the exit code."""
    if as_json:
        quarantine = {"name": found.quarantine_name, "messages": found.quarantined}
        show_json(
            {
                "queues": [_values(each) for each in found.lanes],
                "quarantine": quarantine,
                "paused": None if paused is None else [values_of(each) for each in paused],
            }
        )
    else:
        _table(found.lanes).show()
        show(f"In quarantine: {_number(found.quarantined)}")
        show_paused(paused)
    if not (missing := found.missing):
        return 0
    show_error(f"these queues don't exist: {', '.join(missing)}. `cdk deploy` creates them")
    return EXIT_MISSING


def _table(lanes: Sequence[LaneDepth]) -> TextTable:
    right = ("waiting", "in flight", "delayed", "dead")
    table = TextTable("queue", "priority", *right, "on SQS", right=right)
    for each in lanes:
        counts = (each.waiting, each.in_flight, each.delayed, each.dead)
        table.row(each.queue.group, each.queue.priority, *map(_number, counts), each.queue.name)
    return table


def _values(lane: LaneDepth) -> dict[str, Any]:
    return {
        "queue": lane.queue.group,
        "priority": lane.queue.priority,
        "name": lane.queue.name,
        "waiting": lane.waiting,
        "in_flight": lane.in_flight,
        "delayed": lane.delayed,
        "dead": lane.dead,
    }


def _number(count: int | None) -> str:
    return "missing" if count is None else f"{count:,}"
