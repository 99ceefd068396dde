"""The proxy in a test's event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.support.proxy.connection import Connection
from tests.support.proxy.faults import Fault
from tests.support.proxy.traffic import Traffic

_LOOPBACK = "127.0.0.1"


class Proxy:
    """Forwards requests to ``target``, apart from injected faults.

    Args:
        target: the server's URL, with a port.
        on_request: called with each complete request, before it is handled.
    """

    def __init__(self, target: str, *, on_request: Callable[[bytes], None] | None = None) -> None:
        address = urlsplit(target)
        if address.hostname is None or address.port is None:
            raise ValueError(f"the proxy needs a URL with host and port, got {target!r}")
        self._traffic = Traffic(address.hostname, address.port, on_request=on_request)
        self.requests: Counter[str] = self._traffic.requests
        """Number of requests so far, by action, the client's retries included."""
        self.faults: Counter[str] = self._traffic.faults
        """Number of requests hit by an injected fault, by action."""
        self.forwarded: Counter[str] = self._traffic.forwarded
        """Number of requests that the server has answered, by action, including lost answers."""

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self._traffic), _LOOPBACK, 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop_listening()
        try:
            await self._traffic.finish()
        finally:
            await self._server.wait_closed()

    async def _stop_listening(self) -> None:
        """Close the server once each connection that it has accepted knows it.

        `Server.close` alone leaves the socket of one that was accepted in this turn of the loop
        open until it is garbage (python/cpython#109564), which fails whatever test runs then.
        """
        loop = asyncio.get_running_loop()
        for listener in self._server.sockets:
            loop.remove_reader(listener.fileno())
        await asyncio.sleep(0)
        self._server.close()

    @property
    def endpoint_url(self) -> str:
        """The value for ``AWS_ENDPOINT_URL``."""
        return f"http://{_LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    def delay(self, latency_s: float) -> None:
        """Delay every request by that many seconds from now on, without holding up others."""
        self._traffic.latency_s = latency_s

    def inject(
        self, fault: Fault, *, actions: Iterable[str] = (), times: float = float("inf")
    ) -> None:
        """Inject a fault into the next ``times`` requests of these actions, or of all.

        Of several faults that match a request, the one injected first applies.
        """
        self._traffic.injections.add(fault, actions, times)

    def draw(self, fault_for: Callable[[str], Fault | None]) -> None:
        """Call this with the action of each request from now on that no injected fault hits."""
        self._traffic.injections.draw = fault_for

    def listen(self, heard: Callable[[str, bytes], None]) -> None:
        """Call this with the action of each of the server's answers, and the answer, from now on.

        It is called before the answer is passed on.
        """
        self._traffic.on_answer = heard

    def heal(self) -> None:
        """Remove all faults."""
        self._traffic.injections.clear()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until ``happened`` is true, checked after each change of the counts.

        Raises:
            TimeoutError: it did not become true in time.
        """
        await self._traffic.until(happened)
