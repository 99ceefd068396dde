"""Schedules as lines of a file, by which another region or stage gets the same ones.

A declared schedule is created by its own region's deployment: a line only says whether it fires,
and at which times if somebody has moved it. One that was made at run time is in its line as a
whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import ConfigurationError, MessageUnreadable
from headgate.jobs.schedules.firing import moved_input, read_scheduled
from headgate.jobs.schedules.registry import PREFIX
from headgate.jobs.values.light_dataclass import frozen_dataclass


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesExported:
    """The outcome of an export."""

    exported: int
    unreadable: tuple[str, ...] = ()
    """Names on AWS of those that are left out, since they can't be read."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesImported:
    """The outcome of an import; all names are the app's own."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    same: int = 0
    """Number of those that were as the file says already."""
    over: tuple[str, ...] = ()
    """Those of the file that have no time left."""
    missing: tuple[str, ...] = ()
    """Declared ones of the file that are not deployed here."""
    others: tuple[str, ...] = ()
    """Those made at run time that are here and not in the file; removed if that was asked for."""
    removed: bool = False


class SavedSchedule(BaseModel):
    """One line."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    v: Literal[1] = 1
    name: str
    """The name on AWS."""
    expression: str
    timezone: str
    start: AwareDatetime | None = None
    end: AwareDatetime | None = None
    flexible_minutes: int | None = None
    enabled: bool
    delete_when_done: bool = False
    description: str = ""
    input: str = Field(repr=False)


def line_of(spec: ScheduleSpec) -> str:
    """Return a schedule as one line of JSON, with its job's payload."""
    told = {name: getattr(spec, name) for name in SavedSchedule.model_fields if name != "v"}
    return SavedSchedule(**told).model_dump_json(exclude_none=True)


def read_lines(app: App, lines: Iterable[str]) -> Iterator[SavedSchedule]:
    """Yield the schedules of a file's lines.

    Raises:
        ConfigurationError: a line is not a schedule, or its jobs are for a queue that the app
            doesn't have; the error gives its number.
    """
    queues = {spec.name for spec in app.topology.queues}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            saved = SavedSchedule.model_validate_json(line)
            queue = read_scheduled(saved.input).queue_name
        except (ValidationError, MessageUnreadable):
            raise ConfigurationError(
                f"line {number}: this is not a schedule that an export has written"
            ) from None
        if queue not in queues:
            raise ConfigurationError(
                f"line {number}: {queue!r} is not one of this app's queues: import with the app, "
                "and the stage, that it was exported with"
            )
        yield saved


def copy_of(app: App, saved: SavedSchedule, found: ScheduleSpec | None) -> ScheduleSpec | None:
    """Return the schedule as it is to be here; None for a declared one that is not deployed.

    Args:
        app: the app.
        saved: the line.
        found: the schedule of that name here.
    """
    if not saved.name.startswith(PREFIX):
        return None if found is None else _declared(saved, found)
    topology = app.topology
    base = found or ScheduleSpec(
        group=topology.schedule_group,
        name=saved.name,
        expression="",
        function=topology.bridge_name,
        role=topology.scheduler_role,
        dead_letters=topology.failed_firings_name,
        input="",
    )
    return replace(base, **_times(saved), input=saved.input, description=saved.description)


def _declared(saved: SavedSchedule, found: ScheduleSpec) -> ScheduleSpec:
    if (moved_from := read_scheduled(saved.input).moved_from) is None:
        if read_scheduled(found.input).moved_from is None:
            return replace(found, enabled=saved.enabled)
        return replace(found, **_times(saved), input=saved.input)  # reset since it was moved
    return replace(found, **_times(saved), input=moved_input(found.input, moved_from))


def _times(saved: SavedSchedule) -> Mapping[str, Any]:
    return {
        "expression": saved.expression,
        "timezone": saved.timezone,
        "start": saved.start,
        "end": saved.end,
        "flexible_minutes": saved.flexible_minutes,
        "delete_when_done": saved.delete_when_done,
        "enabled": saved.enabled,
    }
