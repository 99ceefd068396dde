"""Output of ``headgate schedules``: an app's schedules on AWS, and the times they fire at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.records.history import JobRecord
from headgate.jobs.schedules.copies import SchedulesExported, SchedulesImported
from headgate.jobs.schedules.registry import ScheduledRun, ScheduleInfo, UnreadableSchedule
from headgate.ops.views.output import TextTable, in_line, show, show_error, show_json


def show_schedules(
    found: Sequence[ScheduleInfo | UnreadableSchedule], now: datetime, *, as_json: bool
) -> None:
    """Print each schedule with its expression, its state and its next time."""
    if as_json:
        show_json([_values(each, now) for each in found])
        return
    table = TextTable(
        "schedule",
        "job type",
        "when",
        "time zone",
        "state",
        "made by",
        "next (UTC)",
        whole=("schedule",),
    )
    for each in found:
        table.row(*_row(each, now))
    table.show()
    tell_unreadable(found)


def show_times(found: Mapping[str, Sequence[datetime]], *, as_json: bool) -> None:
    """Print the next times of each schedule, by its name."""
    if as_json:
        show_json(found)
        return
    for name, coming in found.items():
        for at in coming:
            show(in_line(f"{at:%Y-%m-%d %H:%M} UTC  {name}"))


def show_runs(found: Sequence[tuple[ScheduledRun, JobRecord]], *, as_json: bool) -> None:
    """Print the last times of a schedule, with the state and the end of the job of each."""
    if as_json:
        show_json([_run_values(*each) for each in found])
        return
    table = TextTable("due (UTC)", "job", "state", "ended (UTC)", whole=("job",))
    for run, record in found:
        ended = "-" if record.finished_at is None else f"{record.finished_at:%Y-%m-%d %H:%M:%S}"
        state = record.state if record.is_recorded else "?"
        table.row(f"{run.at:%Y-%m-%d %H:%M}", run.job_id, state, ended)
    table.show()
    if not all(record.is_recorded for _, record in found):
        show(
            "?: nothing is recorded of that job: it waits, was never submitted (the schedule was "
            "paused, or had other times), or its record has ended"
        )


def show_moved(name: str, when: Schedule, dropped: Sequence[str], now: datetime) -> None:
    """Print the new times of a schedule, and what of the old ones is dropped."""
    bounds = []
    if when.start is not None and when.start > now:
        bounds.append(f"from {when.start}")
    if when.end is not None:
        bounds.append(f"until {when.end}")
    if when.flexible_window is not None:
        bounds.append(f"spread over {when.flexible_window}")
    show(in_line(", ".join((f"{name} fires at {when.expression} {when.timezone}", *bounds))))
    for each in dropped:
        show_error(each)


def times_by_name(
    found: Sequence[ScheduleInfo | UnreadableSchedule], count: int, now: datetime
) -> dict[str, Sequence[datetime]]:
    """Return the next times of each schedule that can be read."""
    readable = (each for each in found if isinstance(each, ScheduleInfo))
    return {each.name: _next_of(each, count, now) for each in readable}


def show_exported(outcome: SchedulesExported, path: str) -> int:
    """Print how many schedules were written, and what is left out; returns the exit code."""
    show(in_line(f"{outcome.exported} schedules are in {path}"))
    for name in outcome.unreadable:
        show_error(f"{name} can't be read, and is left out")
    return int(bool(outcome.unreadable))


def show_imported(outcome: SchedulesImported) -> int:
    """Print what an import has done; returns the exit code."""
    show(
        f"{len(outcome.created)} created, {len(outcome.changed)} changed, {outcome.same} as they "
        "were"
    )
    for name in outcome.over:
        show(in_line(f"{name} has no time left"))
    for name in outcome.others:
        said = "is removed" if outcome.removed else "is not in the file, and stays: --prune"
        show(in_line(f"{name} {said}"))
    return tell_undeployed(outcome.missing)


def tell_undeployed(names: Sequence[str]) -> int:
    """Name declared schedules that don't exist, on standard error; returns the exit code."""
    for name in names:
        said = "is declared in the code, and not deployed here: `cdk deploy` creates it"
        show_error(in_line(f"{name} {said}"))
    return int(bool(names))


def tell_unreadable(found: Sequence[ScheduleInfo | UnreadableSchedule]) -> None:
    """Name the schedules that can't be read, on standard error."""
    for each in found:
        if isinstance(each, UnreadableSchedule):
            show_error(f"the schedule {each.name!r} can't be read: {each.reason}")


def _run_values(run: ScheduledRun, record: JobRecord) -> Mapping[str, Any]:
    return {
        "due": run.at,
        "job_id": run.job_id,
        "state": record.state if record.is_recorded else None,
        "finished_at": record.finished_at,
    }


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
        _state(schedule),
        made_by,
        f"{coming[0]:%Y-%m-%d %H:%M}" if coming else "-",
    )


def _state(schedule: ScheduleInfo) -> str:
    state = "on" if schedule.enabled else "paused"
    return f"{state}, moved" if schedule.moved else state


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
        "moved": schedule.moved,
        "declared_expression": schedule.in_code.expression if schedule.in_code else None,
        "start": when.start,
        "end": when.end,
        "flexible_window_s": window.total_seconds() if window else None,
        "next": _next_of(schedule, 1, now),
    }


def _next_of(schedule: ScheduleInfo, count: int, now: datetime) -> Sequence[datetime]:
    try:
        return schedule.next_times(count, now)
    except SettingsInvalid:
        return []  # AWS accepted it, so it is readable there; the others still have to be shown
