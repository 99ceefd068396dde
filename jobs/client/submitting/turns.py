"""The order of overlapping calls: each waits for earlier ones that share a lane with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager


class Turns:
    """Serializes calls that share a lane, in the order in which they begin.

    Used within one event loop. A call that waits for a turn while it has one would wait for ever,
    so code that runs within a turn needs a `Turns` of its own.
    """

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Future[None]] = {}
        """The end of the latest call, by lane."""

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
                # If this call is cancelled while it waits, later ones still wait for earlier ones.
                asyncio.gather(*pending).add_done_callback(lambda _: self._end(lanes, over))
            else:
                self._end(lanes, over)

    def busy(self, lane: str) -> bool:
        """Return True if a call has its turn on that lane, or waits for it."""
        return lane in self._last

    async def all_over(self) -> None:
        """Wait until no call has a turn or waits for one."""
        while self._last:
            await asyncio.wait(set(self._last.values()))

    def _end(self, lanes: Collection[str], over: asyncio.Future[None]) -> None:
        over.set_result(None)
        for lane in lanes:
            if self._last.get(lane) is over:
                del self._last[lane]
