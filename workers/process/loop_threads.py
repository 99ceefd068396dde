"""The threads of the event loop's default executor, with what still runs in them.

Async handlers use them by `asyncio.to_thread` and ``loop.run_in_executor(None, ...)``, and the loop
itself for DNS. The loop waits for all of them when it is closed, and a thread can't be stopped: so
a worker has to know of those that run on when it ends, after their handlers were cancelled.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_LOOK_S = 0.05
"""Seconds between looks at whether calls have ended."""


class LoopThreads(ThreadPoolExecutor):
    """An event loop's default executor that tells which calls still run."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="headgate-loop")
        self._calls: dict[Future[Any], str] = {}

    @classmethod
    def of_running_loop(cls) -> LoopThreads:
        """Return new threads that the running loop uses from now on."""
        threads = cls()
        asyncio.get_running_loop().set_default_executor(threads)
        return threads

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Call a function in a thread."""
        future = super().submit(fn, *args, **kwargs)
        self._calls[future] = _name_of(fn)
        future.add_done_callback(self._ended)
        return future

    @property
    def busy(self) -> bool:
        """True while a call runs, for which closing the loop would wait."""
        return any(future.running() for future in tuple(self._calls))

    async def finish(self, *, within_s: float, hurry: asyncio.Event) -> None:
        """Wait until every call has ended, for that time at most, or until there is a hurry."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + within_s
        while self._calls and (left_s := ends_at - loop.time()) > 0 and not hurry.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, _LOOK_S)):
                    await hurry.wait()

    def left_running(self, *, after_s: float) -> tuple[str, ...]:
        """Return the names of the functions that still run after a while, which blocks this thread.

        What has not begun by then never does.
        """
        self.shutdown(wait=False, cancel_futures=True)
        left = wait(tuple(self._calls), timeout=after_s).not_done
        return tuple(sorted(self._calls[future] for future in left if future in self._calls))

    def _ended(self, future: Future[Any]) -> None:
        self._calls.pop(future, None)


def _name_of(function: Callable[..., Any]) -> str:
    if isinstance(function, functools.partial):
        # `asyncio.to_thread` passes a call of `contextvars.Context.run`.
        is_run = getattr(function.func, "__name__", "") == "run" and function.args
        return _name_of(function.args[0] if is_run else function.func)
    return str(getattr(function, "__qualname__", type(function).__qualname__))
