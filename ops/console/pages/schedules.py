"""``/schedules`` and ``/schedules/{name}``: when jobs are submitted by themselves."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from datetime import datetime
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headgate.jobs.definitions.schedules.wording import in_words
from headgate.jobs.errors import ScheduleMissing, SettingsInvalid
from headgate.jobs.records.history import JobRecord
from headgate.jobs.schedules.registry import ScheduleInfo, UnreadableSchedule
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.console.context import Console
from headgate.ops.console.forms import form_of, refuse
from headgate.ops.console.pages.once import led_once
from headgate.ops.console.reader import Seen
from headgate.ops.console.rendering import base_of, console_of, render
from headgate.ops.rescheduling import with_expression

_ALL = "schedules"
_FRESH_S = 10.0
_PER_SCHEDULE_S = 0.2
"""Each schedule costs a request: a list of many is asked for less often."""

_NEXT = _LAST = 10
_RUNS_FRESH_S = 15.0
_LONGEST_NAME = 64


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One readable schedule of the list."""

    info: ScheduleInfo
    words: str
    next: datetime | None
    """Its next time; None while it is paused, or if there is none."""


def schedules(request: Request) -> Response:
    """List the schedules."""
    console = console_of(request)
    seen = _list(console)
    found = seen.value or ()
    rows = [_row(each, console) for each in found if isinstance(each, ScheduleInfo)]
    return render(
        request,
        "schedules.html",
        title="Schedules",
        active="/schedules",
        every_s=15,
        seen=seen,
        rows=rows,
        unreadable=[each for each in found if isinstance(each, UnreadableSchedule)],
    )


def schedule(request: Request) -> Response:
    """Show a schedule."""
    console, name = console_of(request), _name(request)
    seen = console.reader.read(_key(name), lambda: _found(console, name), fresh_s=_FRESH_S)
    info = seen.value
    if info is None and not seen.fault and not seen.renewing:
        refuse(f"There is no schedule {name!r}.", 404)
    coming = [] if info is None else _times(info, _NEXT, console)
    runs = None if info is None else _runs(console, info)
    zone = ZoneInfo("UTC" if info is None else info.when.timezone)
    return render(
        request,
        "schedule.html",
        title=name,
        active="/schedules",
        every_s=15,
        seen=seen,
        name=name,
        info=info,
        words="" if info is None else in_words(info.when.expression),
        coming=[(at, at.astimezone(zone)) for at in coming],
        runs=runs,
    )


def pause(request: Request) -> Response:
    """Pause a schedule."""
    name, reason = _name(request), form_of(request).text("reason")
    schedules = console_of(request).client.schedules
    return _changed(request, lambda: schedules.pause(name, reason=reason))


def resume(request: Request) -> Response:
    """Let a paused schedule fire again."""
    name = _name(request)
    schedules = console_of(request).client.schedules
    return _changed(request, lambda: schedules.resume(name))


def run(request: Request) -> Response:
    """Submit a schedule's job now, and lead to the job."""
    console, name = console_of(request), _name(request)

    def submit() -> str:
        handle = console.act(request, lambda: console.client.schedules.run_now(name), changes=())
        return f"/jobs/{handle.id}"

    return led_once(request, submit)


def move(request: Request) -> Response:
    """Change the times of a schedule."""
    console, name, form = console_of(request), _name(request), form_of(request)
    schedules = console.client.schedules
    expression = form.text("expression")
    zone = form.text("timezone", most=100) or "UTC"
    when = schedules.get(name).when
    moved, _ = with_expression(when, expression, zone, console.clock.now())  # the form says which
    return _changed(request, lambda: schedules.reschedule(name, schedule=moved))


def reset(request: Request) -> Response:
    """Let a schedule fire as the code declares it."""
    name = _name(request)
    schedules = console_of(request).client.schedules
    return _changed(request, lambda: schedules.reset(name))


def _changed(request: Request, do: Callable[[], None]) -> Response:
    name = _name(request)
    console_of(request).act(request, do, changes=(_ALL, _key(name)))
    return RedirectResponse(f"{base_of(request)}/schedules/{name}", status_code=303)


def _list(console: Console) -> Seen[Sequence[ScheduleInfo | UnreadableSchedule]]:
    before = console.reader.peek(_ALL).value or ()
    fresh_s = max(_FRESH_S, _PER_SCHEDULE_S * len(before))
    return console.reader.read(_ALL, console.client.schedules.list, fresh_s=fresh_s)


def _name(request: Request) -> str:
    name = str(request.path_params["name"])
    if len(name) > _LONGEST_NAME:
        refuse("No schedule has a name of that length.", 404)
    return name


def _found(console: Console, name: str) -> ScheduleInfo | None:
    with suppress(ScheduleMissing):
        return console.client.schedules.get(name)
    return None


def _key(name: str) -> Hashable:
    return (_ALL, name)


def _row(info: ScheduleInfo, console: Console) -> ScheduleRow:
    coming = _times(info, 1, console) if info.enabled else []
    return ScheduleRow(
        info=info, words=in_words(info.when.expression), next=coming[0] if coming else None
    )


def _times(info: ScheduleInfo, count: int, console: Console) -> list[datetime]:
    try:
        return info.next_times(count, console.clock.now())
    except SettingsInvalid:
        return []  # AWS accepted it, so it is readable there; the rest can still be shown


def _runs(console: Console, info: ScheduleInfo) -> Seen[Sequence[tuple[datetime, JobRecord]]]:
    """Return what became of a schedule's last times: two queries for each."""
    return console.reader.read(
        ("runs", info.name), lambda: _last_runs(console, info), fresh_s=_RUNS_FRESH_S
    )


def _last_runs(console: Console, info: ScheduleInfo) -> Sequence[tuple[datetime, JobRecord]]:
    try:
        found = info.last_runs(_LAST, console.clock.now())
    except SettingsInvalid:
        return []  # as in _times
    return [(each.at, console.client.handle(each.job_id).history()) for each in found]


ROUTES = [
    Route("/schedules", schedules),
    Route("/schedules/{name}", schedule),
    Route("/schedules/{name}/pause", pause, methods=["POST"]),
    Route("/schedules/{name}/resume", resume, methods=["POST"]),
    Route("/schedules/{name}/run", run, methods=["POST"]),
    Route("/schedules/{name}/move", move, methods=["POST"]),
    Route("/schedules/{name}/reset", reset, methods=["POST"]),
]
