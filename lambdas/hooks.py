"""Hooks in a Lambda function, whose code runs only during an invocation."""

from __future__ import annotations

import asyncio

from headgate.jobs.execution.hook_runner import HookRunner
from headgate.jobs.values.own_log import OwnLog

LONGEST_S = 5.0
"""Seconds that an invocation waits for hooks once its jobs have ended."""

_log = OwnLog("headgate.consumer")


class InvocationHooks:
    """Calls hooks while invocations run.

    Lambda freezes the process between two of them. So an invocation waits for the hooks of its own
    events; those that take too long go on in the next one, if this process gets another.
    """

    def __init__(self, runner: HookRunner) -> None:
        self._runner = runner
        self._calling: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Call hooks from now on."""
        if self._calling is None:
            self._calling = asyncio.create_task(self._runner.run(), name="headgate-hooks")

    async def end(self, answer_at: float) -> None:
        """Wait until all hooks have been called, for a few seconds and no later than that time."""
        until = min(answer_at, asyncio.get_running_loop().time() + LONGEST_S)
        try:
            async with asyncio.timeout_at(until):
                await self._runner.drain()
        except TimeoutError:
            _log.warning("hooks still run when the function answers; the next invocation goes on")
            return
        await self._stop()

    async def close(self) -> None:
        """Call no more hooks."""
        await self._stop()
        self._runner.close()

    async def _stop(self) -> None:
        if (calling := self._calling) is not None:
            self._calling = None
            calling.cancel()
            await asyncio.wait([calling])
