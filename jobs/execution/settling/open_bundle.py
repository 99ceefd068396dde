"""The jobs of a received bundle, while they are settled.

A job that is done needs nothing more. Any other goes on in a message of its own, which is sent once
all jobs of the bundle have ended: were it sent at once, and the process died before the end of the
others, the job would exist twice, there and in the bundle. The bundle is deleted when nothing is
left of it: each of its jobs is done, or in another message.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from headgate.jobs.core.ports.transport import ReceivedMessage


class OpenBundle:
    """A received bundle.

    Args:
        message: the whole message.
        jobs: the number of its jobs.
    """

    __slots__ = ("_all_ended", "_left", "_running", "message_id", "receives")

    def __init__(self, message: ReceivedMessage, *, jobs: int) -> None:
        self.message_id = message.message_id
        """SQS's id of the whole message."""
        self.receives = message.receive_count
        """Deliveries of the whole message so far, from 1."""
        self._running = self._left = jobs
        self._all_ended: asyncio.Event | None = None

    @property
    def is_settled(self) -> bool:
        """True once nothing is left of it, so that it may be deleted."""
        return not self._left

    def end_one(self) -> None:
        """Note that one more of its jobs has ended."""
        self._running -= 1
        if not self._running and self._all_ended is not None:
            self._all_ended.set()

    def settle_one(self) -> None:
        """Note that one more of its jobs is done, or in another message."""
        self._left -= 1

    async def all_ended(self, within_s: float) -> None:
        """Wait until all of its jobs have ended, or the time is over."""
        if not self._running:
            return
        if self._all_ended is None:
            self._all_ended = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._all_ended.wait()


class BundlePart:
    """The part of a bundle that is one job."""

    __slots__ = ("_has_ended", "_is_settled", "bundle")

    def __init__(self, bundle: OpenBundle) -> None:
        self.bundle = bundle
        self._has_ended = self._is_settled = False

    def end(self) -> None:
        """Note that the job has an outcome. Idempotent."""
        if not self._has_ended:
            self._has_ended = True
            self.bundle.end_one()

    def settle(self) -> bool:
        """Note that the job is done, or in another message; return True if it is the last one."""
        if self._is_settled:
            return False
        self._is_settled = True
        self.bundle.settle_one()
        return self.bundle.is_settled
