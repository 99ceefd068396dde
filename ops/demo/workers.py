"""The demo's workers, each with a connection of its own, supervised and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from datetime import timedelta
from types import TracebackType
from typing import Self

from headgate.jobs.aws.backend import AsyncAwsBackend
from headgate.jobs.aws.sqs.transport import Observer
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import HeadgateError
from headgate.workers.configuration import WorkerSettings
from headgate.workers.shutdown import Report
from headgate.workers.worker import Worker

SETTINGS = WorkerSettings(
    concurrency=50,
    # Shorter than SQS's 20 s, since a stopping worker waits for its polls to return.
    receive_wait=timedelta(seconds=2),
    drain=timedelta(seconds=5),
)


class DemoWorkers:
    """Several workers in this event loop; use it with ``async with``."""

    def __init__(
        self,
        app: App,
        count: int,
        *,
        endpoint_url: str,
        region: str,
        events: Events,
        on_request: Observer | None = None,
    ) -> None:
        self._app = app
        self._events = events
        self._backends = [
            AsyncAwsBackend(
                app.topology, endpoint_url=endpoint_url, region=region, on_request=on_request
            )
            for _ in range(count)
        ]
        self._open = AsyncExitStack()
        self._workers: list[Worker] = []
        self._tasks: list[asyncio.Task[Report]] = []

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for backend in self._backends:
                await stack.enter_async_context(backend)
                self._workers.append(Worker(self._app, backend, SETTINGS, events=self._events))
            self._open = stack.pop_all()
        self._tasks = [
            asyncio.create_task(worker.run(), name=f"demo-worker-{number}")
            for number, worker in enumerate(self._workers, start=1)
        ]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop at once; call `stop` before for an orderly stop."""
        for worker in self._workers:
            worker.hurry()
        # A worker's error has already been raised by `work_until` or `stop`.
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._open.aclose()

    async def work_until(self, ended: Awaitable[None]) -> None:
        """Wait for ``ended``, and raise its error if any.

        Raises:
            HeadgateError: a worker ended first.
        """
        waiting = asyncio.ensure_future(ended)
        try:
            await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})
        if waiting.cancelled():
            fault = self._fault()
            raise HeadgateError(f"a worker ended while there was work: {fault}") from fault
        waiting.result()

    async def stop(self) -> list[Report]:
        """Stop all workers in order; returns their reports."""
        for worker in self._workers:
            worker.stop()
        # Not `gather`: if cancelled, it would cancel the workers, which must stop in order.
        await asyncio.wait(self._tasks)
        return [task.result() for task in self._tasks]

    def _fault(self) -> BaseException | None:
        return next((task.exception() for task in self._tasks if task.done()), None)
