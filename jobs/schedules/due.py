"""Due times of stored schedules, and what EventBridge Scheduler hands over at each.

For schedulers that fire on this machine: the one in memory, and that of ``headgate dev``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.definitions.schedules.occurrences import is_one_time, occurrences


def next_due(spec: ScheduleSpec, since: datetime) -> datetime | None:
    """Return the first time from ``since`` on at which a schedule is due, in UTC.

    None if it is paused, or never due again.

    Raises:
        ValueError: its expression can't be read.
    """
    return next(times_due(spec, since), None)


def times_due(spec: ScheduleSpec, since: datetime) -> Iterator[datetime]:
    """Return the times from ``since`` on at which a schedule is due, in UTC; none if it is paused.

    Raises:
        ValueError: its expression can't be read.
    """
    if not spec.enabled:
        return iter(())
    one_time = is_one_time(spec.expression)
    # A rate without a start counts from its last change, as far as AWS documents it.
    return occurrences(
        spec.expression,
        spec.timezone,
        since=since,
        start=None if one_time else spec.start or spec.modified_at,
        end=None if one_time else spec.end,
    )


def invocation(spec: ScheduleSpec, schedule_arn: str, due: datetime) -> str:
    """Return a schedule's input with the context attributes of one firing, as JSON.

    https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-schedule-context-attributes.html
    """
    attributes = {
        "schedule-arn": schedule_arn,
        "scheduled-time": due.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "execution-id": f"{spec.name}@{due.timestamp():.0f}",
        "attempt-number": "1",
    }
    text = spec.input
    for name, value in attributes.items():
        text = text.replace(f"<aws.scheduler.{name}>", json.dumps(value)[1:-1])
    return text
