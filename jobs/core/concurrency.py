"""Concurrency: threads or tasks inside one call of a client, tasks beside the jobs, and the event
loop of a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
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


class SideCall(Protocol):
    """A call that goes on beside the code that began it."""

    @property
    def is_over(self) -> bool:
        """True once it has ended, or never will: its event loop is closed, its process forked."""
        ...

    async def wait(self, at_most_s: float | None) -> None:
        """Return once the call has ended, or after so many seconds; None: however long it takes.

        Any number may wait. Cancelling one of them leaves the call alone.

        Raises:
            Exception: the call's.
        """
        ...

    async def end(self) -> None:
        """Cancel the call and wait for its end, if it is one that can be cancelled."""
        ...


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

    def begin(self, call: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> SideCall:
        """Begin a call that nobody has to wait for; an error that no one waits for is reported."""
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

    def begin(self, call: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> SideCall:
        """`Parallelism.begin`."""
        return _SideThread(call, name)


class _SideThread:
    """A `SideCall` in a thread, which does not keep its process from ending.

    Python reports an error that a thread ends with, whether or not somebody waits for it.
    """

    def __init__(self, call: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        import threading

        self._call = call
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            drive(self._call())
        except BaseException as error:
            self._error = error
            raise

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    async def wait(self, at_most_s: float | None) -> None:
        self._thread.join(at_most_s)
        if self._error is not None:
            raise self._error

    async def end(self) -> None:
        """Return at once: a thread can't be cancelled, and its call has a timeout of its own."""


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

    def begin(self, call: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> SideCall:
        """`Parallelism.begin`."""
        import asyncio  # as above

        return _SideTask(asyncio.create_task(call(), name=name))


class _SideTask:
    """A `SideCall` in a task; asyncio reports an error that nobody has waited for."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    @property
    def is_over(self) -> bool:
        return self._task.done() or self._task.get_loop().is_closed()

    async def wait(self, at_most_s: float | None) -> None:
        import asyncio  # as above

        if not self.is_over:
            await asyncio.wait([self._task], timeout=at_most_s)
        if self._task.done() and not self._task.cancelled():
            self._task.result()

    async def end(self) -> None:
        import asyncio  # as above

        if not self.is_over:
            self._task.cancel()
            await asyncio.wait([self._task])


class Shielded(Generic[T]):
    """Awaits a future again and again; cancelling those who await it leaves the future alone."""

    def __init__(self, future: asyncio.Future[T]) -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio  # as above

        return (yield from asyncio.shield(self._future).__await__())


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
