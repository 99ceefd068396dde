"""A scripted HTTP server in AWS's place, and lean callers of both kinds that call it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from aiohttp import web
from botocore.credentials import ReadOnlyCredentials

from headgate.jobs.aws.connections.connection import Connection
from headgate.jobs.aws.lean.async_http import async_http
from headgate.jobs.aws.lean.caller import Caller, LeanCaller
from headgate.jobs.aws.lean.route import Route, ServiceEndpoint
from headgate.jobs.aws.lean.services import SQS
from headgate.jobs.aws.lean.sockets import Sockets
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.immediate import drive, immediate
from tests.support.environment import REGION

Kind = Literal["event loop", "threads"]
KINDS: tuple[Kind, ...] = ("event loop", "threads")

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
SKEWED = {"__type": "com.amazonaws.sqs#SignatureDoesNotMatch", "message": "Signature expired"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of the server."""

    body: Any = field(default_factory=dict)
    status: int = 200
    date: datetime = NOON
    headers: dict[str, str] = field(default_factory=dict)
    once_asked: int = 0
    """It is held back until that many requests have come."""
    silent: bool = False
    hangs_up: bool = False
    chunked: bool = False
    """True if its length is not announced."""

    def response(self) -> web.Response:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        date = {"Date": format_datetime(self.date, usegmt=True)}
        response = web.Response(status=self.status, body=body, headers=date | self.headers)
        if self.chunked:
            response.enable_chunked_encoding()
        return response


@dataclass(slots=True)
class ScriptedServer:
    """Gives its replies in order; keeps the requests."""

    replies: list[Reply]
    url: str = ""
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def answer(self, request: web.Request) -> web.Response:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.bodies.append(await request.read())
        reply = self.replies.pop(0)
        async with self.asked:
            self.asked.notify_all()
            await self.asked.wait_for(lambda: len(self.bodies) >= reply.once_asked)
        if reply.silent:
            await self.released.wait()
        if reply.hangs_up:
            assert request.transport is not None
            request.transport.close()
        return reply.response()

    def keys(self) -> list[str]:
        """Return the access key of each request."""
        return [
            headers["authorization"].split("Credential=")[1].split("/")[0]
            for headers in self.headers
        ]

    def times(self) -> list[str]:
        """Return the time at which each request was signed."""
        return [headers["x-amz-date"] for headers in self.headers]


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncIterator[ScriptedServer]:
    """Serve replies, until the block ends."""
    server = ScriptedServer(list(replies))
    app = web.Application()
    app.router.add_post("/", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        server.url = f"http://{host}:{port}/"
        yield server
    finally:
        server.released.set()
        await runner.cleanup()


class StoppedClock:
    """A clock that shows noon."""

    def now(self) -> datetime:
        return NOON

    def monotonic(self) -> float:
        return 0.0


class SetClock:
    """A clock that is set as soon as its time has been asked for."""

    def __init__(self, first: datetime, then: datetime) -> None:
        self._next, self._then = first, then

    def now(self) -> datetime:
        shown, self._next = self._next, self._then
        return shown

    def monotonic(self) -> float:
        return 0.0


class Rotating:
    """Credentials that differ for every request, up to the last."""

    def __init__(self, *keys: str) -> None:
        self._keys = list(keys)

    async def get_frozen_credentials(self) -> ReadOnlyCredentials:
        key = self._keys.pop(0) if len(self._keys) > 1 else self._keys[0]
        return ReadOnlyCredentials(key, f"secret-of-{key}", f"token-of-{key}")


def route_to(url: str, credentials: Any = None) -> Route:
    """Return a route to a local server."""
    source: Any = credentials or Rotating("AKID")
    return Route(
        endpoint=ServiceEndpoint.of(urlsplit(url)),
        region=REGION,
        user_agent="headgate",
        credentials=source.get_frozen_credentials,
    )


class InThread:
    """A caller for threads, each call of which is made in one."""

    def __init__(self, caller: LeanCaller) -> None:
        self._caller = caller

    async def call(self, action: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return await asyncio.to_thread(lambda: drive(self._caller.call(action, params)))


class Opener:
    """Opens callers of one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    @asynccontextmanager
    async def __call__(
        self,
        server: ScriptedServer,
        *keys: str,
        attempts: int = 3,
        read_timeout_s: float = 10,
        credentials: Any = None,
        clock: Clock | None = None,
    ) -> AsyncIterator[tuple[Caller, list[float]]]:
        """Yield a caller, and its pauses, none of which takes time."""
        pauses: list[float] = []
        route = route_to(server.url, credentials or Rotating(*(keys or ("AKID",))))
        connection = Connection(
            attempts=attempts, read_timeout_s=read_timeout_s, connect_timeout_s=3
        )
        options: dict[str, Any] = {
            "attempts": attempts,
            "clock": clock or StoppedClock(),
            "pause": immediate(pauses.append),
            "rng": random.Random(1),  # noqa: S311  repeatable
        }
        if self.kind == "event loop":
            async with async_http(route, connection) as http:
                yield LeanCaller(SQS, route, http, **options), pauses
        else:
            with closing(Sockets(route, connection)) as sockets:
                yield InThread(LeanCaller(SQS, route, sockets, **options)), pauses
