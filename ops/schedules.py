"""``headgate schedules``: an app's schedules on AWS, shown and switched."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.table import Table

from headgate.jobs.client.client import Client
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.schedules.registry import ScheduleInfo, UnreadableSchedule


class Action(StrEnum):
    """Actions on schedules."""

    LS = "ls"
    PAUSE = "pause"
    RESUME = "resume"
    RUN = "run"
    NEXT = "next"


def act(
    client: Client, action: Action, name: str | None, *, count: int, now: datetime, as_json: bool
) -> None:
    """Carry out the action and print the result.

    Raises:
        ScheduleMissing: there is no schedule of that name.
        TransportError: AWS could not be reached, or refused.
    """
    if name is None:  # all schedules
        found = client.schedules.list()
        if action is Action.NEXT:
            times = {
                each.name: _next_of(each, count, now)
                for each in found
                if isinstance(each, ScheduleInfo)
            }
            _show_next(list(times.items()), as_json)
            _tell_unreadable(found)
        else:
            _show(found, now, as_json)
        return
    match action:
        case Action.LS:
            _show([client.schedules.get(name)], now, as_json)
        case Action.NEXT:
            _show_next([(name, client.schedules.next_times(name, count))], as_json)
        case Action.PAUSE:
            client.schedules.pause(name)
            print(f"{name} is paused")
        case Action.RESUME:
            client.schedules.resume(name)
            print(f"{name} fires again")
        case Action.RUN:
            print(client.schedules.run_now(name).id)


def _show(found: Sequence[ScheduleInfo | UnreadableSchedule], now: datetime, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_values(each, now) for each in found], indent=2))
        return
    table = Table("schedule", "job type", "when", "time zone", "state", "made by", "next (UTC)")
    for each in found:
        table.add_row(*_row(each, now))
    Console().print(table)
    _tell_unreadable(found)


def _tell_unreadable(found: Sequence[ScheduleInfo | UnreadableSchedule]) -> None:
    for each in found:
        if isinstance(each, UnreadableSchedule):
            print(f"{each.name} can't be read: {each.reason}", file=sys.stderr)


def _row(schedule: ScheduleInfo | UnreadableSchedule, now: datetime) -> Sequence[str]:
    made_by = "the code" if schedule.declared else "hand"
    if isinstance(schedule, UnreadableSchedule):
        return schedule.name, "-", "-", "-", "unreadable", made_by, "-"
    coming = _next_of(schedule, 1, now) if schedule.enabled else []
    return (
        schedule.name,
        schedule.job_type,
        schedule.when.expression,
        schedule.when.timezone,
        "on" if schedule.enabled else "paused",
        made_by,
        f"{coming[0]:%Y-%m-%d %H:%M}" if coming else "-",
    )


def _show_next(found: Sequence[tuple[str, Sequence[datetime]]], as_json: bool) -> None:
    if as_json:
        times = {name: [at.isoformat() for at in coming] for name, coming in found}
        print(json.dumps(times, indent=2))
        return
    for name, coming in found:
        for at in coming:
            print(f"{at:%Y-%m-%d %H:%M} UTC  {name}")


def _values(schedule: ScheduleInfo | UnreadableSchedule, now: datetime) -> dict[str, Any]:
    if isinstance(schedule, UnreadableSchedule):
        return {
            "name": schedule.name,
            "declared": schedule.declared,
            "unreadable": schedule.reason,
        }
    when = schedule.when
    window = when.flexible_window
    return {
        "name": schedule.name,
        "job_type": schedule.job_type,
        "expression": when.expression,
        "timezone": when.timezone,
        "enabled": schedule.enabled,
        "declared": schedule.declared,
        "start": when.start.isoformat() if when.start else None,
        "end": when.end.isoformat() if when.end else None,
        "flexible_window_s": window.total_seconds() if window else None,
        "next": [at.isoformat() for at in _next_of(schedule, 1, now)],
    }


def _next_of(schedule: ScheduleInfo, count: int, now: datetime) -> Sequence[datetime]:
    try:
        return schedule.next_times(count, now)
    except SettingsInvalid:
        return []  # AWS accepted it, so it is readable there; the others still have to be shown
