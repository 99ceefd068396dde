"""One client's connection through the proxy.

Requests without a fault are forwarded by callbacks alone, each message in one piece, to add little
to measured latencies. A fault takes a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import assert_never, cast

from tests.support.proxy import wire
from tests.support.proxy.faults import (
    Cut,
    Delay,
    Drop,
    FailEntries,
    Fault,
    Hold,
    Refuse,
    Say,
    Trickle,
    refusal,
)
from tests.support.proxy.traffic import Traffic

_OnAnswer = Callable[[bytes], None]


class Connection(asyncio.Protocol):
    """A client's connection, with a server connection of its own; one request at a time.

    Losing either of the two closes the other, and cancels the request under way.
    """

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._loop = asyncio.get_running_loop()
        self._reader = wire.MessageReader()
        self._busy = False
        self._client: asyncio.Transport | None = None
        self._upstream: asyncio.Transport | None = None
        self._waiting = b""
        """The request that waits for the connection to the server."""
        self._action = ""
        """The action of the request under way."""
        self._on_answer: _OnAnswer = self._reply
        self._opening: asyncio.Task[None] | None = None
        self._fault: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = cast("asyncio.Transport", transport)
        self._traffic.connections.add(self)
        if self._traffic.is_ending:
            self.end()
            return
        self._opening = self._traffic.start(self._open(), "proxy-open")

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._next()
        if self._reader.is_kept_waiting and self._client is not None:
            self._client.write(wire.CONTINUE)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self._client = None
        self.end()
        self._forget()

    def upstream_lost(self) -> None:
        """Handle that the server has closed its side, or we have."""
        self._upstream = None
        if self._client is not None:
            self._client.close()  # what was answered before still arrives
        self._forget()

    def end(self) -> None:
        """Close both sides at once."""
        for task in (self._opening, self._fault):
            if task is not None:
                task.cancel()
        for side in (self._client, self._upstream):
            if side is not None:
                side.abort()

    def answered(self, answer: bytes) -> None:
        """Handle the server's answer to the request under way."""
        self._traffic.count(self._traffic.forwarded, self._action)
        if self._traffic.on_answer is not None:
            self._traffic.on_answer(self._action, answer)
        self._on_answer(answer)

    def _next(self) -> None:
        if self._busy or (request := self._reader.take()) is None:
            return
        traffic = self._traffic
        self._busy, self._action = True, wire.action(request)
        if traffic.on_request is not None:
            traffic.on_request(request)
        traffic.count(traffic.requests, self._action)
        if (fault := traffic.injections.next_for(self._action)) is not None:
            traffic.count(traffic.faults, self._action)
            self._fault = traffic.start(self._misbehave(fault, request), "proxy-fault")
        elif traffic.latency_s > 0:
            self._loop.call_later(traffic.latency_s, self._send, request)
        else:
            self._send(request)

    def _send(self, request: bytes) -> None:
        if self._upstream is None:
            self._waiting = request
        else:
            self._upstream.write(request)

    def _reply(self, answer: bytes) -> None:
        if self._client is not None:
            self._client.write(answer)
        self._busy = False
        self._next()

    async def _ask(self, request: bytes) -> bytes:
        """Return the server's answer without forwarding it."""
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._on_answer = answer.set_result
        self._send(request)
        try:
            return await answer
        finally:
            self._on_answer = self._reply

    async def _misbehave(self, fault: Fault, request: bytes) -> None:
        await asyncio.sleep(self._traffic.latency_s)
        match fault:
            case Drop(forward=forward):
                if forward:
                    await self._ask(request)
                if self._client is not None:
                    self._client.abort()
            case Say(answer=answer, forward=forward):
                if forward:
                    await self._ask(request)
                self._hang_up(answer)
            case Cut(part=part):
                answer = await self._ask(request)
                self._hang_up(answer[: int(len(answer) * part)])
            case Trickle(pause_s=pause_s):
                await self._trickle(await self._ask(request), pause_s)
            case _:
                self._reply(await self._answer(fault, request))

    def _hang_up(self, last: bytes) -> None:
        """Send these bytes and close the client's connection."""
        if self._client is not None:
            self._client.write(last)
            self._client.close()

    async def _trickle(self, answer: bytes, pause_s: float) -> None:
        for at in range(len(answer) - 1):
            if self._client is None:
                return
            self._client.write(answer[at : at + 1])
            await asyncio.sleep(pause_s)
        self._reply(answer[-1:])

    async def _answer(self, fault: Refuse | Delay | Hold | FailEntries, request: bytes) -> bytes:
        """Send a complete answer, after which the connection stays open."""
        match fault:
            case Refuse():
                return refusal(fault)
            case Delay(seconds=seconds):
                answer = await self._ask(request)
                await asyncio.sleep(seconds)
                return answer
            case Hold(forward=True, release=release):
                answer = await self._ask(request)
                await release.wait()
                return answer
            case Hold(release=release):
                await release.wait()
                return await self._ask(request)
            case FailEntries():
                return await self._ask_in_part(fault, request)
            case _:
                assert_never(fault)

    async def _ask_in_part(self, fault: FailEntries, request: bytes) -> bytes:
        batch, failures = fault.split(wire.body(request))
        answer = wire.json_response(HTTPStatus.OK, {})
        if batch["Entries"]:
            answer = await self._ask(wire.with_body(request, batch))
            if wire.status(answer) != HTTPStatus.OK:
                return answer
        return wire.json_response(HTTPStatus.OK, fault.join(wire.body(answer), failures))

    async def _open(self) -> None:
        try:
            self._upstream, _ = await self._loop.create_connection(
                lambda: _Upstream(self), self._traffic.host, self._traffic.port
            )
        except OSError:  # the server has gone: close the client's connection as well
            if self._client is not None:
                self._client.abort()
            return
        if self._waiting:
            self._upstream.write(self._waiting)

    def _forget(self) -> None:
        if self._client is None and self._upstream is None:
            self._traffic.forget(self)


class _Upstream(asyncio.Protocol):
    """The side to the server."""

    def __init__(self, owner: Connection) -> None:
        self._owner = owner
        self._reader = wire.MessageReader()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (answer := self._reader.take()) is not None:
            if wire.status(answer) != HTTPStatus.CONTINUE:  # the body has come with the head
                self._owner.answered(answer)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self._owner.upstream_lost()
