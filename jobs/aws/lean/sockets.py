"""HTTP of `jobs.aws.lean.caller` for threads, over sockets that are kept alive.

A request is one write. The answer is read by `http.client`, over a file whose every read ends when
the time of the whole request does.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import BadStatusLine, HTTPException, HTTPResponse, IncompleteRead
from io import BufferedReader, RawIOBase
from typing import Any

from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)

from headgate.jobs.aws.connections.connection import Connection
from headgate.jobs.aws.lean.answer import MAX_BYTES, TOO_LARGE, HttpAnswer
from headgate.jobs.aws.lean.route import KEEP_ALIVE_S, Route, ServiceEndpoint

_Watch: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


class Sockets:
    """A `jobs.aws.lean.caller.Http` for threads, with a pool of connections to one endpoint.

    A request waits for one of the pool's places, and is then bounded as a whole by the connect and
    the read timeout together. A connection that the server has closed meanwhile is not used again.
    A forked process opens connections of its own, and never uses its parent's.

    Args:
        route: the endpoint, and TLS.
        connection: the timeouts, and the size of the pool.
    """

    def __init__(self, route: Route, connection: Connection) -> None:
        self._endpoint, self._tls = route.endpoint, route.tls
        self._url = str(route.endpoint)
        self._size = connection.pool
        self._connect_timeout_s = connection.connect_timeout_s
        self._bound_s = connection.connect_timeout_s + connection.read_timeout_s
        self._pools: dict[int, _Pool] = {}
        """The pool of this process, by its id; in a forked one at first its parent's."""

    async def post(self, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """`Http.post`; never suspends."""
        request = _request(headers, body)
        pool = self._pool()
        with pool.places:
            until_s = time.monotonic() + self._bound_s
            connection = pool.idle() or self._open()
            try:
                with _botocores_errors(self._url):
                    answer = connection.exchange(request, until_s)
            except BaseException:
                connection.close()
                raise
            pool.keep(connection)
            return answer

    def close(self) -> None:
        """Close the connections. Idempotent; a later request opens them again."""
        for pid in [*self._pools]:
            if pool := self._pools.pop(pid, None):
                pool.close()

    def _pool(self) -> _Pool:
        mine = os.getpid()
        if pool := self._pools.get(mine):
            return pool
        for pid in [*self._pools]:
            if pid != mine and (inherited := self._pools.pop(pid, None)):
                inherited.abandon()
        return self._pools.setdefault(mine, _Pool(self._size))  # atomic, if other threads are here

    def _open(self) -> _Connection:
        until_s = time.monotonic() + self._connect_timeout_s
        with _botocores_errors_at_opening(self._url):
            return _Connection(_opened(self._endpoint, self._tls, until_s))


class _Pool:
    """The idle connections of one process, and the places of those in use."""

    def __init__(self, size: int) -> None:
        self.places = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: deque[tuple[_Connection, float]] = deque()
        """Each with the time at which it goes stale; the freshest is last."""
        self._closed = False

    def idle(self) -> _Connection | None:
        """Take the freshest connection, if it is still of use."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection, stale_s = self._idle.pop()
            if time.monotonic() < stale_s and not connection.has_ended():
                return connection
            connection.close()

    def keep(self, connection: _Connection) -> None:
        """Put a connection back after its request, and close those that have gone stale."""
        ended: list[_Connection] = []
        now_s = time.monotonic()
        with self._lock:
            if connection.is_over or self._closed:
                ended.append(connection)
            else:
                self._idle.append((connection, now_s + KEEP_ALIVE_S))
            while self._idle and self._idle[0][1] <= now_s:
                ended.append(self._idle.popleft()[0])
        for each in ended:
            each.close()

    def close(self) -> None:
        """Close the idle connections now, and each other after its request."""
        with self._lock:
            self._closed = True
            ended, self._idle = self._idle, deque()
        for connection, _ in ended:
            connection.close()

    def abandon(self) -> None:
        """Let go of the connections of a parent process, in which any thread may have had the
        lock."""
        for connection, _ in self._idle:
            connection.close()


class _Connection:
    """An open connection, for one request at a time."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._watch = _Watch()
        self._watch.register(opened, selectors.EVENT_READ)
        self._incoming = _Incoming(opened)
        self._file = _KeptOpen(self._incoming)
        self.is_over = False
        """True once the server has closed it, says so, or has sent more than it was asked for."""

    def has_ended(self) -> bool:
        """Return True if an idle connection has been closed, or has data nobody asked for."""
        pending = self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0
        return bool(pending or self._watch.select(0))

    def exchange(self, request: bytes, until_s: float) -> HttpAnswer:
        """Send a request and return the answer to it, both until then."""
        self._socket.settimeout(_left_s(until_s))
        self._socket.sendall(request)
        self._incoming.until_s = until_s
        source: Any = self  # of a socket, it only wants the file
        # Closed here, while its file is open: Python 3.13 complains of one that is collected later.
        with closing(HTTPResponse(source, method="POST")) as response:
            response.begin()
            body = _whole(response)
        self._incoming.until_s = None
        self.is_over = response.will_close or bool(self._file.peek())
        headers: Any = response.headers  # a mapping in all but name
        return HttpAnswer(response.status, headers, body)

    def makefile(self, _mode: str) -> BufferedReader:
        """Return the file of all answers, as `http.client` asks for it anew for each."""
        return self._file

    def close(self) -> None:
        """Close it, without a word of TLS to the server: a parent process may still use it."""
        self._watch.close()
        self._socket.close()


class _KeptOpen(BufferedReader):
    """A file that outlasts the answers in it, each of which closes it."""

    def close(self) -> None:
        """Do nothing: the connection closes its socket itself."""


class _Incoming(RawIOBase):
    """The bytes from a socket. Reading them ends at a fixed time, however many keep coming in."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self.until_s: float | None = None
        """A time of `time.monotonic`; None while no answer is due, when no bytes are read."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read some bytes; return their number.

        Raises:
            TimeoutError: there are none in time.
        """
        if self.until_s is None:
            return None
        self._socket.settimeout(_left_s(self.until_s))
        return self._socket.recv_into(buffer)


def _whole(response: HTTPResponse) -> bytes:
    """Return the body of an answer.

    Raises:
        HTTPClientError: it is too large; one that announces its length is then not read at all.
    """
    if (announced := response.length) is not None and announced <= MAX_BYTES:
        return response.read()
    body = response.read(MAX_BYTES + 1) if announced is None else b""
    if announced is not None or len(body) > MAX_BYTES:
        raise HTTPClientError(error=TOO_LARGE)
    return body


def _request(headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(("POST / HTTP/1.1", *lines, f"content-length: {len(body)}", "\r\n"))
    if head.count("\n") != len(lines) + 3 or head.count("\r") != len(lines) + 3:
        raise HTTPClientError(error="a line break in a header")
    return head.encode("latin-1") + body


def _opened(endpoint: ServiceEndpoint, tls: ssl.SSLContext | None, until_s: float) -> socket.socket:
    """Connect to the first address that answers; each gets an equal part of the time left."""
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    failure = OSError("the host has no address")
    for number, (family, kind, protocol, _, address) in enumerate(found):
        opened = socket.socket(family, kind, protocol)
        try:
            opened.settimeout(_left_s(until_s) / (len(found) - number))
            opened.connect(address)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.settimeout(_left_s(until_s))
            return tls.wrap_socket(opened, server_hostname=endpoint.host) if tls else opened
        except OSError as error:
            opened.close()
            failure = error
        except BaseException:
            opened.close()
            raise
    raise failure


def _left_s(until_s: float) -> float:
    if (left_s := until_s - time.monotonic()) <= 0:
        raise TimeoutError("the time for the request is over")
    return left_s


@contextmanager
def _botocores_errors_at_opening(url: str) -> Iterator[None]:
    """Translate errors of opening a connection into botocore's."""
    try:
        yield
    except ssl.SSLError as error:
        raise SSLError(endpoint_url=url, error=error) from error
    except TimeoutError as error:
        raise ConnectTimeoutError(endpoint_url=url, error=error) from error
    except OSError as error:
        raise EndpointConnectionError(endpoint_url=url, error=error) from error


@contextmanager
def _botocores_errors(url: str) -> Iterator[None]:
    """Translate errors of a request, once its connection is open, into botocore's."""
    try:
        yield
    except TimeoutError as error:
        raise ReadTimeoutError(endpoint_url=url, error=error) from error
    except (OSError, BadStatusLine, IncompleteRead) as error:
        raise ConnectionClosedError(endpoint_url=url, error=type(error).__name__) from error
    except HTTPException as error:
        # Only the error's class: its text may quote the answer.
        raise HTTPClientError(error=type(error).__name__) from error
