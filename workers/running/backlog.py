"""The depth of queues, for adaptive backoffs: requested rarely, and never blocking a retry."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports.transport import AsyncTransport
from headgate.jobs.errors import TransportError

_FRESH_S = 15.0


class Backlog:
    """Caches each queue's depth for a while."""

    def __init__(self, transport: AsyncTransport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._known: dict[str, tuple[float, int]] = {}
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __call__(self, queue: str) -> int:
        """Return the visible messages, up to 15 s old; the last known number (or 0) on failures."""
        async with self._asking[queue]:  # jobs that fail together share one request
            return await self._depth(queue)

    async def _depth(self, queue: str) -> int:
        now = self._clock.monotonic()
        asked_at, depth = self._known.get(queue, (now - _FRESH_S, 0))
        if now - asked_at >= _FRESH_S:
            with suppress(TransportError):  # a retry must not depend on this call
                depth = (await self._transport.depth(queue)).visible
            self._known[queue] = (now, depth)
        return depth
