"""`Sockets` against a server of raw bytes: odd answers, stale connections, threads and forks."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.aws.connections.connection import Connection
from headgate.jobs.aws.lean import sockets as module
from headgate.jobs.aws.lean.answer import HttpAnswer
from headgate.jobs.aws.lean.route import Route, ServiceEndpoint
from headgate.jobs.aws.lean.sigv4 import Credentials
from headgate.jobs.aws.lean.sockets import Sockets
from headgate.jobs.core.immediate import drive

_BOUND_S = 30.0

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class RawServer:
    """Answers each request with the next of its scripts, and the last for ever."""

    scripts: list[Callable[[socket.socket], None]]
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def serve(self, listener: socket.socket) -> None:
        """Accept connections until the listener is closed, each in a thread."""
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with self._changed:
                    self.connections += 1
                threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while request := _request_from(connection):
                with self._changed:
                    self.requests.append(request)
                    script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                    self._changed.notify_all()
                script(connection)

    def until(self, count: int) -> None:
        """Wait for that many requests."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, _BOUND_S)


def _request_from(connection: socket.socket) -> bytes:
    """Read a request whose body is empty or ends with a brace."""
    data = b""
    while b"\r\n\r\n" not in data or not data.endswith((b"\r\n\r\n", b"}")):
        if not (piece := connection.recv(65536)):
            return b""
        data += piece
    return data


@contextmanager
def serving(*scripts: Callable[[socket.socket], None]) -> Iterator[RawServer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = RawServer(list(scripts), listener.getsockname()[1])
        thread = threading.Thread(target=server.serve, args=[listener], daemon=True)
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)  # ends accept


def says(*pieces: bytes, hangs_up: bool = False) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)
        if hangs_up:
            connection.shutdown(socket.SHUT_RDWR)

    return answer


async def _no_credentials() -> Credentials:
    raise NotImplementedError


def sockets_to(
    url: str, *, tls: ssl.SSLContext | None = None, pool: int = 5, timeout_s: float = 10
) -> Sockets:
    route = Route(
        endpoint=ServiceEndpoint.of(urlsplit(url)),
        region="eu-central-1",
        user_agent="headgate",
        credentials=_no_credentials,
        tls=tls,
    )
    connection = Connection(pool=pool, connect_timeout_s=timeout_s, read_timeout_s=timeout_s)
    return Sockets(route, connection)


def post(sockets: Sockets, body: bytes = b"{}") -> HttpAnswer:
    return drive(sockets.post({"host": "here", "x-amz-target": "AmazonSQS.Any"}, body))


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pieces",
    [
        [OK],
        [bytes([byte]) for byte in OK],
        [b"HTTP/1.1 100 Continue\r\n\r\n", OK],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"],
        [b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}"],
    ],
    ids=["whole", "byte by byte", "after a 100", "chunked", "bare line feeds"],
)
def test_an_answer_in_any_form_is_read_and_its_connection_used_again(pieces: list[bytes]) -> None:
    with serving(says(*pieces)) as server, closing(sockets_to(server.url)) as sockets:
        for _ in range(3):
            answer = post(sockets)
            assert (answer.status, answer.body) == (200, b"{}")
    assert server.connections == 1
    assert server.requests[0].startswith(b"POST / HTTP/1.1\r\nhost: here\r\n")
    assert server.requests[0].endswith(b"content-length: 2\r\n\r\n{}")


@pytest.mark.parametrize(
    "script",
    [
        says(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), hangs_up=True),
        says(OK.replace(b"1.1", b"1.0"), hangs_up=True),
        says(b"HTTP/1.1 200 OK\r\n\r\n{}", hangs_up=True),
        says(OK + b"more than was asked for"),
    ],
    ids=["said to close", "HTTP/1.0", "no length", "more than it should"],
)
def test_a_connection_that_is_over_is_not_used_again(
    script: Callable[[socket.socket], None],
) -> None:
    with serving(script) as server, closing(sockets_to(server.url)) as sockets:
        for _ in range(2):
            assert post(sockets).body == b"{}"
    assert server.connections == 2


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (says(hangs_up=True), ConnectionClosedError),
        (says(OK[:-1], hangs_up=True), ConnectionClosedError),
        (says(b"secret, and no HTTP at all\r\n\r\n"), ConnectionClosedError),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"), HTTPClientError),
        (says(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n"), HTTPClientError),
        (says(b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000 + b"\r\n\r\n"), HTTPClientError),
        (
            says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsecret\r\n"),
            ConnectionClosedError,
        ),
    ],
    ids=[
        "none",
        "cut in its body",
        "not HTTP",
        "too long",
        "too many headers",
        "too long a header",
        "a chunk without a length",
    ],
)
def test_what_is_no_answer_is_an_error_of_botocores(
    script: Callable[[socket.socket], None], error: type[Exception]
) -> None:
    with serving(script, says(OK)) as server, closing(sockets_to(server.url)) as sockets:
        with pytest.raises(error) as caught:
            post(sockets)
        assert "secret" not in str(caught.value)
        assert post(sockets).body == b"{}"
    assert server.connections == 2


def test_an_answer_cut_off_in_its_head_ends_the_connection() -> None:
    cut = says(b"HTTP/1.1 200 OK\r\nContent-Le", hangs_up=True)
    with serving(cut, says(OK)) as server, closing(sockets_to(server.url)) as sockets:
        assert [post(sockets).body for _ in range(2)] == [b"", b"{}"]


@given(st.binary(max_size=200))
def test_random_bytes_are_an_answer_or_an_error_of_botocores(noise: bytes) -> None:
    with (
        serving(says(noise, hangs_up=True)) as server,
        closing(sockets_to(server.url)) as sockets,
        suppress(HTTPClientError),
    ):
        post(sockets)


def test_a_header_with_a_line_break_is_not_sent() -> None:
    with serving(says(OK)) as server, closing(sockets_to(server.url)) as sockets:
        for value in ("a\r\nb: c", "a\nb", "a\rb"):
            with pytest.raises(HTTPClientError):
                drive(sockets.post({"host": "here", "x-amz-security-token": value}, b""))
    assert server.connections == 0


# --- time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "drop"),
    [(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), (b"HTTP/1.1 200 OK\r\n\r\n", b" ")],
    ids=["a head", "a body"],
)
def test_an_answer_that_drips_in_is_given_up_in_time(start: bytes, drop: bytes) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(drop)

    with (
        serving(drip) as server,
        closing(sockets_to(server.url, timeout_s=0.1)) as sockets,
        pytest.raises(ReadTimeoutError),
    ):
        post(sockets)


def test_a_silent_server_is_given_up_in_time() -> None:
    released = threading.Event()
    with (
        serving(lambda _: assert_released(released)) as server,
        closing(sockets_to(server.url, timeout_s=0.05)) as sockets,
    ):
        with pytest.raises(ReadTimeoutError):
            post(sockets)
        released.set()


def assert_released(released: threading.Event) -> None:
    assert released.wait(_BOUND_S)


def test_a_server_that_takes_no_connection_is_given_up_in_time() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        url = f"http://127.0.0.1:{full.getsockname()[1]}/"
        waiting = [socket.socket() for _ in range(3)]
        try:
            for each in waiting:  # fills the queue of connections to accept
                each.setblocking(False)
                with suppress(BlockingIOError):
                    each.connect(full.getsockname())
            with (
                closing(sockets_to(url, timeout_s=0.05)) as sockets,
                pytest.raises(ConnectTimeoutError),
            ):
                post(sockets)
        finally:
            for each in waiting:
                each.close()


def test_an_endpoint_that_is_down_or_unknown_is_named() -> None:
    with serving(says(OK)) as server:
        pass
    for url in (server.url, "http://nowhere.invalid:1/"):
        with (
            closing(sockets_to(url)) as sockets,
            pytest.raises(EndpointConnectionError, match=url),
        ):
            post(sockets)


def test_a_server_without_tls_is_an_error_of_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        answering = threading.Thread(target=_answer_hello, args=[plain], daemon=True)
        answering.start()
        url = f"https://127.0.0.1:{plain.getsockname()[1]}/"
        with (
            closing(sockets_to(url, tls=ssl.create_default_context())) as sockets,
            pytest.raises(SSLError),
        ):
            post(sockets)
        answering.join()


def _answer_hello(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


# --- connections ---------------------------------------------------------------------------------


def test_a_connection_that_the_server_closed_while_idle_is_not_used_again() -> None:
    closed = threading.Event()

    def answer_once(connection: socket.socket) -> None:
        connection.sendall(OK)
        connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    with serving(answer_once, says(OK)) as server, closing(sockets_to(server.url)) as sockets:
        post(sockets)
        assert closed.wait(_BOUND_S)
        [[connection, _]] = sockets._pool()._idle
        assert connection._watch.select(_BOUND_S), "its end is on the way"
        post(sockets)
    assert len(server.requests) == 2, "nothing was sent on the closed connection"


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEEP_ALIVE_S", 0)
    with serving(says(OK)) as server, closing(sockets_to(server.url)) as sockets:
        for _ in range(3):
            post(sockets)
    assert server.connections == 3


def test_threads_never_have_more_connections_than_the_pool() -> None:
    with (
        serving(says(OK)) as server,
        closing(sockets_to(server.url, pool=3)) as sockets,
        ThreadPoolExecutor(12) as threads,
    ):
        answers = list(threads.map(lambda _: post(sockets), range(200)))
    assert {answer.body for answer in answers} == {b"{}"}
    assert len(server.requests) == 200
    assert server.connections <= 3


def test_each_thread_gets_the_answer_to_its_own_request() -> None:
    def echo(connection: socket.socket) -> None:
        body = server.requests[-1].partition(b"\r\n\r\n")[2]
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    with serving(echo) as server, closing(sockets_to(server.url, pool=1)) as sockets:
        bodies = [b'{"n": %d}' % number for number in range(100)]
        with ThreadPoolExecutor(8) as threads:
            answers = threads.map(lambda body: post(sockets, body).body, bodies)
            assert list(answers) == bodies


def test_after_closing_a_request_opens_a_connection_anew() -> None:
    with serving(says(OK)) as server, closing(sockets_to(server.url)) as sockets:
        post(sockets)
        sockets.close()
        sockets.close()
        post(sockets)
    assert server.connections == 2


def test_a_connection_in_use_while_all_are_closed_is_closed_after_its_request() -> None:
    released = threading.Event()

    def late(connection: socket.socket) -> None:
        assert_released(released)
        connection.sendall(OK)

    with serving(late) as server, closing(sockets_to(server.url)) as sockets:
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(post, sockets)
            server.until(1)
            pool = sockets._pool()
            sockets.close()
            released.set()
            assert asking.result(_BOUND_S).body == b"{}"
        assert not pool._idle


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_connections_of_its_own() -> None:
    with serving(says(OK)) as server, closing(sockets_to(server.url)) as sockets:
        post(sockets)
        pool = sockets._pool()
        with pool._lock:  # as if another thread of the parent had it
            child = os.fork()
            if not child:
                status = 1
                with suppress(BaseException):
                    status = 0 if post(sockets).body == b"{}" else 1
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert status == 0
        assert server.connections == 2, "the child has one of its own"
        post(sockets)
    assert server.connections == 2, "and left the parent's alone"
