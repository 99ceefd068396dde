"""HTTP of `jobs.aws.lean.caller` for threads, over sockets that are kept alive.

A request is one write. Each read of its answer ends when the time of the whole request does.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections import deque
from queue import SimpleQueue

from headgate.jobs.aws.connections.connection import Connection
from headgate.jobs.aws.lean.answer import HttpAnswer
from headgate.jobs.aws.lean.arrivals import Arrivals
from headgate.jobs.aws.lean.http1 import AnswerReader, request_of
from headgate.jobs.aws.lean.http_failures import FAILURES, failed, failed_to_open
from headgate.jobs.aws.lean.route import KEEP_ALIVE_S, Route, ServiceEndpoint

_PIECE_BYTES = 2**16


class Sockets:
    """A `jobs.aws.lean.caller.Http` for threads, with a pool of connections to one endpoint.

    A request waits for one of the pool's places. It is then given up after the read timeout's
    silence, and is bounded as a whole by the connect and the read timeout together. A connection
    that the server has closed meanwhile is not used again. A forked process opens connections of
    its own, and never uses its parent's.

    Args:
        route: the endpoint, and TLS.
        connection: the timeouts, and the size of the pool.
    """

    def __init__(self, route: Route, connection: Connection) -> None:
        self._endpoint, self._tls = route.endpoint, route.tls
        self._url = str(route.endpoint)
        self._size = connection.pool
        self._connect_timeout_s = connection.connect_timeout_s
        self._read_timeout_s = connection.read_timeout_s
        self._pools: dict[int, _Pool] = {}
        """The pool of this process, by its id; in a forked one at first its parent's."""

    async def post(self, head: bytes, body: bytes) -> HttpAnswer:
        """`Http.post`; never suspends."""
        request = request_of(head, body)
        pool = self._pool()
        place = pool.places.get()
        try:
            return self._exchanged(request, pool)
        finally:
            pool.places.put(place)

    def close(self) -> None:
        """Close the connections. Idempotent; a later request opens them again."""
        for pid in [*self._pools]:
            if pool := self._pools.pop(pid, None):
                pool.close()

    def _exchanged(self, request: bytes, pool: _Pool) -> HttpAnswer:
        """Return the answer to a request, over a connection of the pool."""
        until_s = time.monotonic() + self._connect_timeout_s + self._read_timeout_s
        connection = pool.idle() or self._open()
        try:
            answer = connection.exchange(request, until_s)
        except FAILURES as error:
            connection.close()
            raise failed(error, self._url) from error
        except BaseException:
            connection.close()
            raise
        pool.keep(connection)
        return answer

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
        try:
            opened = _opened(self._endpoint, self._tls, until_s)
        except OSError as error:
            raise failed_to_open(error, self._url) from error
        return _Connection(opened, self._read_timeout_s)


class _Pool:
    """The idle connections of one process, and the places of those in use."""

    def __init__(self, size: int) -> None:
        self.places: SimpleQueue[int] = SimpleQueue()
        """Those that are free. A semaphore of Python's takes ten times as long."""
        for place in range(size):
            self.places.put(place)
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
            if time.monotonic() < stale_s and not connection.arrivals.any():
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
    """An open connection, for one request at a time.

    Args:
        opened: its socket.
        read_timeout_s: seconds of silence after which a request is given up.
    """

    def __init__(self, opened: socket.socket, read_timeout_s: float) -> None:
        self._socket = opened
        self._read_timeout_s = read_timeout_s
        self._timeout_s = -1.0
        """The socket's present timeout; negative until this sets one."""
        self.arrivals = Arrivals(opened)
        self.is_over = False
        """True once the server has closed it, says so, or has sent more than it was asked for."""

    def exchange(self, request: bytes, until_s: float) -> HttpAnswer:
        """Send a request and return the answer to it, both until then."""
        unsent = memoryview(request)
        while unsent:  # `sendall` of TLS would give each of its records as much time
            self._wait_until(until_s)
            unsent = unsent[self._socket.send(unsent) :]
        reader, answer = AnswerReader(), None
        while answer is None:
            self._wait_until(until_s)
            data = self._socket.recv(_PIECE_BYTES)
            answer = reader.feed(data) if data else reader.end()
        self.is_over = reader.is_last
        return answer

    def _wait_until(self, until_s: float) -> None:
        """Have the socket wait until then, and not longer than silence may last."""
        timeout_s = min(_left_s(until_s), self._read_timeout_s)
        if timeout_s != self._timeout_s:  # to set it is a call of the operating system
            self._socket.settimeout(timeout_s)
            self._timeout_s = timeout_s

    def close(self) -> None:
        """Close it, without a word of TLS to the server: a parent process may still use it."""
        self.arrivals.close()
        self._socket.close()


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
