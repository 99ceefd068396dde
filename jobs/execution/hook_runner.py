"""Execution of users' hooks: concurrent with jobs, in order, and without delaying them.

Each hook has its own line, so that one which is slow or hangs delays only itself. Otherwise events
are delivered in order: the next one is handed out once the hook of the one before has ended, or has
taken longer than a moment.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Event, Events, HookFailed
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.handlers.hooks import Hook, is_async, name_of
from headgate.jobs.definitions.policies import hooks_of, is_hooked
from headgate.jobs.values.texts import type_of

_MOST_WAITING = 10_000
"""Maximum number of calls that wait or run; further ones are reported as not made."""

_MOMENT_S = 1.0
"""Longest time for which a hook delays the others to preserve the order."""

_LONGEST_S = 30.0
"""Timeout of one call, after which it is given up."""

_MOST_HANGING = 3
"""Number of given-up calls of one hook still running at which it is not called any more."""

_MOST_THREADS = 20
"""Maximum number of threads of all hooks together, including those that hang."""


class HookRunner:
    """Subscribes to events, and calls the hooks of the app and of each job's type.

    Synchronous hooks run in threads, so that one that blocks delays no job. A thread can't be
    stopped: one that hangs is replaced, up to a bound, and keeps no process from ending.
    """

    def __init__(self, app: App, *, clock: Clock, events: Events) -> None:
        self._app = app
        self._clock = clock
        self._events = events
        self._waiting: asyncio.Queue[tuple[Hook, Event]] = asyncio.Queue()
        self._open = 0
        """Number of calls that have not ended."""
        self._lines: dict[int, _Line] = {}
        """By the identity of the hook, which the app keeps alive."""
        self._threads = _Threads(_MOST_THREADS)
        self._tasks: set[asyncio.Task[Any]] = set()

    def __call__(self, event: Event) -> None:
        """Put calls of an event's hooks in line."""
        for hook in hooks_of(self._app, event):
            if self._open >= _MOST_WAITING:
                self._report(hook, event, f"not called: {_MOST_WAITING:,} calls wait already")
            else:
                self._open += 1
                self._waiting.put_nowait((hook, event))

    def wants(self, kind: type[Event]) -> bool:
        """Return True for the kinds of events that have hooks."""
        return is_hooked(self._app, kind)

    async def run(self) -> None:
        """Make the calls in line, until cancelled."""
        try:
            while True:
                hook, event = await self._waiting.get()
                await self._hand_out(hook, event)
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_MOMENT_S)

    async def drain(self) -> None:
        """Wait until all calls in line have been made."""
        await self._waiting.join()

    def close(self) -> None:
        """Make no more calls; a thread that still runs is left alone."""
        self._threads.close()

    async def _hand_out(self, hook: Hook, event: Event) -> None:
        line = self._lines.setdefault(id(hook), _Line())
        line.events.append(event)
        if line.serving is None:
            line.serving = self._start(self._serve(hook, line))
            await asyncio.wait({line.serving}, timeout=_MOMENT_S)

    async def _serve(self, hook: Hook, line: _Line) -> None:
        """Call a hook for every event in its line."""
        while line.events:
            await self._call(hook, line.events.popleft(), line)
            self._open -= 1
            self._waiting.task_done()
        line.serving = None

    async def _call(self, hook: Hook, event: Event, line: _Line) -> None:
        if line.hanging >= _MOST_HANGING:
            self._report(hook, event, f"not called: {line.hanging} calls of it hang")
            return
        call = self._start(self._ended(hook, event, line))
        await asyncio.wait({call}, timeout=_LONGEST_S)
        if not call.done():
            self._report(hook, event, f"TimeoutError: it took longer than {_LONGEST_S:g} s")
            line.hang_until(call)
            call.cancel()
        elif call.cancelled():  # and returned before that was raised
            self._report(hook, event, "CancelledError: it cancelled its own task")
        elif (error := call.result()) is not None:
            self._report(hook, event, f"{type_of(error)}: {self._app.redaction.text(error)}")

    async def _ended(self, hook: Hook, event: Event, line: _Line) -> BaseException | None:
        """Call a hook and return its exception, if any; none of them ends the worker."""
        try:
            if is_async(hook):
                await hook(event)
                return None
            result, error = await self._threads.call(partial(hook, event), line)
            if inspect.isawaitable(result):
                await result
        except (KeyboardInterrupt, GeneratorExit):
            raise  # the process, or this coroutine, is being ended
        except BaseException as raised:  # noqa: BLE001 - the users' code; reported by an event
            return raised
        return error

    def _start(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name="headgate-hook")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _report(self, hook: Hook, event: Event, error: str) -> None:
        self._events.emit(
            HookFailed(at=self._clock.now(), hook=name_of(hook), event=event.name, error=error)
        )


class _Line:
    """The events for which one hook has yet to be called."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.serving: asyncio.Task[None] | None = None
        self.hanging = 0

    def hang_until(self, ended: asyncio.Future[Any]) -> None:
        """Count a call that was given up as hanging until ``ended`` is done."""
        self.hanging += 1
        ended.add_done_callback(self._came_back)

    def _came_back(self, _ended: asyncio.Future[Any]) -> None:
        self.hanging -= 1


_Ended = tuple[Any, BaseException | None]
"""The result of a function, and its exception."""


class _Threads:
    """Reusable threads; daemons, since one that hangs must not outlive the worker."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: list[SimpleQueue[Callable[[], None] | None]] = []
        self._numbers = itertools.count()
        self._count = 0
        self._closed = False

    async def call(self, function: Callable[[], Any], line: _Line) -> _Ended:
        """Run a function in a thread; when cancelled, it leaves the thread running.

        Raises:
            RuntimeError: all threads are in use, and their maximum number is reached.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[_Ended] = loop.create_future()
        thread = self._idle.pop() if self._idle else self._new()

        def finish(how: _Ended) -> None:
            self._free(thread)
            ended.set_result(how)

        def work() -> None:
            how = _call(function)
            with suppress(RuntimeError):  # the loop is closed, so no caller waits any more
                loop.call_soon_threadsafe(finish, how)

        thread.put(work)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if not ended.done():
                line.hang_until(ended)
            raise

    def close(self) -> None:
        """End the idle threads; the others end after their current function."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)

    def _new(self) -> SimpleQueue[Callable[[], None] | None]:
        if self._count >= self._most:
            raise RuntimeError(f"not called: {self._count} threads of hooks hang")
        self._count += 1
        work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        name = f"headgate-hook_{next(self._numbers)}"
        threading.Thread(target=_work_off, args=(work,), name=name, daemon=True).start()
        return work

    def _free(self, thread: SimpleQueue[Callable[[], None] | None]) -> None:
        if self._closed:
            thread.put(None)
        else:
            self._idle.append(thread)


def _work_off(waiting: SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := waiting.get()) is not None:
        work()
        del work  # otherwise its arguments would stay alive until the next one


def _call(function: Callable[[], Any]) -> _Ended:
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 - returned, to be reported
        return None, error
