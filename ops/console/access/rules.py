"""The rules of access: anybody on this machine; elsewhere, whoever has a token."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headgate.jobs.core.clock import Clock
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.texts import legible
from headgate.ops.console.forms import query_of, read_form
from headgate.ops.console.rendering import base_of, path_of, render

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
"""Names by which a browser on this machine reaches the console."""

SHORTEST_TOKEN = 20
"""Minimum characters of a token, so that nobody guesses it."""

SIGN_OUT = "/sign-out"
"""The path that a form is sent to by whoever signs out."""

_SIGN_IN = "/sign-in"
_NEXT = "next"
"""The field with the address, within the console, to lead to once somebody has signed in."""
_LONGEST_NEXT = 2_000
_OWN_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x1f]*")
"""An address that no browser takes for one of another host."""

_COOKIE = "headgate_console"
_LASTS = timedelta(hours=12)
_LONGEST_NAME = 60


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Somebody who looks at the console."""

    name: str
    """Shown with what they do, in pauses and in the log."""
    may_act: bool = True
    """False lets them look only."""
    sign_out: str = ""
    """The path on this host that a form is sent to when they sign out; empty: no button for it."""


AccessRule = Callable[[Request], Awaitable[Viewer | Response | None]]
"""Returns who sends a request, or None if they may not look; or a response to give in place of the
page, such as a redirect to where people sign in."""


def everybody(name: str) -> AccessRule:
    """Return the rule that lets everybody look and act, under one name."""
    viewer = Viewer(name=name)

    async def rule(request: Request) -> Viewer:
        del request
        return viewer

    return rule


class TokenAccess:
    """The rule that lets in whoever has a token: by a form, or by ``Authorization: Bearer``.

    The form gives the browser a cookie for twelve hours, which is signed with the token and has the
    name that was entered: it says who acted, and proves nothing.

    Args:
        token: the token, of 20 characters or more.
        clock: tells when a cookie ends.

    Raises:
        ConfigurationError: the token is shorter.
    """

    def __init__(self, token: str, clock: Clock) -> None:
        if len(token) < SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the console's token has {SHORTEST_TOKEN} characters or more, got {len(token)}: "
                "make one with `openssl rand -hex 24`"
            )
        self._token = token.encode()
        self._clock = clock

    async def __call__(self, request: Request) -> Viewer | Response | None:
        """Return who sends a request, or the form by which they sign in."""
        if path_of(request) == _SIGN_IN:
            return await self._sign_in(request)
        if path_of(request) == SIGN_OUT and request.method == "POST":
            return self._signed_out(request)
        given = request.headers.get("authorization")
        if given is not None:
            return Viewer(name="by token") if self._is_token(given) else None
        if (name := self._name(request.cookies.get(_COOKIE, ""))) is not None:
            return Viewer(name=name, sign_out=f"{base_of(request)}{SIGN_OUT}")
        return RedirectResponse(f"{base_of(request)}{_SIGN_IN}{_wanted(request)}", status_code=303)

    async def _sign_in(self, request: Request) -> Response:
        if request.method != "POST":
            wanted = query_of(request).text(_NEXT, most=_LONGEST_NEXT)
            return render(request, "sign_in.html", title="Sign in", fault="", next=wanted)
        form = await read_form(request)
        wanted = form.text(_NEXT, most=_LONGEST_NEXT)
        if not self._is_token(f"Bearer {form.text('token', most=500)}"):
            fault = "That is not the token that this console was started with."
            return render(
                request, "sign_in.html", title="Sign in", fault=fault, next=wanted, status=403
            )
        name = legible(form.text("name", most=_LONGEST_NAME)) or "by token"
        path = wanted if _OWN_PATH.fullmatch(wanted) else "/"
        response = RedirectResponse(f"{base_of(request)}{path}", status_code=303)
        response.set_cookie(
            _COOKIE,
            self._signed(name),
            max_age=int(_LASTS.total_seconds()),
            path=base_of(request) or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            # Lax, for links that others send. All that changes something is a POST, which has to
            # come from a page of the console's own (`ops.console.front_door`).
            samesite="lax",
        )
        return response

    def _signed_out(self, request: Request) -> Response:
        response = RedirectResponse(f"{base_of(request)}{_SIGN_IN}", status_code=303)
        response.delete_cookie(_COOKIE, path=base_of(request) or "/")
        return response

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), b"Bearer " + self._token)

    def _signed(self, name: str) -> str:
        ends_at = (self._clock.now() + _LASTS).timestamp()
        said = base64.urlsafe_b64encode(json.dumps([name, ends_at]).encode()).decode()
        return f"{said}.{self._signature(said)}"

    def _signature(self, said: str) -> str:
        return hmac.new(self._token, f"console:{said}".encode(), hashlib.sha256).hexdigest()

    def _name(self, cookie: str) -> str | None:
        """Return the name that a cookie has; None if it is not ours, or has ended."""
        said, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(said).encode()):
            return None
        name, ends_at = json.loads(base64.urlsafe_b64decode(said))
        if self._clock.now().timestamp() >= ends_at:
            return None
        return str(name)


def _wanted(request: Request) -> str:
    """Return the query that has the sign-in lead to the page that was asked for; empty if it can't
    or needn't."""
    path = quote(path_of(request))  # a name in it may have a question mark
    if request.url.query:
        path += f"?{request.url.query}"
    is_page = request.method == "GET" and path != "/" and len(path) <= _LONGEST_NEXT
    return f"?{urlencode({_NEXT: path})}" if is_page else ""
