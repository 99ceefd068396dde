"""Concurrency: threads or tasks inside one call of a client, tasks beside the jobs, and the event
loop of a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from headgate.jobs.core.immediate import drive

if TYPE_CHECKING:
    import asyncio  # slow to import, and a synchronous client needs none of it

T = TypeVar("T")
A = TypeVar("A")


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, and that a blocking call would stop; None
    without one."""
    import asyncio  # slow to import

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Parallelism(Protocol):
    """A way to run several coroutines at once, and wait for them."""

    async def each(
        self, call: Callable[[T], Coroutine[Any, Any, A]], items: Sequence[T], *, at_once: int
    ) -> Sequence[A]:
        """Make a call for each item, at most ``at_once`` together; return the results in order.

        The first error ends the other calls.
        """
        ...

    def meanwhile(
        self, call: Callable[[], Coroutine[Any, Any, None]], *, every_s: float
    ) -> AbstractAsyncContextManager[None]:
        """Make a call every ``every_s`` seconds while the block runs; the first after a pause."""
        ...

    async def aside(self, function: Callable[[], T]) -> T:
        """Call a CPU-heavy function without blocking the rest of the process."""
        ...


class Threads:
    """Threads, each of which drives a coroutine."""

    async def each(
        self, call: Callable[[T], Coroutine[Any, Any, A]], items: Sequence[T], *, at_once: int
    ) -> Sequence[A]:
        """`Parallelism.each`."""
        from concurrent.futures import ThreadPoolExecutor

        if len(items) == 1:
            return [await call(items[0])]
        with ThreadPoolExecutor(at_once, thread_name_prefix="headgate-each") as threads:
            return [*threads.map(lambda item: drive(call(item)), items)]

    @asynccontextmanager
    async def meanwhile(
        self, call: Callable[[], Coroutine[Any, Any, None]], *, every_s: float
    ) -> AsyncIterator[None]:
        """`Parallelism.meanwhile`."""
        import threading

        over = threading.Event()

        def repeat() -> None:
            while not over.wait(every_s):
                drive(call())

        thread = threading.Thread(target=repeat, name="headgate-meanwhile", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    async def aside(self, function: Callable[[], T]) -> T:
        """`Parallelism.aside`: in the calling thread, for which nothing else waits."""
        return function()


class Tasks:
    """Tasks of the running event loop."""

    async def each(
        self, call: Callable[[T], Coroutine[Any, Any, A]], items: Sequence[T], *, at_once: int
    ) -> Sequence[A]:
        """`Parallelism.each`."""
        import asyncio  # not needed by a synchronous client

        gate = asyncio.Semaphore(at_once)

        async def in_turn(item: T) -> A:
            async with gate:
                return await call(item)

        tasks = [asyncio.create_task(in_turn(item)) for item in items]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @asynccontextmanager
    async def meanwhile(
        self, call: Callable[[], Coroutine[Any, Any, None]], *, every_s: float
    ) -> AsyncIterator[None]:
        """`Parallelism.meanwhile`."""
        import asyncio  # as above

        async def repeat() -> None:
            while True:
                await asyncio.sleep(every_s)
                await call()

        task = asyncio.create_task(repeat(), name="headgate-meanwhile")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def aside(self, function: Callable[[], T]) -> T:
        """`Parallelism.aside`: in a thread, so that the event loop goes on."""
        import asyncio  # as above

        return await asyncio.to_thread(function)


_LAST_S = 1.5
"""Seconds left to tasks under way when their worker ends."""


class UnderWay(Generic[T]):
    """Tasks that go on beside the jobs, and have a bounded time when their worker ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[T]] = set()

    def __bool__(self) -> bool:
        """Return True if any goes on."""
        return bool(self._tasks)

    def add(self, task: asyncio.Task[T]) -> None:
        """Keep a task until it has ended."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def flush(self) -> None:
        """Return when all have ended; if cancelled, they go on."""
        import asyncio

        if self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Wait for a bounded time, then cancel what is left, and wait until that has ended."""
        import asyncio

        try:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_LAST_S)
        finally:
            for task in self._tasks:
                task.cancel()
            await self.flush()
