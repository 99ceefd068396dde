"""What wakes a long poll when its queue changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Bell:
    """Wakes all that listen, in whichever event loop, from whichever thread it is rung."""

    def __init__(self) -> None:
        self._listeners: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever the bell rings."""
        rung = asyncio.Event()
        self._listeners[rung] = asyncio.get_running_loop()
        try:
            yield rung
        finally:
            del self._listeners[rung]

    def ring(self) -> None:
        """Wake all, since only a look at the queue tells whom its change concerns."""
        here = _running_loop()
        for rung, loop in list(self._listeners.items()):
            if loop is here:
                rung.set()
            else:
                loop.call_soon_threadsafe(rung.set)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
