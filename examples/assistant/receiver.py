"""A customer's endpoint on the loopback: it checks signatures, and answers as it is told."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from aiohttp import web

from examples.assistant import signing


class Receiver:
    """The requests to one endpoint, and its answers.

    Args:
        secret: the secret that it shares with the assistant.
        now: tells the time.
    """

    def __init__(
        self, secret: bytes, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.url = ""
        self.answers: deque[HTTPStatus] = deque()
        """The next answers; 200 once there are none."""
        self.received: list[dict[str, Any]] = []
        """The bodies whose signature was right, in order."""
        self._secret = secret
        self._now = now

    async def take(self, request: web.Request) -> web.Response:
        """Answer one request."""
        body = await request.read()
        try:
            signing.verify(self._secret, body, request.headers[signing.HEADER], self._now())
        except signing.SignatureInvalid as error:
            return web.Response(status=HTTPStatus.UNAUTHORIZED, text=str(error))
        self.received.append(await request.json())
        status = self.answers.popleft() if self.answers else HTTPStatus.OK
        wait = {"Retry-After": "7"} if status == HTTPStatus.TOO_MANY_REQUESTS else None
        return web.Response(status=status, headers=wait)


@asynccontextmanager
async def serving(receiver: Receiver) -> AsyncIterator[Receiver]:
    """Serve a receiver on a free port of the loopback, and fill in its ``url``."""
    served = web.Application()
    served.router.add_post("/", receiver.take)
    runner = web.AppRunner(served, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        _, port = runner.addresses[0][:2]
        receiver.url = f"http://127.0.0.1:{port}/"
        yield receiver
    finally:
        await runner.cleanup()
