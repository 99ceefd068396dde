"""Requests to an ASGI app, without a server."""

from __future__ import annotations

import json
from typing import Any

from starlette.types import ASGIApp, Message


async def ask(web: ASGIApp, method: str, url: str, **headers: str) -> tuple[int, Any]:
    """Send a request; return the status of its answer, and its JSON.

    An underscore in a header's name stands for a hyphen.
    """
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    path, _, query = url.partition("?")
    named = [(name.replace("_", "-").encode(), each.encode()) for name, each in headers.items()]
    scope = {"type": "http", "http_version": "1.1", "method": method, "path": path}
    await web(scope | {"query_string": query.encode(), "headers": named}, receive, send)
    body = b"".join(each.get("body", b"") for each in sent[1:])
    return sent[0]["status"], json.loads(body)
