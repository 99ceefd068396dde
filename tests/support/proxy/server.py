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
    """Passes requests on to ``target``, apart from what is injected.

    Args:
        target: the server's URL, with a port.
        on_request: called with each request, whole, before anything becomes of it.
    """

    def __init__(self, target: str, *, on_request: Callable[[bytes], None] | None = None) -> None:
        address = urlsplit(target)
        if address.hostname is None or address.port is None:
            raise ValueError(f"the proxy needs a URL with host and port, got {target!r}")
        self._traffic = Traffic(address.hostname, address.port, on_request=on_request)
        self.requests: Counter[str] = self._traffic.requests
        """How many requests have come, by action; repetitions by the client included."""
        self.faults: Counter[str] = self._traffic.faults
        """How many of them were hit by an injected fault."""
        self.forwarded: Counter[str] = self._traffic.forwarded
        """How many the server has answered, whatever became of the answer."""

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
        self._server.close()
        try:
            await self._traffic.finish()
        finally:
            await self._server.wait_closed()

    @property
    def endpoint_url(self) -> str:
        """What ``AWS_ENDPOINT_URL`` takes."""
        return f"http://{_LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    def delay(self, latency_s: float) -> None:
        """Hold every request back for so long, from now on, without holding up others."""
        self._traffic.latency_s = latency_s

    def inject(
        self, fault: Fault, *, actions: Iterable[str] = (), times: float = float("inf")
    ) -> None:
        """Do this to the next ``times`` requests of these actions, or of all.

        Of several faults that fit a request the one injected first takes it.
        """
        self._traffic.injections.add(fault, actions, times)

    def draw(self, fault_for: Callable[[str], Fault | None]) -> None:
        """Ask this about each request from now on, by its action, that no injected fault takes."""
        self._traffic.injections.draw = fault_for

    def heal(self) -> None:
        """Misbehave no more."""
        self._traffic.injections.clear()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until the counts are as wanted.

        Raises:
            TimeoutError: they did not become so.
        """
        await self._traffic.until(happened)
