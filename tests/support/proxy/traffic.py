"""The state that all connections of one proxy share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.support.proxy.faults import Injections

_GENEROUS_S = 60.0


class Ending(Protocol):
    """A connection, as far as the proxy needs to close it."""

    def end(self) -> None:
        """Close it at once."""


@dataclass(slots=True)
class Traffic:
    """The requests so far, and the faults for those to come."""

    host: str
    port: int
    """The server's port."""
    latency_s: float = 0.0
    on_request: Callable[[bytes], None] | None = None
    """Called with each complete request, before it is handled."""
    on_answer: Callable[[str, bytes], None] | None = None
    """Called with each of the server's answers, and its action, before it is passed on."""
    injections: Injections = field(default_factory=Injections)
    requests: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    forwarded: Counter[str] = field(default_factory=Counter)
    connections: set[Ending] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    is_ending: bool = False
    """True once all connections have been ended: one that is accepted after that ends at once."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, counter: Counter[str], action: str) -> None:
        """Count one more request of that action."""
        counter[action] += 1
        self._changed.set()

    def forget(self, connection: Ending) -> None:
        """Drop a connection that has ended."""
        self.connections.discard(connection)
        self._changed.set()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until ``happened`` is true, checked after each change of counts or connections.

        Raises:
            TimeoutError: it did not become true in time.
        """
        async with asyncio.timeout(_GENEROUS_S):
            while not happened():
                self._changed.clear()
                await self._changed.wait()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task that `finish` waits for."""
        task = asyncio.create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self._forget_if_well)
        return task

    def _forget_if_well(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self.tasks.discard(task)

    async def finish(self) -> None:
        """End all connections.

        Raises:
            ExceptionGroup: the errors of tasks since the proxy was started.
        """
        self.is_ending = True
        for connection in tuple(self.connections):
            connection.end()
        ended = await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.until(lambda: not self.connections)
        if faults := [each for each in ended if isinstance(each, Exception)]:
            raise ExceptionGroup("the proxy failed", faults)
