"""The order of calls that overlap: each waits for those before it that share a lane with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager


class Turns:
    """Lets calls that share a lane through one after the other, in the order of their coming.

    Used within one event loop. A call that waits for its turn while it has one never gets it, so
    whatever is called within a turn needs a `Turns` of its own.
    """

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Future[None]] = {}
        """By lane, the end of the last call."""

    @asynccontextmanager
    async def of(self, lanes: Collection[str]) -> AsyncIterator[None]:
        """Wait for all earlier calls on these lanes; later ones wait until the block ends."""
        before = {self._last[lane] for lane in lanes if lane in self._last}
        over = asyncio.get_running_loop().create_future()
        self._last |= dict.fromkeys(lanes, over)
        try:
            if before:
                await asyncio.wait(before)
            yield
        finally:
            if pending := [each for each in before if not each.done()]:
                # Cancelled while it waited, it lets nobody past those before it.
                asyncio.gather(*pending).add_done_callback(lambda _: self._end(lanes, over))
            else:
                self._end(lanes, over)

    def busy(self, lane: str) -> bool:
        """True if a call has its turn on that lane, or waits for it."""
        return lane in self._last

    async def all_over(self) -> None:
        """Return when no call has a turn or waits for one."""
        while self._last:
            await asyncio.wait(set(self._last.values()))

    def _end(self, lanes: Collection[str], over: asyncio.Future[None]) -> None:
        over.set_result(None)
        for lane in lanes:
            if self._last.get(lane) is over:
                del self._last[lane]
