"""`Sockets` on its own, with threads and forks; `test_posting` has what all transports share."""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from types import SimpleNamespace

import pytest

from headgate.jobs.aws.lean import sockets as sockets_module
from headgate.jobs.aws.lean.answer import HttpAnswer
from headgate.jobs.aws.lean.sockets import Sockets
from headgate.jobs.core.immediate import drive
from tests.support.raw_server import BOUND_S, HEAD, OK, route_and_connection, says, serving


def sockets_to(url: str, *, pool: int = 5) -> Sockets:
    return Sockets(*route_and_connection(url, pool=pool))


def post(sockets: Sockets, body: bytes = b"{}") -> HttpAnswer:
    return drive(sockets.post(HEAD, body))


def test_a_connection_that_the_server_closed_while_idle_is_not_used_again() -> None:
    closed = threading.Event()

    def answer_once(connection: socket.socket) -> None:
        connection.sendall(OK)
        connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    with serving(answer_once, says(OK)) as server, closing(sockets_to(server.url)) as sockets:
        post(sockets)
        assert closed.wait(BOUND_S)
        [[connection, _]] = sockets._pool()._idle
        assert connection.arrivals.any(BOUND_S), "its end is on the way"
        post(sockets)
    assert len(server.requests) == 2, "nothing was sent on the closed connection"


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
        assert released.wait(BOUND_S)
        connection.sendall(OK)

    with serving(late) as server, closing(sockets_to(server.url)) as sockets:
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(post, sockets)
            server.until(1)
            pool = sockets._pool()
            sockets.close()
            released.set()
            assert asking.result(BOUND_S).body == b"{}"
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


class _SlowReader(socket.socket):
    """The client's end of a TLS connection, of which the server takes a record a second."""

    now_s = 0.0

    def send(self, data: object, *_flags: int) -> int:
        _SlowReader.now_s += 1.0
        return min(16_384, len(memoryview(data)))  # type: ignore[arg-type]

    def sendall(self, data: object, *_flags: int) -> None:
        """Send as `ssl.SSLSocket` does, each of whose records may take the whole timeout."""
        left = memoryview(data)  # type: ignore[arg-type]
        while left:
            left = left[self.send(left) :]


def test_a_request_that_the_server_reads_slowly_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_SlowReader, "now_s", 0.0)
    ours, theirs = socket.socketpair()
    with ours, theirs, _SlowReader(fileno=ours.detach()) as slow:
        clock = SimpleNamespace(monotonic=lambda: _SlowReader.now_s)
        monkeypatch.setattr(sockets_module, "time", clock)
        connection = sockets_module._Connection(slow, read_timeout_s=10.0)
        with pytest.raises(TimeoutError):
            connection.exchange(b"x" * 2**20, until_s=20.0)
        connection.close()
    assert _SlowReader.now_s == 20.0
