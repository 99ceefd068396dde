"""`AsyncHttp` on its own: cancellation, ends, and its pool; `test_posting` has the rest."""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from headgate.jobs.aws.lean import async_http
from headgate.jobs.aws.lean.async_http import AsyncHttp, _Connection
from tests.support.raw_server import (
    BOUND_S,
    HEAD,
    OK,
    RawServer,
    Run,
    TransportKind,
    certificate,
    in_loop,
    route_and_connection,
    says,
    server_context,
    serving,
)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    kind: TransportKind = request.param
    with in_loop(kind) as run:
        yield run


def http_to(server: RawServer, *, pool: int = 5, tls: ssl.SSLContext | None = None) -> AsyncHttp:
    return AsyncHttp(*route_and_connection(server.url, pool=pool, tls=tls))


@contextmanager
def silent() -> Iterator[RawServer]:
    """Serve without an answer until the block ends."""
    released = threading.Event()
    with serving(lambda _: _wait(released)) as server:
        yield server
        released.set()


def _wait(released: threading.Event) -> None:
    assert released.wait(BOUND_S)


def test_a_request_that_is_cancelled_closes_its_connection_and_frees_its_place(run: Run) -> None:
    async def cancel(server: RawServer) -> None:
        http = http_to(server, pool=1)
        for number in (1, 2):
            asking = asyncio.create_task(http.post(HEAD, b"{}"))
            await asyncio.to_thread(server.until, number)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        await http.close()

    with silent() as server:
        run(cancel(server))
    assert server.connections == 2


def test_a_request_cancelled_as_tls_is_set_up_leaves_no_transport_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    numbers: list[int] = []

    async def cancel(server: RawServer) -> None:
        loop, made = asyncio.get_running_loop(), _Connection.connection_made
        http = http_to(server, tls=ssl.create_default_context(cafile=certified))
        first = asyncio.create_task(http.post(HEAD, b"{}"))

        def make_and_cancel(connection: _Connection, transport: asyncio.BaseTransport) -> None:
            monkeypatch.setattr(_Connection, "connection_made", made)
            made(connection, transport)
            numbers.append(transport.get_extra_info("socket").fileno())
            loop.call_soon(first.cancel)

        monkeypatch.setattr(_Connection, "connection_made", make_and_cancel)
        with pytest.raises(asyncio.CancelledError):
            await first
        [number] = numbers
        loop.remove_reader(number)  # refused for the number of a transport that is open
        assert (await http.post(HEAD, b"{}")).body == b"{}"
        await http.close()

    certified = certificate(tmp_path)
    context = server_context(certified)
    context.num_tickets = 0  # nothing that comes in has asyncio notice that the socket is closed
    with serving(says(OK), tls=context) as server, in_loop("asyncio") as run:
        run(cancel(server))
        server.until_ended(2)
    assert len(server.requests) == 1


def test_a_request_under_way_fails_when_all_is_closed(run: Run) -> None:
    async def close(server: RawServer) -> None:
        http = http_to(server)
        asking = asyncio.create_task(http.post(HEAD, b"{}"))
        await asyncio.to_thread(server.until, 1)
        await http.close()
        await http.close()
        with pytest.raises(ConnectionClosedError):
            await asking

    with silent() as server:
        run(close(server))


def test_a_connection_that_opens_while_all_is_closed_is_closed_as_well(run: Run) -> None:
    async def close(server: RawServer) -> None:
        http = http_to(server)
        asking = asyncio.create_task(http.post(HEAD, b"{}"))
        await asyncio.sleep(0)  # it asks for the address now
        await http.close()
        with pytest.raises(ConnectionClosedError):
            await asking

    with serving(says(OK)) as server:
        run(close(server))
        server.until_ended(1)
    assert not server.requests


def test_a_connection_that_the_server_closed_while_idle_is_not_used_again(run: Run) -> None:
    async def post_twice(server: RawServer) -> None:
        http = http_to(server)
        await http.post(HEAD, b"{}")
        [connection] = http._open
        await connection.lost
        assert (await http.post(HEAD, b"{}")).body == b"{}"
        await http.close()

    with serving(says(OK, hangs_up=True), says(OK)) as server:
        run(post_twice(server))
    assert len(server.requests) == 2, "nothing was sent on the closed connection"


@pytest.mark.parametrize("waits_s", [0.0, math.inf])
def test_silence_of_one_connection_closes_those_that_were_idle_meanwhile(
    run: Run, waits_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    async def post(server: RawServer) -> None:
        http = http_to(server)
        await asyncio.gather(http.post(HEAD, b"{}"), http.post(HEAD, b"{}"))
        asking = asyncio.create_task(http.post(HEAD, b"{}"))
        await asyncio.to_thread(server.until, 3)
        monkeypatch.setattr(async_http, "_SILENCE_S", waits_s)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        released.set()
        assert (await http.post(HEAD, b"{}")).body == b"{}"
        await http.close()

    both = threading.Barrier(2)

    def together(connection: socket.socket) -> None:
        both.wait(BOUND_S)
        says(OK)(connection)

    scripts = [together, together, lambda _: _wait(released), says(OK)]
    with serving(*scripts) as server:
        run(post(server))
    assert server.connections == (3 if waits_s == 0 else 2)


def test_tasks_never_have_more_connections_than_the_pool(run: Run) -> None:
    async def post_many(server: RawServer) -> list[bytes]:
        http = http_to(server, pool=3)
        answers = await asyncio.gather(*(http.post(HEAD, b"{}") for _ in range(60)))
        await http.close()
        return [answer.body for answer in answers]

    with serving(says(OK)) as server:
        assert run(post_many(server)) == [b"{}"] * 60
    assert server.connections <= 3


def test_each_task_gets_the_answer_to_its_own_request(run: Run) -> None:
    def echo(connection: Any) -> None:
        body = server.requests[-1].partition(b"\r\n\r\n")[2]
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async def post_many(server: RawServer, bodies: list[bytes]) -> list[bytes]:
        http = http_to(server, pool=1)
        answers = await asyncio.gather(*(http.post(HEAD, body) for body in bodies))
        await http.close()
        return [answer.body for answer in answers]

    bodies = [b'{"n": %d}' % number for number in range(30)]
    with serving(echo) as server:
        assert run(post_many(server, bodies)) == bodies


def test_what_comes_in_unasked_closes_an_idle_connection(run: Run) -> None:
    told = threading.Event()

    def answer_and_talk_on(connection: Any) -> None:
        connection.sendall(OK)
        assert told.wait(BOUND_S)
        connection.sendall(OK)

    async def post(server: RawServer) -> None:
        http = http_to(server)
        await http.post(HEAD, b"{}")
        [connection] = http._open
        told.set()
        await connection.lost
        assert not http._open
        await http.close()

    with serving(answer_and_talk_on) as server:
        run(post(server))


@pytest.mark.parametrize("beyond", [OK, b"garbage", b""], ids=["an answer", "garbage", "its end"])
def test_what_came_in_while_the_loop_was_busy_is_no_answer_to_the_next_request(
    run: Run, beyond: bytes
) -> None:
    said = threading.Event()

    def answer_and_talk_on(connection: Any) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst")
        assert asked.wait(BOUND_S)
        connection.sendall(beyond)
        connection.shutdown(socket.SHUT_WR)
        said.set()

    async def post_twice(server: RawServer) -> None:
        http = http_to(server)
        assert (await http.post(HEAD, b"{}")).body == b"first"
        asked.set()
        assert said.wait(BOUND_S)  # the loop stands still, and hears nothing of it
        assert (await http.post(HEAD, b"{}")).body == b"second"
        await http.close()

    asked = threading.Event()
    second = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"
    with serving(answer_and_talk_on, says(second)) as server:
        run(post_twice(server))
    assert len(server.requests) == 2, "nothing was sent on the connection that was out of step"
