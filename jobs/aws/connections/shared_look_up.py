"""A look-up of AWS credentials that calls share, and that none of them ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from botocore.exceptions import BotoCoreError, CredentialRetrievalError

from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.aws")

MOST_S = 30.0
"""Maximum seconds for a look-up; botocore has no bound for a ``credential_process``."""

PAUSE_S = 10.0
"""Seconds from the end of an attempt to the next, while the credentials are valid."""


class SharedLookUp:
    """Looks credentials up once for all calls that wait, for at most `MOST_S`.

    It does so in a task of its own: a call that waits no longer, or is cancelled, leaves it to the
    others, and to those that come.

    Args:
        look_up: keeps what it finds, perhaps for a later call; it may raise anything.
    """

    def __init__(self, look_up: Callable[[], Awaitable[object]]) -> None:
        self._look_up = look_up
        self._task: asyncio.Task[None] | None = None
        self._started_s = self._ended_s = float("-inf")

    async def ended(self, within_s: float) -> None:
        """Wait for the end of the look-up under way, or of a new one.

        Raises:
            BotoCoreError: it fails, or takes longer than that.
        """
        task = self._under_way() or self._start()
        await asyncio.wait([task], timeout=within_s)
        if not task.done():
            raise named(TimeoutError())
        try:
            task.result()
        except Exception as error:
            raise named(error) from error

    async def attempt(self, first_s: float) -> None:
        """Have a look-up made, and wait for it, but only in its first seconds.

        Does nothing for `PAUSE_S` after the end of one: each call makes an attempt, and a source
        that fails, or whose credentials expire soon, would be asked without a pause.
        """
        now_s = asyncio.get_running_loop().time()
        task = self._under_way()
        if task is None:
            if now_s < self._ended_s + PAUSE_S:
                return
            task = self._start()
        if (left_s := self._started_s + first_s - now_s) > 0:
            await asyncio.wait([task], timeout=left_s)

    def _under_way(self) -> asyncio.Task[None] | None:
        return None if self._task is None or self._task.done() else self._task

    def _start(self) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        self._started_s = loop.time()
        self._task = loop.create_task(self._bounded(), name="look-up of AWS credentials")
        self._task.add_done_callback(_tell)
        return self._task

    async def _bounded(self) -> None:
        try:
            async with asyncio.timeout(MOST_S):
                await self._look_up()
        finally:
            self._ended_s = asyncio.get_running_loop().time()


def _tell(task: asyncio.Task[None]) -> None:
    """Log a failure: perhaps no call has waited for it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning("a look-up of AWS credentials failed: %s", named(error))


def named(error: BaseException) -> BotoCoreError:
    """Return botocore's own error, or one with another's class alone: a text may show secrets."""
    if isinstance(error, BotoCoreError):
        return error
    said = "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    return CredentialRetrievalError(provider="botocore", error_msg=said)
