"""A byte proxy in front of a local SQS: it counts requests and adds latency.

It is a process of its own, reads just enough of HTTP/1.1 to know where a request ends and which
action it asks for, and passes the bytes on as they come, so that it costs little beside what is
measured through it.
`tests/support/proxy.py` is the one that misbehaves.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlsplit

_LOOPBACK = "127.0.0.1"
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_TARGET = re.compile(rb"\r\nx-amz-target: *AmazonSQS\.(\w+)", re.IGNORECASE)
_QUERY_ACTION = re.compile(rb"(?:^|[?&])Action=(\w+)")
_STOP_BOUND_S = 5.0
_TIMER_STEP_S = 0.001

UNKNOWN = "Unknown"


class RequestReader:
    """Finds the requests in a connection's bytes.

    Args:
        on_request: told the action of each, once it is complete.
    """

    def __init__(self, on_request: Callable[[str], None]) -> None:
        self._on_request = on_request
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take in what the connection brought.

        Raises:
            ValueError: a request's length is not declared; none of SQS's clients does that.
        """
        self._buffer += data
        while (end := self._buffer.find(_HEAD_END)) >= 0:
            head = bytes(self._buffer[: end + 2])
            if _CHUNKED.search(head):
                raise ValueError("the proxy reads no chunked requests")
            length = _LENGTH.search(head)
            size = end + len(_HEAD_END) + (int(length[1]) if length else 0)
            if len(self._buffer) < size:
                return
            self._on_request(_action(head, bytes(self._buffer[end + len(_HEAD_END) : size])))
            del self._buffer[:size]


def _action(head: bytes, body: bytes) -> str:
    """JSON protocol: a header; query protocol: a parameter of the address or the body."""
    request_line = head[: head.find(b"\r\n")].split(b" ")[1]
    found = _TARGET.search(head) or _QUERY_ACTION.search(request_line) or _QUERY_ACTION.search(body)
    return found[1].decode() if found else UNKNOWN


class _State:
    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.latency_s = 0.0
        self.counts: Counter[str] = Counter()

    def count(self, action: str) -> None:
        self.counts[action] += 1


class _Upstream(asyncio.Protocol):
    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        self._client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self._client.close()


class _Client(asyncio.Protocol):
    """One connection of a client, with one to the server of its own."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self._reader = RequestReader(state.count)
        self._held: deque[tuple[float, bytes]] = deque()
        """When it may go on, and what."""
        self._upstream: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = cast("asyncio.Transport", transport)
        self._opening = asyncio.create_task(self._open(), name="proxy-open")

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        loop = asyncio.get_running_loop()
        due = loop.time() + self._state.latency_s
        self._held.append((due, data))
        if self._state.latency_s > 0:
            loop.call_at(due, self._pass_on)
        else:
            self._pass_on()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        if self._upstream is not None:
            self._upstream.close()

    def _pass_on(self) -> None:
        if self._upstream is None:
            return
        # A request's body comes right after its head: it must not wait for the timer's next step.
        now = asyncio.get_running_loop().time() + _TIMER_STEP_S
        while self._held and self._held[0][0] <= now:
            self._upstream.write(self._held.popleft()[1])

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            upstream, _ = await loop.create_connection(
                lambda: _Upstream(self._client), self._state.host, self._state.port
            )
        except OSError:
            self._client.abort()
            return
        self._upstream = upstream
        self._pass_on()


async def _serve(host: str, port: int) -> None:
    state = _State(host, port)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Client(state), _LOOPBACK, 0)
    _answer({"port": server.sockets[0].getsockname()[1]})
    ended = asyncio.Event()
    threading.Thread(target=_obey, args=(state, loop, ended), daemon=True).start()
    await ended.wait()


def _obey(state: _State, loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """Commands come as lines of JSON; their end, such as the parent's death, ends the proxy."""
    for line in sys.stdin:
        command = json.loads(line)
        state.latency_s = command.get("latency_s", state.latency_s)
        _answer(dict(state.counts))
    loop.call_soon_threadsafe(ended.set)


def _answer(value: Any) -> None:
    print(json.dumps(value), flush=True)


class Proxy:
    """A proxy process in front of the server at ``target``; use it with ``with``."""

    def __init__(self, target: str) -> None:
        self._target = target

    def __enter__(self) -> Self:
        address = urlsplit(self._target)
        self._process = subprocess.Popen(  # noqa: S603 - this very module
            [sys.executable, "-m", "benchmarks.proxy", str(address.hostname), str(address.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.endpoint_url = f"http://{_LOOPBACK}:{self._read()['port']}"
        """What ``AWS_ENDPOINT_URL`` takes."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._process.communicate(timeout=_STOP_BOUND_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def delay(self, latency_s: float) -> None:
        """Hold every request back for so long, from now on."""
        self._command({"latency_s": latency_s})

    def counts(self) -> Counter[str]:
        """How many requests have come so far, by action."""
        return Counter(self._command({}))

    def _command(self, command: dict[str, float]) -> dict[str, int]:
        assert self._process.stdin is not None  # noqa: S101 - a pipe, see above
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, int]:
        assert self._process.stdout is not None  # noqa: S101 - a pipe, see above
        answer: dict[str, int] = json.loads(self._process.stdout.readline())
        return answer


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
