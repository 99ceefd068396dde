"""The console as an ASGI app."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headgate.jobs.client.client import Client
from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import (
    AccessDenied,
    HeadgateError,
    ReplayMissing,
    ScheduleMissing,
    TransportError,
    UnknownJobType,
    UnknownQueue,
)
from headgate.jobs.values.texts import text_of
from headgate.ops.console.access.rules import AccessRule
from headgate.ops.console.context import Console
from headgate.ops.console.front_door import FrontDoor
from headgate.ops.console.pages import ROUTES
from headgate.ops.console.rendering import STATIC, render_error, version

_MISSING = (ReplayMissing, ScheduleMissing, UnknownJobType, UnknownQueue)


def console(
    app: App,
    *,
    access: AccessRule,
    read_only: bool = False,
    hosts: Sequence[str] | None = None,
    client: Client | None = None,
    deployment: Deployment | None = None,
    clock: Clock | None = None,
) -> ASGIApp:
    """Return the web console of an app, as an ASGI app to serve or to mount.

    Args:
        app: the app that it shows.
        access: an async function that is given each request (Starlette's ``Request``), and returns
            who sends it, as a `Viewer`; None if they may not look; or a response to give instead,
            such as a redirect to where people sign in.
        read_only: lets nobody act, whatever ``access`` says.
        hosts: the names that the console is reached by, without ports; None takes any, as behind a
            proxy that checks them.
        client: reads and acts; None makes one with the standard AWS settings.
        deployment: the thresholds by which health is judged, and the Lambda functions that run
            jobs; None: the defaults, and functions are unknown.
        clock: tells the time; None is the machine's.

    Example:
        >>> async def staff(request):  # doctest: +SKIP
        ...     user = await user_of(request)
        ...     return Viewer(name=user.email, may_act=user.is_operator) if user else None
        >>> web.mount("/jobs", headgate.console(app, access=staff))
    """
    context = Console(
        app=app,
        client=client or Client(app),
        clock=clock or SystemClock(),
        deployment=deployment,
    )

    @asynccontextmanager
    async def living(_pages: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(context.end)

    pages = Starlette(
        lifespan=living,
        routes=[*ROUTES, Route("/static/{name}", _static)],
        exception_handlers={
            HTTPException: _http_fault,
            HeadgateError: _known_fault,
            Exception: _unknown_fault,
        },
    )
    return FrontDoor(pages, context, access, hosts=hosts, read_only=read_only)


async def _static(request: Request) -> Response:
    path = STATIC / request.path_params["name"]
    if path.parent != STATIC or not path.is_file():
        raise HTTPException(404, "There is no such file.")
    kind, _ = mimetypes.guess_type(path.name)
    is_current = request.query_params.get("v") == version()
    kept = "public, max-age=31536000, immutable" if is_current else "no-cache"
    content = await run_in_threadpool(path.read_bytes)
    return Response(content, media_type=kind, headers={"cache-control": kept})


async def _http_fault(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else ""
    if status == 404:
        return render_error(request, 404, "Not found", detail)
    return render_error(request, status, "That can't be done", detail)


async def _known_fault(request: Request, error: Exception) -> Response:
    if isinstance(error, TransportError):
        return render_error(request, 502, _title_of(error), text_of(error))
    if isinstance(error, _MISSING):
        return render_error(request, 404, "Not found", text_of(error))
    return render_error(request, 400, "That can't be done", text_of(error))


def _title_of(error: TransportError) -> str:
    if isinstance(error, AccessDenied) or isinstance(error.__cause__, AccessDenied):
        return "AWS does not allow that"
    return "AWS did not answer" if error.transient else "AWS could not do that"


async def _unknown_fault(request: Request, error: Exception) -> Response:
    # Starlette raises it again once this is sent, so the server logs its traceback.
    text = f"The console has a fault ({type(error).__name__}); its log has the traceback."
    return render_error(request, 500, "That went wrong", text)
