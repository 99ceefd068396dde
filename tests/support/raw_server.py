"""A server of raw bytes in AWS's place, and the lean transports that call it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from headgate.jobs.aws.connections.connection import Connection
from headgate.jobs.aws.lean.answer import HttpAnswer
from headgate.jobs.aws.lean.async_http import AsyncHttp, async_http
from headgate.jobs.aws.lean.http1 import head_of
from headgate.jobs.aws.lean.route import Route, ServiceEndpoint
from headgate.jobs.aws.lean.sigv4 import Credentials
from headgate.jobs.aws.lean.sockets import Sockets
from headgate.jobs.core.immediate import drive

T = TypeVar("T")

BOUND_S = 30.0

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

Script = Callable[[socket.socket], None]


@dataclass
class RawServer:
    """Answers each request with the next of its scripts, and the last for ever."""

    scripts: list[Script]
    port: int = 0
    tls: ssl.SSLContext | None = None
    connections: int = 0
    ended: int = 0
    """Number of connections whose client has hung up, or that a script has."""
    requests: list[bytes] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/"

    def serve(self, listener: socket.socket) -> None:
        """Accept connections until the listener is closed, each in a thread."""
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with self._changed:
                    self.connections += 1
                threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), self._shaken(connection) as shaken:
            while request := _request_from(shaken):
                with self._changed:
                    self.requests.append(request)
                    script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                    self._changed.notify_all()
                script(shaken)
        with self._changed:
            self.ended += 1
            self._changed.notify_all()

    def _shaken(self, connection: socket.socket) -> socket.socket:
        if self.tls is None:
            return connection
        with suppress(OSError):
            return self.tls.wrap_socket(connection, server_side=True)
        connection.close()
        return connection

    def until(self, count: int) -> None:
        """Wait for that many requests."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, BOUND_S)

    def until_ended(self, count: int) -> None:
        """Wait for the ends of that many connections."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.ended >= count, BOUND_S)


def _request_from(connection: socket.socket) -> bytes:
    """Read a request whose body is empty or ends with a brace."""
    data = b""
    while b"\r\n\r\n" not in data or not data.endswith((b"\r\n\r\n", b"}")):
        if not (piece := connection.recv(65536)):
            return b""
        data += piece
    return data


@contextmanager
def serving(*scripts: Script, tls: ssl.SSLContext | None = None) -> Iterator[RawServer]:
    """Serve until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = RawServer(list(scripts), listener.getsockname()[1], tls)
        thread = threading.Thread(target=server.serve, args=[listener], daemon=True)
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)  # ends accept


def says(*pieces: bytes, hangs_up: bool = False) -> Script:
    """Return a script that answers in these pieces."""

    def answer(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)
        if hangs_up:
            connection.shutdown(socket.SHUT_RDWR)

    return answer


async def _no_credentials() -> Credentials:
    raise NotImplementedError("the server is called directly, and nothing is signed")


def route_and_connection(
    url: str, *, tls: ssl.SSLContext | None = None, pool: int = 5, timeout_s: float = 10
) -> tuple[Route, Connection]:
    """Return the arguments of the transports."""
    route = Route(
        endpoint=ServiceEndpoint.of(urlsplit(url)),
        region="eu-central-1",
        user_agent="headgate",
        credentials=_no_credentials,
        tls=tls,
    )
    return route, Connection(pool=pool, connect_timeout_s=timeout_s, read_timeout_s=timeout_s)


# --- transports ----------------------------------------------------------------------------------

TransportKind = Literal["threads", "asyncio", "uvloop"]
TRANSPORTS: tuple[TransportKind, ...] = ("threads", "asyncio", "uvloop")
HEAD = head_of({"host": "here", "x-amz-target": "AmazonSQS.Any"})


class Post(Protocol):
    """Sends a request by one of the transports."""

    def __call__(self, body: bytes = b"{}") -> HttpAnswer: ...


@contextmanager
def posting(
    kind: TransportKind,
    url: str,
    *,
    tls: ssl.SSLContext | None = None,
    pool: int = 5,
    timeout_s: float = 10,
) -> Iterator[Post]:
    """Open a transport until the block ends."""
    route, connection = route_and_connection(url, tls=tls, pool=pool, timeout_s=timeout_s)
    if kind == "threads":
        with closing(Sockets(route, connection)) as sockets:
            yield lambda body=b"{}": drive(sockets.post(HEAD, body))
        return
    with in_loop(kind) as run:
        stack = AsyncExitStack()
        http = run(stack.enter_async_context(async_http(route, connection)))
        try:
            yield lambda body=b"{}": run(_posted(http, body))
        finally:
            run(stack.aclose())


class Run(Protocol):
    """Runs a coroutine in an event loop that stands still in between."""

    def __call__(self, awaitable: Awaitable[T]) -> T: ...


@contextmanager
def in_loop(kind: TransportKind) -> Iterator[Run]:
    """Open an event loop until the block ends; what it complains of is an error."""
    complaints: list[object] = []
    with asyncio.Runner(loop_factory=_factory(kind)) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: complaints.append(context))
        yield lambda awaitable: runner.run(_awaited(awaitable))
    assert not complaints


def _factory(kind: TransportKind) -> Any:
    if kind == "uvloop":
        uvloop = pytest.importorskip("uvloop", reason="uvloop has no release for Windows")
        return uvloop.new_event_loop
    return asyncio.new_event_loop


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


async def _posted(http: AsyncHttp, body: bytes) -> HttpAnswer:
    answer = await http.post(HEAD, body)
    await asyncio.sleep(0)  # what the server has sent beyond it, or its end, may be in already
    return answer


# --- TLS -----------------------------------------------------------------------------------------


def certificate(directory: Path, *, host: str = "127.0.0.1") -> Path:
    """Write a certificate of a server's own, for an address or a name, together with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's server")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([_name_of(host)]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, SHA256())
    )
    path = directory / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def _name_of(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def server_context(certified: Path) -> ssl.SSLContext:
    """Return the server's side of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certified)
    return context
