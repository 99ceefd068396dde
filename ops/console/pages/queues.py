"""``/queues``: all lanes, and what is paused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.ops.console.lanes import LaneRow, groups, lanes
from headgate.ops.console.rendering import console_of, render


def queues(request: Request) -> Response:
    """List the queues by group."""
    console = console_of(request)
    seen = console.queues()
    rows: Mapping[str, Sequence[LaneRow]] = {}
    if seen.value is not None:
        rows = groups(lanes(console.app, seen.value, console.health(seen.value)))
    return render(
        request,
        "queues.html",
        title="Queues",
        active="/queues",
        every_s=5,
        seen=seen,
        lanes=rows,
        pauses=[] if seen.value is None else seen.value.pauses or [],
    )


ROUTES = [Route("/queues", queues)]
