"""Child processes in a life: each is a task, and dies like a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from headgate import App
from headgate.jobs.core.clock import Clock
from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.definitions.handlers.resources import OpenResources
from headgate.jobs.errors import ChildDied, ChildFailed, JobTimeout
from headgate.jobs.execution.calling.surroundings import Bounds, surrounded
from headgate.jobs.execution.delivery import Job
from headgate.jobs.retry.signals import JobSignal
from headgate.jobs.values.texts import text_of
from headgate.workers.isolation.sent_job import NotStarted

STARTING_S = 0.4
"""Seconds that a child takes to import its app."""


class Died(BaseException):
    """Ends the child process in which the handler runs."""


class SimulatedChild:
    """Has the interface of `workers.isolation.child_handle.Child`."""

    def __init__(self, app: App, grace_s: float) -> None:
        self._resources = OpenResources(app.resources)
        self.spent = asyncio.Event()
        self.jobs = 0
        self.rss_mb = self.fresh_mb = 50.0
        self._grace_s = grace_s
        self._attempt: asyncio.Task[Any] | None = None

    async def ready(self, _within_s: float) -> None:
        """Wait until it is ready to run a job."""
        await asyncio.sleep(STARTING_S)

    async def run(self, job: Job, _body: str, ctx: JobContext) -> Any:
        """Run a job, as the real child promises to."""
        if self.spent.is_set():
            raise NotStarted
        self.jobs += 1
        attempt = asyncio.create_task(self._handle(job, ctx), name="child")
        self._attempt = attempt
        try:
            await asyncio.wait({attempt}, timeout=job.timeout_s)
            if not attempt.done():
                raise JobTimeout(job.type.name, job.timeout_s)
            return attempt.result()
        except asyncio.CancelledError:
            if not attempt.done():
                attempt.cancel()
                await asyncio.wait({attempt}, timeout=self._grace_s)
            if not attempt.done() or attempt.cancelled():
                raise
            return attempt.result()
        finally:
            if not attempt.done():
                self.kill()
            self._attempt = None

    def kill(self) -> None:
        """End it at once."""
        self.spent.set()
        if self._attempt is not None:
            self._attempt.cancel()

    def retire(self) -> None:
        """Stop giving it jobs."""
        self.spent.set()

    async def _handle(self, job: Job, ctx: JobContext) -> Any:
        try:
            return await surrounded(
                lambda opened: job.handler.call(job.payload, ctx, opened),
                self._resources.layers(job.handler),
                self._resources.shared,
                ctx,
                Bounds(job.type.name, job.timeout_s, None),
            )
        except JobSignal:
            raise
        except Died:
            self.spent.set()
            raise ChildDied("the child process was ended by SIGKILL") from None
        except Exception as error:  # noqa: BLE001 - the child's boundary, as in the real one
            raise ChildFailed(
                type(error).__name__,
                text_of(error),
                traceback="",
                retryable=job.type.retry.should_retry(error),
                retry_after_s=None,
            ) from None


@asynccontextmanager
async def spawned(
    app: App, *, answers: Mapping[str, Any], clock: Clock, grace_s: float
) -> AsyncIterator[SimulatedChild]:
    """Replace `workers.isolation.child_handle.spawned`, given the app instead of its path."""
    del answers, clock
    child = SimulatedChild(app, grace_s)
    try:
        yield child
    finally:
        child.kill()
