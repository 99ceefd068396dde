"""A browser for the console's tests, over nothing but ASGI; and an app with something to show."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from starlette.types import ASGIApp, Message

MARKUP = "<script>alert('x')</script>\u202e\x1b[2J&quot;\"'"
"""A text that may come from anybody who submits a job, and must be shown as it is."""

HOST = "localhost:8484"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(slots=True)
class Browser:
    """Sends requests as a browser does, and keeps cookies; it follows no redirects.

    Args:
        app: the ASGI app.
        root: the path that the app is mounted at.
        scheme: the scheme by which its server is asked.
    """

    app: ASGIApp
    root: str = ""
    scheme: str = "http"
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Answer:
        """Look at a page."""
        return self.send("GET", path, headers=headers)

    def post(self, path: str, form: Mapping[str, Any] | None = None, **headers: str) -> Answer:
        """Send a form, from one of the console's own pages unless a header says otherwise."""
        own = {
            "content-type": "application/x-www-form-urlencoded",
            "origin": f"http://{HOST}",
            "sec_fetch_site": "same-origin",
        }
        body = urlencode(form or {}, doseq=True, errors="replace").encode()
        return self.send("POST", path, body, headers={**own, **headers})

    def send(
        self, method: str, path: str, body: bytes = b"", *, headers: Mapping[str, str]
    ) -> Answer:
        """Send one request; an underscore in a header's name stands for a hyphen."""
        named = {"host": HOST, **{n.replace("_", "-"): value for n, value in headers.items()}}
        if self.cookies:
            named["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        parts = urlsplit(path)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": self.scheme,
            "path": self.root + unquote(parts.path),
            "root_path": self.root,
            "query_string": parts.query.encode(),
            "headers": [(n.encode(), value.encode()) for n, value in named.items() if value],
            "server": ("localhost", 8484),
            "client": ("127.0.0.1", 50000),
        }
        return asyncio.run(self._sent(scope, body))

    async def _sent(self, scope: dict[str, Any], body: bytes) -> Answer:
        messages: list[Message] = []
        requests: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if not requests:  # it waits for the whole answer
                await asyncio.Event().wait()
            return requests.pop()

        async def send(message: Message) -> None:
            messages.append(dict(message))

        await self.app(scope, receive, send)
        headers = {n.decode(): value.decode() for n, value in messages[0]["headers"]}
        for name, value in messages[0]["headers"]:
            if name == b"set-cookie":
                self._keep(value.decode())
        content = b"".join(each.get("body", b"") for each in messages[1:])
        return Answer(status=messages[0]["status"], headers=headers, text=content.decode())

    def _keep(self, cookie: str) -> None:
        for name, morsel in SimpleCookie(cookie).items():
            if morsel["max-age"] == "0":
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = morsel.value
