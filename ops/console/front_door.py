"""The front door: whatever a request asks for, it passes here first.

A browser sends a request to this console also because some other site told it to. So its host has
to be one that the console is known by, which a name that an attacker's DNS points here is not; what
changes something has to come from one of the console's own pages; and no other site may load or
frame its pages. https://web.dev/articles/fetch-metadata
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.ops.console.access.rules import AccessRule
from headgate.ops.console.context import Console
from headgate.ops.console.forms import read_form
from headgate.ops.console.rendering import path_of, render_error

_LOOKS = ("GET", "HEAD")
_ACTS = ("POST",)

_POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{each}-src 'self'" for each in ("script", "style", "img", "connect")),
        *("form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"),
    )
)

_HEADERS = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class FrontDoor:
    """Lets requests pass to the pages, or refuses them; and makes every answer safe to show.

    Args:
        pages: the ASGI app behind.
        console: given to the pages with each request.
        access: tells who sends a request.
        hosts: the names, without ports, that the console is reached by; None takes any.
        read_only: lets nobody act, whatever ``access`` says.
    """

    def __init__(
        self,
        pages: ASGIApp,
        console: Console,
        access: AccessRule,
        *,
        hosts: Sequence[str] | None,
        read_only: bool,
    ) -> None:
        self._pages = pages
        self._console = console
        self._access = access
        self._hosts = None if hosts is None else {each.lower() for each in hosts}
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; the protocol of ASGI."""
        if scope["type"] != "http":  # a server's start and end; a web socket gets no answer
            await self._pages(scope, receive, send)
            return
        state = {**scope.get("state", {}), "viewer": None}
        request = Request({**scope, "headgate.console": self._console, "state": state}, receive)
        answer = await self._answer(request) or self._pages
        await answer(request.scope, request.receive, _with_headers(send))

    async def _answer(self, request: Request) -> Response | None:
        """Return the answer to a request that the pages don't get; None lets it pass."""
        try:
            _check_method(request)
            self._check_host(request)
            _check_origin(request)
            if path_of(request).startswith("/static/"):
                return None
            return await self._admit(request)
        except HTTPException as error:
            return render_error(request, error.status_code, "Refused", error.detail)

    async def _admit(self, request: Request) -> Response | None:
        found = await self._access(request)
        if isinstance(found, Response):
            return found
        if found is None:
            raise HTTPException(403, "You may not look at this console.")
        may_act = found.may_act and not self._read_only
        request.state.viewer = replace(found, may_act=may_act)
        if request.method in _ACTS:
            if not may_act:
                raise HTTPException(403, "This console is read-only for you: nothing was changed.")
            request.state.form = await read_form(request)
        return None

    def _check_host(self, request: Request) -> None:
        if self._hosts is None:
            return
        try:
            name = urlsplit(f"//{request.headers.get('host', '')}").hostname
        except ValueError:
            name = None
        if name not in self._hosts:
            known = ", ".join(sorted(self._hosts))
            raise HTTPException(421, f"This console is reached as {known}, and by no other name.")


def _check_method(request: Request) -> None:
    if request.method not in (*_LOOKS, *_ACTS):
        raise HTTPException(405, "Pages are read with GET, and forms are sent with POST.")


def _check_origin(request: Request) -> None:
    """Refuse what another site had the browser send."""
    site = request.headers.get("sec-fetch-site")
    if request.method in _LOOKS:
        # A link from elsewhere leads here; nothing else from elsewhere does.
        if site in ("cross-site", "same-site") and not _is_visit(request):
            raise HTTPException(403, "Another site asked for this page.")
        return
    if site not in (None, "same-origin") or not _is_own_origin(request):
        raise HTTPException(
            403, "Only a form of this console changes something, and this came from elsewhere."
        )


def _is_visit(request: Request) -> bool:
    mode, target = (request.headers.get(f"sec-fetch-{each}") for each in ("mode", "dest"))
    return mode == "navigate" and target == "document"


def _is_own_origin(request: Request) -> bool:
    """Return True if the request says that it comes from one of these pages."""
    origin = request.headers.get("origin")
    if origin is None:  # without it, only the browser's word for the site counts
        return request.headers.get("sec-fetch-site") == "same-origin"
    own = request.headers.get("host", "").lower()
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    # Behind a proxy that ends TLS the console itself is asked by HTTP: https is as good as http.
    is_own_scheme = parts.scheme in ("https", request.url.scheme)
    return own != "" and parts.netloc.lower() == own and is_own_scheme


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending
