"""Transports of lean calls against a server of raw bytes: odd answers, time, connections, TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.jobs.aws.lean import async_http, sockets
from tests.support.ports import NOBODY_LISTENS, NOWHERE
from tests.support.raw_server import (
    BOUND_S,
    OK,
    TRANSPORTS,
    Post,
    RawServer,
    TransportKind,
    certificate,
    posting,
    says,
    server_context,
    serving,
)


@pytest.fixture(params=TRANSPORTS)
def kind(request: pytest.FixtureRequest) -> TransportKind:
    found: TransportKind = request.param
    return found


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
def test_an_answer_in_any_form_is_read_and_its_connection_used_again(
    kind: TransportKind, pieces: list[bytes]
) -> None:
    with serving(says(*pieces)) as server, posting(kind, server.url) as post:
        for _ in range(3):
            answer = post()
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
    kind: TransportKind,
    script: Callable[[socket.socket], None],
) -> None:
    with serving(script) as server, posting(kind, server.url) as post:
        for _ in range(2):
            assert post().body == b"{}"
    assert server.connections == 2


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (says(hangs_up=True), ConnectionClosedError),
        (says(b"HTTP/1.1 200 OK\r\nContent-Le", hangs_up=True), ConnectionClosedError),
        (says(OK[:-1], hangs_up=True), ConnectionClosedError),
        (says(b"secret, and no HTTP at all\r\n\r\n"), ConnectionClosedError),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"), HTTPClientError),
        (says(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 10_000 + b"\r\n"), HTTPClientError),
        (says(b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000), HTTPClientError),
        (says(b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000 + b"\r\n\r\n"), HTTPClientError),
        (
            says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsecret\r\n"),
            ConnectionClosedError,
        ),
    ],
    ids=[
        "none",
        "cut in its head",
        "cut in its body",
        "not HTTP",
        "too long",
        "too many headers",
        "too many interim ones",
        "too long a header",
        "a chunk without a length",
    ],
)
def test_what_is_no_answer_is_an_error_of_botocores(
    kind: TransportKind, script: Callable[[socket.socket], None], error: type[Exception]
) -> None:
    with serving(script, says(OK)) as server, posting(kind, server.url) as post:
        with pytest.raises(error) as caught:
            post()
        assert "secret" not in str(caught.value)
        assert post().body == b"{}"
    assert server.connections == 2


@pytest.mark.parametrize("kind", TRANSPORTS)
@settings(max_examples=10)  # tests/unit/jobs/aws/lean/test_http1.py has more of them
@given(noise=st.binary(max_size=200))
def test_random_bytes_are_an_answer_or_an_error_of_botocores(
    kind: TransportKind, noise: bytes
) -> None:
    with (
        serving(says(noise, hangs_up=True)) as server,
        posting(kind, server.url) as post,
        suppress(HTTPClientError),
    ):
        post()


# --- time ----------------------------------------------------------------------------------------


SLOW = b'{"slow": 1}'


def is_asked_slowly(server: RawServer) -> bool:
    """Return True once the request has come whose answer is to be slow.

    One of `opened`, given up before, may still come after it.
    """
    return any(request.endswith(SLOW) for request in server.requests)


def opened(post: Post) -> None:
    """Open a connection; a busy machine may take several tries of a tenth of a second."""
    while True:
        with suppress(ConnectTimeoutError, ReadTimeoutError):
            post()
            return


@pytest.mark.parametrize(
    ("start", "drop"),
    [(b"HTTP/1.1 200 OK\r\na: ", b"b"), (b"HTTP/1.1 200 OK\r\n\r\n", b" ")],
    ids=["a head", "a body"],
)
def test_an_answer_that_drips_in_is_given_up_in_time(
    kind: TransportKind, start: bytes, drop: bytes
) -> None:
    def drip(connection: socket.socket) -> None:
        if not is_asked_slowly(server):
            connection.sendall(OK)
            return
        connection.sendall(start)
        while not given_up.wait(0.005):
            connection.sendall(drop)

    given_up = threading.Event()
    with serving(drip) as server, posting(kind, server.url, timeout_s=0.1) as post:
        opened(post)
        with pytest.raises(ReadTimeoutError):
            post(SLOW)
        given_up.set()


@pytest.mark.parametrize("start", [b"", OK[:-1]], ids=["no answer", "no end of it"])
def test_a_silent_server_is_given_up_in_time(kind: TransportKind, start: bytes) -> None:
    released = threading.Event()

    def fall_silent(connection: socket.socket) -> None:
        if not is_asked_slowly(server):
            connection.sendall(OK)
            return
        connection.sendall(start)
        assert released.wait(BOUND_S)

    with serving(fall_silent) as server, posting(kind, server.url, timeout_s=0.1) as post:
        opened(post)
        with pytest.raises(ReadTimeoutError):
            post(SLOW)
        released.set()


def test_a_server_that_takes_no_connection_is_given_up_in_time(kind: TransportKind) -> None:
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
                posting(kind, url, timeout_s=0.05) as post,
                pytest.raises(ConnectTimeoutError),
            ):
                post()
        finally:
            for each in waiting:
                each.close()


def test_an_endpoint_that_is_down_or_unknown_is_named(kind: TransportKind) -> None:
    for url in (f"{NOWHERE}/", "http://nowhere.invalid:1/"):
        with (
            posting(kind, url, timeout_s=BOUND_S * 4) as post,  # name servers may take their time
            pytest.raises(EndpointConnectionError, match=url),
        ):
            post()


def test_a_server_without_tls_is_an_error_of_tls(kind: TransportKind) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        answering = threading.Thread(target=_answer_hello, args=[plain], daemon=True)
        answering.start()
        url = f"https://127.0.0.1:{plain.getsockname()[1]}/"
        with (
            posting(kind, url, tls=ssl.create_default_context()) as post,
            pytest.raises(SSLError),
        ):
            post()
        answering.join()


def _answer_hello(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


# --- connections ---------------------------------------------------------------------------------


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    kind: TransportKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (async_http, sockets):
        monkeypatch.setattr(module, "KEEP_ALIVE_S", 0)
    with serving(says(OK)) as server, posting(kind, server.url) as post:
        for _ in range(3):
            post()
    assert server.connections == 3


def test_a_connection_is_closed_as_soon_as_it_is_no_longer_of_use(kind: TransportKind) -> None:
    last = says(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    with serving(last, says(b"no HTTP"), says(OK)) as server, posting(kind, server.url) as post:
        post()
        with suppress(HTTPClientError):
            post()
        server.until_ended(2)


def test_with_the_transport_its_connections_are_closed(kind: TransportKind) -> None:
    with serving(says(OK)) as server:
        with posting(kind, server.url) as post:
            post()
        server.until_ended(1)


def test_a_large_request_and_a_large_answer_go_through_whole(kind: TransportKind) -> None:
    body = b"x" * 3_000_000 + b"}"
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with serving(says(answer)) as server, posting(kind, server.url) as post:
        assert post(body).body == body
    assert server.requests[0].endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])  # uvloop asks the system by itself
def test_of_several_addresses_the_first_that_answers_is_taken(
    kind: TransportKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(says(OK)) as server:
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))
            for port in (NOBODY_LISTENS, server.port)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with posting(kind, "http://sqs.example/") as post:
            assert post().body == b"{}"


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("certificate"))


def test_over_tls_connections_are_kept_and_closed_as_well(
    kind: TransportKind, certified: Path
) -> None:
    trusting = ssl.create_default_context(cafile=str(certified))
    scripts = [says(OK), says(OK), says(OK, hangs_up=True), says(OK)]
    with serving(*scripts, tls=server_context(certified)) as server:
        with posting(kind, server.url, tls=trusting) as post:
            assert [post().body for _ in range(3)] == [b"{}"] * 3
            assert server.connections == 1
            server.until_ended(1)
            with suppress(ConnectionClosedError):  # the end may not have been noticed yet
                post()
            assert post().body == b"{}"
        server.until_ended(2)
    assert server.connections == 2


def test_a_certificate_that_nobody_vouches_for_is_an_error_of_tls(
    kind: TransportKind, certified: Path
) -> None:
    with (
        serving(says(OK), tls=server_context(certified)) as server,
        posting(kind, server.url, tls=ssl.create_default_context()) as post,
        pytest.raises(SSLError, match="certificate"),
    ):
        post()
    assert not server.requests


def test_a_certificate_of_another_host_is_an_error_of_tls(
    kind: TransportKind, tmp_path: Path
) -> None:
    elsewhere = certificate(tmp_path, host="192.0.2.1")
    trusting = ssl.create_default_context(cafile=str(elsewhere))
    with (
        serving(says(OK), tls=server_context(elsewhere)) as server,
        posting(kind, server.url, tls=trusting) as post,
        pytest.raises(SSLError, match=r"127\.0\.0\.1"),
    ):
        post()
    assert not server.requests
