"""HTTP of `jobs.aws.lean.caller` in an event loop, over connections that are kept open.

A request is one write, and its answer is read as it comes in, without a task or a stream between.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from headgate.jobs.aws.connections.connection import Connection
from headgate.jobs.aws.lean.answer import HttpAnswer
from headgate.jobs.aws.lean.arrivals import Arrivals
from headgate.jobs.aws.lean.http1 import AnswerReader, request_of
from headgate.jobs.aws.lean.http_failures import FAILURES, failed, failed_to_open
from headgate.jobs.aws.lean.route import KEEP_ALIVE_S, Route, ServiceEndpoint


@asynccontextmanager
async def async_http(route: Route, connection: Connection) -> AsyncIterator[AsyncHttp]:
    """Open a pool of connections to a route's endpoint, until the block ends."""
    http = AsyncHttp(route, connection)
    try:
        yield http
    finally:
        await http.close()


_SILENCE_S = 1.0
"""Silence from which on the network may be at fault: AWS answers within milliseconds."""


class AsyncHttp:
    """A `jobs.aws.lean.caller.Http` for an event loop, with a pool of connections to one endpoint.

    A request waits for one of the pool's places. It is then given up after the read timeout's
    silence, and is bounded as a whole by the connect and the read timeout together: an answer that
    arrives byte by byte is never silent. One that is cancelled closes its connection. If it has
    waited by then, those that were idle all the time are closed as well: what has cut off one of
    them, as a gateway that was replaced, has cut off all.

    Args:
        route: the endpoint, and TLS.
        connection: the timeouts, and the size of the pool.
    """

    def __init__(self, route: Route, connection: Connection) -> None:
        self._endpoint, self._tls = route.endpoint, route.tls
        self._url = str(route.endpoint)
        self._connect_timeout_s = connection.connect_timeout_s
        self._read_timeout_s = connection.read_timeout_s
        self._loop = asyncio.get_running_loop()
        self._places = asyncio.Semaphore(connection.pool)
        self._open = set[_Connection]()
        self._idle = deque[tuple[_Connection, float]]()
        """Each with the time at which it goes stale; the freshest is last."""
        self._closed = False

    async def post(self, head: bytes, body: bytes) -> HttpAnswer:
        """`Http.post`."""
        request = request_of(head, body)
        async with self._places:
            asked_s = self._loop.time()
            until_s = asked_s + self._connect_timeout_s + self._read_timeout_s
            connection = self._taken() or await self._opened()
            try:
                answer = await connection.exchange(request, until_s)
            except FAILURES as error:
                self._drop(connection, asked_s)
                raise failed(error, self._url) from error
            except BaseException:
                self._drop(connection, asked_s)
                raise
            self._keep(connection)
            return answer

    async def close(self) -> None:
        """Close all connections, and return once they are; requests under way fail. Idempotent."""
        self._closed = True
        while self._open:
            connection = next(iter(self._open))
            connection.abort()
            await connection.lost
            self._open.discard(connection)

    def _taken(self) -> _Connection | None:
        """Take the freshest idle connection, if it is still of use."""
        while self._idle:
            connection, stale_s = self._idle.pop()
            if self._loop.time() < stale_s and not connection.has_ended():
                return connection
            connection.abort()
        return None

    def _keep(self, connection: _Connection) -> None:
        """Put a connection back after its request, and close those that have gone stale."""
        now_s = self._loop.time()
        if connection.is_over or self._closed:
            connection.abort()
        else:
            self._idle.append((connection, now_s + KEEP_ALIVE_S))
        self._close_idle_since(now_s - KEEP_ALIVE_S)

    def _drop(self, connection: _Connection, asked_s: float) -> None:
        """Close a connection whose request came to nothing, and those that are no better."""
        connection.abort()
        if self._loop.time() - asked_s >= _SILENCE_S:
            self._close_idle_since(asked_s)

    def _close_idle_since(self, time_s: float) -> None:
        """Close the connections that have been idle since that time, or for longer."""
        while self._idle and self._idle[0][1] <= time_s + KEEP_ALIVE_S:
            self._idle.popleft()[0].abort()

    async def _opened(self) -> _Connection:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                connection = await self._connected()
        except OSError as error:
            raise failed_to_open(error, self._url) from error
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        if self._closed:
            connection.abort()
        return connection

    async def _connected(self) -> _Connection:
        host = self._endpoint.host
        opened = await _first_that_answers(self._endpoint, self._connect_timeout_s)
        connection = _Connection(self._loop, self._read_timeout_s, Arrivals(opened))
        try:
            await self._loop.create_connection(
                lambda: connection,
                sock=opened,
                ssl=self._tls,
                server_hostname=host if self._tls else None,
            )
        except BaseException:
            # Once TLS is up, asyncio only starts a graceful shutdown of up to 30 s, in which its
            # transport would keep the closed socket's number: the kernel gives it to the next.
            connection.abort()
            opened.close()
            raise
        return connection


class _Connection(asyncio.Protocol):
    """An open connection, for one request at a time.

    Args:
        loop: its event loop.
        read_timeout_s: seconds of silence after which a request is given up.
        arrivals: knows what has come in, and the event loop has yet to read.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, read_timeout_s: float, arrivals: Arrivals
    ) -> None:
        self._loop = loop
        self._read_timeout_s = read_timeout_s
        self._arrivals = arrivals
        self._transport: asyncio.Transport | None = None
        self._reader = AnswerReader()
        self._answer: asyncio.Future[HttpAnswer] | None = None
        """None while no answer is due."""
        self._heard_s = self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        """Outlasts its request, and looks after the next: most end long before their time does."""
        self.lost: asyncio.Future[None] = loop.create_future()
        """Done once the connection is closed."""
        self.is_over = False
        """True once the server has closed it, says so, or has sent more than it was asked for."""

    def has_ended(self) -> bool:
        """Return True if an idle connection is over, or has data that nobody asked for.

        The loop may have been busy since they came, and would take them for the next answer.
        """
        return self.is_over or self._arrivals.any()

    def exchange(self, request: bytes, until_s: float) -> asyncio.Future[HttpAnswer]:
        """Send a request; return the future of its answer, which fails if there is none by then."""
        answer = self._answer = self._loop.create_future()
        if self._transport is None or self.is_over:
            self._fail(ConnectionResetError("the connection is closed"))
            return answer
        self._reader = AnswerReader()
        self._heard_s, self._until_s = self._loop.time(), until_s
        if self._timer is None:
            self._watch()
        self._transport.write(request)
        return answer

    def abort(self) -> None:
        """Close it at once, without a word of TLS to the server. Idempotent."""
        self.is_over = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream: Any = transport  # uvloop's is a Transport in all but its class
        self._transport = stream

    def data_received(self, data: bytes) -> None:
        if (answer := self._answer) is None or answer.done():  # nobody asked for it, or still does
            self.abort()
            return
        try:
            found = self._reader.feed(data)
        except FAILURES as error:
            self._fail(error)
            return
        if found is None:
            self._heard_s = self._loop.time()
            return
        self._answer, self.is_over = None, self._reader.is_last
        answer.set_result(found)

    def eof_received(self) -> None:
        self.is_over = True
        if (answer := self._answer) is None or answer.done():
            return
        try:
            answer.set_result(self._reader.end())
        except FAILURES as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over, self._transport = True, None
        self._arrivals.close()
        self._fail(exc or ConnectionResetError("the connection is closed"))
        if self._timer is not None:
            self._timer.cancel()
        if not self.lost.done():
            self.lost.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def _watch(self) -> None:
        """Give a request up whose time is over, or look again when it would be."""
        self._timer = None
        if self._answer is None or self._answer.done():
            return
        due_s = min(self._until_s, self._heard_s + self._read_timeout_s)
        if self._loop.time() < due_s:
            self._timer = self._loop.call_at(due_s, self._watch)
        else:
            self._fail(TimeoutError("the time for the request is over"))


async def _first_that_answers(endpoint: ServiceEndpoint, timeout_s: float) -> socket.socket:
    """Connect to the first address that answers; each gets an equal part of the time left."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + timeout_s
    found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    failure = OSError("the host has no address")
    for number, (family, kind, protocol, _, address) in enumerate(found):
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        try:
            async with asyncio.timeout((until_s - loop.time()) / (len(found) - number)):
                await loop.sock_connect(opened, address)
        except OSError as error:
            opened.close()
            failure = error
        except BaseException:
            opened.close()
            raise
        else:
            return opened
    raise failure
