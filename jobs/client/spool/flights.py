"""Requests of a spool that are under way: in threads, or in tasks of an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol, Self

from headgate.jobs.client.spool.policy import SpooledJob
from headgate.jobs.client.spool.window import Reply
from headgate.jobs.core.immediate import driven
from headgate.jobs.errors import TransportError
from headgate.jobs.values.light_dataclass import light_dataclass

Ask = Callable[[Sequence[SpooledJob]], Coroutine[Any, Any, Reply]]
"""Makes a request."""

Replies = list[tuple[list[SpooledJob], Reply]]


class Flights(Protocol):
    """Requests under way, within an ``async with`` block."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_error: object) -> None: ...

    @property
    def busy(self) -> int:
        """Number of requests whose replies have not been taken yet."""
        ...

    def start(self, batch: list[SpooledJob]) -> None:
        """Start a request; `replies` returns its reply later."""
        ...

    async def replies(self) -> Replies:
        """Wait for a reply; return it, and all others that have arrived by then."""
        ...


class ThreadFlights:
    """Requests in threads, started as needed; they end with the block. It never suspends.

    Args:
        ask: makes a request; never suspends.
        most: maximum number of threads; with 1, requests are made in the calling thread.
    """

    def __init__(self, ask: Ask, most: int) -> None:
        self._ask = driven(ask)
        self._most = most
        self._batches: SimpleQueue[list[SpooledJob] | None] = SimpleQueue()
        self._replies: SimpleQueue[tuple[list[SpooledJob], Reply]] = SimpleQueue()
        self._threads = 0
        self.busy = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        for _ in range(self._threads):
            self._batches.put(None)

    def start(self, batch: list[SpooledJob]) -> None:
        """`Flights.start`."""
        self.busy += 1
        if self._most > 1 and self._threads < self.busy:
            self._add_thread()
        if self._threads:
            self._batches.put(batch)
        else:
            self._replies.put((batch, self._ask(batch)))

    def _add_thread(self) -> None:
        name = f"headgate-spool-{self._threads + 1}"
        # Without another, as at the limit of a container, those that there are do more.
        with suppress(RuntimeError):
            threading.Thread(target=self._run, name=name, daemon=True).start()
            self._threads += 1

    async def replies(self) -> Replies:
        """`Flights.replies`."""
        found = [self._replies.get()]
        while not self._replies.empty():
            found.append(self._replies.get())
        self.busy -= len(found)
        return found

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            reply: Reply = TransportError("the request ended without an answer")
            try:
                reply = self._ask(batch)
            finally:
                self._replies.put((batch, reply))


class TaskFlights:
    """Requests in tasks; those that are left at the end of the block are cancelled."""

    def __init__(self, ask: Ask, _most: int) -> None:
        self._ask = ask
        self._tasks: dict[asyncio.Task[Reply], list[SpooledJob]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        for task in self._tasks:
            task.cancel()

    @property
    def busy(self) -> int:
        """`Flights.busy`."""
        return len(self._tasks)

    def start(self, batch: list[SpooledJob]) -> None:
        """`Flights.start`."""
        self._tasks[asyncio.create_task(self._ask(batch), name="headgate-spool-send")] = batch

    async def replies(self) -> Replies:
        """`Flights.replies`."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        return [(self._tasks.pop(task), task.result()) for task in done]


class OnDisk(Protocol):
    """Calls a function that waits for the disk."""

    async def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...


async def in_place(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function in this thread; it never suspends."""
    return function(*args, **kwargs)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class SendingMeans:
    """The primitives with which a spool is sent from."""

    flights: Callable[[Ask, int], Flights]
    on_disk: OnDisk


THREADS = SendingMeans(flights=ThreadFlights, on_disk=in_place)
"""Those of a thread, which never suspend."""

TASKS = SendingMeans(flights=TaskFlights, on_disk=asyncio.to_thread)
"""Those of an event loop, which the disk never blocks."""
