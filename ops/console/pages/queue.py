"""``/queues/{name}``: one queue group; pauses it and resumes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headgate.jobs.core.topology import Priority
from headgate.jobs.definitions.queue import Queue
from headgate.jobs.records.fleet.worker_status import WorkerStatus
from headgate.jobs.records.pausing.pause import Pause
from headgate.ops.console.context import QUEUES, WORKERS, Console
from headgate.ops.console.forms import Fields, form_of, refuse
from headgate.ops.console.lanes import LaneRow, groups, lanes
from headgate.ops.console.limits import limits_of
from headgate.ops.console.pages.overview import charts
from headgate.ops.console.rendering import base_of, console_of, render
from headgate.ops.console.tenants import tenants_of


def queue(request: Request) -> Response:
    """Show a queue group."""
    console = console_of(request)
    declared = _declared(console, request)
    seen = console.queues()
    rows: Sequence[LaneRow] = ()
    workers: Sequence[WorkerStatus] = ()
    pauses: list[Pause] = []
    if (found := seen.value) is not None:
        rows = groups(lanes(console.app, found, console.health(found)))[declared.name]
        workers = found.workers or ()
        pauses = _pauses(found.pauses or (), console, declared)
    return render(
        request,
        "queue.html",
        title=declared.name,
        active="/queues",
        every_s=5,
        seen=seen,
        queue=declared,
        rows=rows,
        pauses=pauses,
        paused={each.target.priority for each in pauses if each.target.kind == "queue"},
        types=_types(console, declared),
        limits=list(limits_of(console.app, declared.name, workers)),
        tenants=tenants_of([row.status for row in rows]),
        charts=charts(console, found, declared.name),
    )


def pause(request: Request) -> Response:
    """Pause a queue group, or one of its priorities."""
    console = console_of(request)
    declared, form = _declared(console, request), form_of(request)
    priority = _priority(declared, form)
    lasts, reason = form.span("lasts"), form.text("reason")
    console.act(
        request,
        lambda: console.client.pauses.create(
            queue=declared.name,
            priority=priority,
            lasts=lasts,
            reason=reason,
        ),
        changes=(QUEUES, WORKERS),
    )
    return _back(request, declared)


def resume(request: Request) -> Response:
    """Resume a queue group, or one of its priorities."""
    console = console_of(request)
    declared = _declared(console, request)
    priority = _priority(declared, form_of(request))
    console.act(
        request,
        lambda: console.client.pauses.remove(queue=declared.name, priority=priority),
        changes=(QUEUES, WORKERS),
    )
    return _back(request, declared)


def _declared(console: Console, request: Request) -> Queue:
    name = request.path_params["name"]
    if (found := console.app.queues.get(name)) is None:
        refuse(f"The app has no queue {name!r}.", 404)
    return found


def _priority(queue: Queue, form: Fields) -> Priority | None:
    """Return the priority that a form names; None means all of them."""
    if not (name := form.text("priority", most=20)):
        return None
    if name not in [each.value for each in queue.lanes]:
        refuse(f"The queue {queue.name} has no priority {name!r}.")
    return Priority(name)


def _back(request: Request, queue: Queue) -> Response:
    return RedirectResponse(f"{base_of(request)}/queues/{queue.name}", status_code=303)


def _types(console: Console, queue: Queue) -> Sequence[Any]:
    return [each for each in console.app.types.values() if each.queue == queue.name]


def _pauses(pauses: Sequence[Pause], console: Console, queue: Queue) -> list[Pause]:
    """Return the pauses that concern a queue: of it, of its types, and of tenants."""
    types = {each.name for each in _types(console, queue)}
    return [
        each
        for each in pauses
        if each.target.kind == "tenant"
        or (each.target.kind == "queue" and each.target.name == queue.name)
        or (each.target.kind == "type" and each.target.name in types)
    ]


ROUTES = [
    Route("/queues/{name}", queue),
    Route("/queues/{name}/pause", pause, methods=["POST"]),
    Route("/queues/{name}/resume", resume, methods=["POST"]),
]
