"""``/workers``: who lives, and what each runs."""

from __future__ import annotations

from collections import Counter

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.jobs.client.overview.workers import WorkerList
from headgate.ops.console.rendering import console_of, render


def workers(request: Request) -> Response:
    """List the workers."""
    seen = console_of(request).workers()
    return render(
        request,
        "workers.html",
        title="Workers",
        active="/workers",
        every_s=5,
        seen=seen,
        versions={} if seen.value is None else versions(seen.value),
    )


def versions(found: WorkerList) -> Counter[tuple[str, str]]:
    """Return how many workers have each version, of Headgate and of the app."""
    return Counter((each.version, each.app_version) for each in found.workers)


ROUTES = [Route("/workers", workers)]
