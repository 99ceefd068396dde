"""Threads for synchronous handlers, and for what else would block the event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class HandlerThreads:
    """A bounded pool of threads: the `Means.call_blocking` of a worker and of a function.

    Args:
        most: maximum number of threads.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool = self._made()
        self._running: set[object] = set()

    async def __call__(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread, with a copy of the current context variables."""
        context, token = contextvars.copy_context(), object()

        def run() -> Any:
            self._running.add(token)  # here, since what is cancelled before it begins never ends
            try:
                return context.run(function)
            finally:
                # Not when the future is done: a cancelled one leaves its thread running.
                self._running.discard(token)

        return await asyncio.get_running_loop().run_in_executor(self._pool, run)

    @property
    def busy(self) -> bool:
        """True while a thread runs, which would keep the interpreter from ending."""
        return bool(self._running)

    def renew(self) -> None:
        """Abandon the threads that can't be stopped, since later jobs need their places."""
        self.close()
        self._pool = self._made()

    def close(self) -> None:
        """Take no more work; a thread that still runs is left alone, since it can't be stopped.
        Idempotent."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _made(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._most, thread_name_prefix="headgate-job")
