"""A bell that wakes long polls when their queue changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.jobs.core.concurrency import running_loop


class Bell:
    """Wakes all listeners, in any event loop, when it is rung from any thread."""

    def __init__(self) -> None:
        self._listeners: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever the bell rings."""
        rung = asyncio.Event()
        self._listeners[rung] = asyncio.get_running_loop()
        try:
            yield rung
        finally:
            del self._listeners[rung]

    def ring(self) -> None:
        """Wake all, since only a look at the queue shows which of them its change concerns."""
        here = running_loop()
        for rung, loop in list(self._listeners.items()):
            if loop is here:
                rung.set()
            else:
                loop.call_soon_threadsafe(rung.set)
