"""The inline fallback of `Client`, in the calling thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from headgate.jobs.client.fallback import Result
from headgate.jobs.client.inline.async_inline import AsyncInline
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import running_loop
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.app import App
from headgate.jobs.execution.calling.handler_host import Handles, Send
from headgate.jobs.submission.prepare import Submission

T = TypeVar("T")


class Inline:
    """A `jobs.client.fallback.Fallback` that runs jobs in the calling thread, one after the other.

    It never suspends: the calling thread is blocked.

    Args:
        app: as for `AsyncInline`.
        send: sends the handlers' submissions, and blocks.
        handles: makes their handles.
        clock: tells the time.
        events: receives an event for each step.
    """

    stores = False

    def __init__(
        self,
        app: App,
        *,
        send: Callable[[Sequence[Submission]], Sequence[Submission]],
        handles: Handles,
        clock: Clock,
        events: Events,
    ) -> None:
        self._send = send
        self._inner = AsyncInline(
            app,
            sending=self._in_order,
            handles=handles,
            clock=clock,
            events=events,
        )

    async def open(self) -> None:
        """Import the handlers; see `AsyncInline.open`."""
        await self._inner.open()

    async def takes(self, submissions: Sequence[Submission]) -> bool:
        """Return False: SQS is always asked first."""
        return await self._inner.takes(submissions)

    async def instead(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result]:
        """Run the jobs that SQS could not be asked to take, and return when they have ended."""
        if (adopted := self._inner.adopted(submissions, results)) is not None:
            return adopted
        return _run_blocking(lambda: self._inner.instead(submissions, results))

    async def close(self) -> None:
        """Do nothing: nothing is left open."""

    @contextmanager
    def _in_order(self) -> Iterator[Send]:
        """Yield a function that sends one job after the other, in a thread."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="headgate-inline-submit") as thread:
            yield lambda submission: loop.run_in_executor(
                thread, copy_context().run, self._send_one, submission
            )

    def _send_one(self, submission: Submission) -> Submission:
        [became] = self._send([submission])
        return became


def _run_blocking(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end, even if this thread has an event loop, which is then blocked."""
    if running_loop() is None:
        return asyncio.run(make())
    with ThreadPoolExecutor(1, thread_name_prefix="headgate-inline") as thread:
        return thread.submit(copy_context().run, lambda: asyncio.run(make())).result()
