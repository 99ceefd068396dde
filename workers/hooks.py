"""Running the users' hooks: beside the jobs, in order, and never in their way."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor

from jobs.app import App
from jobs.clock import Clock
from jobs.events import Event, Events, HookFailed
from jobs.hooks import Hook

_MOST_WAITING = 10_000
"""Events that wait for their hooks; when so many do, later ones are reported as not told."""

_LONGEST_S = 30.0
"""How long one hook may take: the others wait for it."""


class HookRunner:
    """Subscribes to events, and calls the hooks of the app and of each job's type.

    Plain functions run in a thread of their own, so that one that blocks holds up no job.
    """

    def __init__(self, app: App, *, clock: Clock, events: Events) -> None:
        self._app = app
        self._clock = clock
        self._events = events
        self._waiting: asyncio.Queue[tuple[Hook, Event]] = asyncio.Queue(_MOST_WAITING)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headgate-hook")

    def __call__(self, event: Event) -> None:
        """Subscriber: put the event's hooks in line."""
        for hook in self._app.hooks_of(event):
            try:
                self._waiting.put_nowait((hook, event))
            except asyncio.QueueFull:
                self._report(hook, event, f"not called: {_MOST_WAITING:,} wait already")

    async def run(self) -> None:
        """Call what is in line, one after the other, until cancelled."""
        while True:
            hook, event = await self._waiting.get()
            try:
                await self._call(hook, event)
            finally:
                self._waiting.task_done()

    async def drain(self) -> None:
        """Return when everything in line has been called."""
        await self._waiting.join()

    def close(self) -> None:
        """Call no more; a thread that still runs is left alone."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _call(self, hook: Hook, event: Event) -> None:
        try:
            async with asyncio.timeout(_LONGEST_S):
                if inspect.iscoroutinefunction(hook):
                    await hook(event)
                else:
                    await asyncio.get_running_loop().run_in_executor(self._thread, hook, event)
        except Exception as error:  # noqa: BLE001 - the users' code; reported by an event
            self._report(hook, event, f"{type(error).__name__}: {error}")

    def _report(self, hook: Hook, event: Event, error: str) -> None:
        name = f"{hook.__module__}.{hook.__qualname__}"
        self._events.emit(
            HookFailed(at=self._clock.now(), hook=name, event=event.name, error=error)
        )
