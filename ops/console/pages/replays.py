"""``/replays`` and ``/replays/{id}``: dead letters on their way back, as they go."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headgate.jobs.dead_letters.replaying.options import ReplayOptions
from headgate.jobs.dead_letters.replaying.report import ReplayReport, ReplayState
from headgate.jobs.errors import ReplayMissing
from headgate.ops.console.context import Console
from headgate.ops.console.forms import refuse
from headgate.ops.console.pages.once import led_once
from headgate.ops.console.pages.wanted import Wanted
from headgate.ops.console.rendering import base_of, console_of, render
from headgate.ops.console.words import span

_ALL = "replays"
_FRESH_S = 5.0
_ONE_FRESH_S = 2.0
_LONGEST_ID = 64
_SHOWN = 100


def replays(request: Request) -> Response:
    """List the replays of the last 30 days."""
    console = console_of(request)
    seen = console.reader.read(_ALL, console.client.dead_letters.replays, fresh_s=_FRESH_S)
    return render(
        request,
        "replays.html",
        title="Replays",
        active="/replays",
        every_s=5,
        seen=seen,
        rows=(seen.value or [])[:_SHOWN],
    )


def replay(request: Request) -> Response:
    """Show a replay."""
    console, name = console_of(request), _id(request)
    seen = console.reader.read(_key(name), lambda: _found(console, name), fresh_s=_ONE_FRESH_S)
    report = seen.value
    if report is None and not seen.fault and not seen.renewing:
        refuse(f"There is no replay {name!r}.", 404)
    is_running = report is not None and report.state is ReplayState.RUNNING
    return render(
        request,
        "replay.html",
        title=f"Replay {name}",
        active="/replays",
        every_s=3 if is_running else 15,
        seen=seen,
        name=name,
        report=report,
        chosen=[] if report is None else _chosen(report),
        pace=[] if report is None else _pace(report),
        jobs=Wanted() if report is None else _jobs(report),
    )


def abort(request: Request) -> Response:
    """End a replay for good."""
    console, name = console_of(request), _id(request)
    console.act(
        request,
        lambda: console.client.dead_letters.abort(name),
        changes=(_ALL, _key(name)),
    )
    return _back(request)


def resume(request: Request) -> Response:
    """Carry out the rest of a replay that has stopped."""
    console, name = console_of(request), _id(request)

    def carry_out(tell: Callable[[ReplayReport], None]) -> ReplayReport:
        return console.client.dead_letters.resume(name, on_step=tell)

    def begin() -> str:
        console.begin(
            request,
            f"resume the replay {name}",
            carry_out,
            changes=(_ALL, _key(name)),
        )
        return f"/replays/{name}"

    return led_once(request, begin)


def _back(request: Request) -> Response:
    return RedirectResponse(f"{base_of(request)}/replays/{_id(request)}", status_code=303)


def _id(request: Request) -> str:
    name = str(request.path_params["id"])
    if len(name) > _LONGEST_ID:
        refuse("No replay has an id of that length.", 404)
    return name


def _key(name: str) -> Hashable:
    return (_ALL, name)


def _found(console: Console, name: str) -> ReplayReport | None:
    with suppress(ReplayMissing):
        return console.client.dead_letters.get_replay(name)
    return None


def _chosen(report: ReplayReport) -> list[tuple[str, str]]:
    """Return what its filter selects, as names and texts."""
    chosen = report.filter
    lists = (
        *(("type", chosen.types), ("reason", chosen.reasons), ("error", chosen.errors)),
        *(("queue", chosen.queues), ("tenant", chosen.tenants), ("id", chosen.ids)),
    )
    return [(name, each) for name, values in lists for each in values]


def _jobs(report: ReplayReport) -> Wanted:
    """Return the filter for what has happened, since it began, to jobs such as it sends."""
    types = tuple(("type", each) for each in report.filter.types)
    return Wanted(types).having("since", report.started_at.isoformat(timespec="seconds"))


def _pace(report: ReplayReport) -> list[tuple[str, object]]:
    """Return the settings that are not the default, as names and values."""
    options = report.options
    told = (
        *(("limit", options.limit), ("rate, a second", options.rate), ("canary", options.canary)),
        *(("spread", options.spread and span(options.spread)), ("priority", options.priority)),
        *(("as type", options.as_type), ("replaces in payloads", _replaced(options))),
        ("stops", _brake(options)),
    )
    return [(name, value) for name, value in told if value is not None]


def _replaced(options: ReplayOptions) -> str | None:
    """Return the names of the payloads' fields that it replaces; None if it replaces none."""
    if options.sealed_set is not None:
        return "fields that are sealed"
    return ", ".join(sorted(options.set)) or None


def _brake(options: ReplayOptions) -> str:
    if options.stop_above is None:
        return "never by itself, however many die again"
    return f"once more than {options.stop_above:.0%} of those that ended died again"


ROUTES = [
    Route("/replays", replays),
    Route("/replays/{id}", replay),
    Route("/replays/{id}/abort", abort, methods=["POST"]),
    Route("/replays/{id}/resume", resume, methods=["POST"]),
]
