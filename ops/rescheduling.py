"""New times for a schedule, by its expression alone: all else about its times stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from headgate.jobs.definitions.schedules.occurrences import is_one_time
from headgate.jobs.definitions.schedules.schedule import Schedule


def with_expression(
    when: Schedule, expression: str, timezone: str, now: datetime
) -> tuple[Schedule, Sequence[str]]:
    """Return times with another expression, and a line for each thing that doesn't go with it.

    The start, the end and the flexible window stay. A one-time expression has neither start nor
    end, and an end that has passed would leave no time.

    Raises:
        SettingsInvalid: EventBridge Scheduler would refuse the expression or the time zone.
    """
    moved = replace(when, expression=expression, timezone=timezone)
    if is_one_time(expression):
        moments = (("start", when.start), ("end", when.end))
        left = [f"its {name} ({at}) is dropped: at(...) has none" for name, at in moments if at]
        return replace(moved, start=None, end=None), left
    if when.end is not None and when.end <= now:
        return replace(moved, end=None), [f"its end ({when.end}) is dropped: it has passed"]
    return moved, []
