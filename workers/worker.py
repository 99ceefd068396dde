"""The worker: starts its parts, watches them, and stops them in order."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from headgate.jobs.core.backend import AsyncBackend
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.handlers.resources import OpenResources
from headgate.jobs.definitions.policies import load_handlers
from headgate.jobs.execution.calling.means import OpenSpan, cancelled_with_this_task, no_span
from headgate.workers.configuration import DEFAULTS, WorkerSettings
from headgate.workers.lifespan import Lifespan
from headgate.workers.parts import Parts
from headgate.workers.services import Services, made_up_name
from headgate.workers.shutdown import Report, drain


class Worker:
    """Runs an app's jobs in this event loop until it is stopped.

    Args:
        app: its handlers are loaded here.
        backend: gives it AWS and the time, open; it is left open.
        settings: the worker's settings, such as its concurrency and queues.
        open_span: opens a span for each call of a handler.
        name: the worker's unique name in records and leases; None generates one.
        events: receives all events.

    Raises:
        ConfigurationError: a handler module can't be imported, a type has no handler, or the app
            has no queue of the settings' priorities.
        UnknownQueue: the settings name a queue group that the app doesn't have.
    """

    def __init__(
        self,
        app: App,
        backend: AsyncBackend,
        settings: WorkerSettings = DEFAULTS,
        *,
        open_span: OpenSpan = no_span,
        name: str | None = None,
        events: Events | None = None,
    ) -> None:
        load_handlers(app)
        ports = backend.async_ports
        services = Services(
            app=app,
            clock=ports.clock,
            events=events or Events(),
            rng=ports.rng,
            name=name or made_up_name(),
        )
        self._clock = services.clock
        self._settings = settings
        self._begun = False
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._lifespan = Lifespan(
            app.resources,
            drain_s=settings.drain.total_seconds(),
            clock=services.clock,
            stop=self._stop,
            hurry=self._hurry,
        )
        self._parts = Parts(services, settings, backend, open_span=open_span)

    @property
    def is_stuck(self) -> bool:
        """True while a synchronous handler runs, or a resource was left open that ignores its
        cancellation: the process would not end by itself."""
        return self._parts.threads.busy or self._lifespan.is_stuck

    def active(self) -> list[tuple[str, str]]:
        """Return the type and queue of each job whose handler runs now."""
        return [
            (job.type.name, hold.delivery.queue.group)
            for hold in self._parts.running.unfinished
            if (job := hold.run.job) is not None
        ]

    def in_loop(self) -> set[str]:
        """Return the types whose async handlers run in this event loop, or have just ended.

        What blocked the loop ends in the same turn, and is being settled when that is noticed.
        """
        return {
            job.type.name
            for hold in self._parts.running.unsettled
            if hold.run.began
            and (job := hold.run.job) is not None
            and job.handler.is_async
            and not self._parts.means.isolates(job)
        }

    def budgets_left(self) -> Mapping[str, float]:
        """Return the number of retries left in each budget, by limit name."""
        return self._parts.gate.budgets_left()

    def faults(self) -> Mapping[str, str]:
        """Return the faults of the table that last, by the health check that they belong to.

        Each is an event once, however long it lasts.
        """
        faults = {"records": self._parts.books.fault, "limits": self._parts.gate.fault}
        return {name: fault for name, fault in faults.items() if fault}

    def outlasts(self, seconds: float) -> bool:
        """Return True if a running job was received more than ``seconds`` ago."""
        now = self._clock.monotonic()
        running = self._parts.running.unfinished
        return any(now - hold.delivery.received_at > seconds for hold in running)

    @property
    def is_receiving(self) -> bool:
        """True while it runs and has not begun to stop."""
        return self._begun and not self._stop.is_set()

    @property
    def is_held_back(self) -> bool:
        """True while it receives from no queue because its limits and slots leave no room.

        A worker without a child process that can run jobs is not: a deploy whose children can't
        start has to fail.
        """
        children = self._parts.children
        if not self._parts.gate.is_known or (children is not None and not children.capacity):
            return False
        return all(poller.has_no_room for poller in self._parts.pollers)

    def stop(self) -> None:
        """Begin to stop: nothing new is received, and running jobs may finish within ``drain``."""
        self._stop.set()
        # Now and not when `run` wakes up: a poll that returns meanwhile must not start another.
        self._parts.close()

    def hurry(self) -> None:
        """Stop at once: running jobs are interrupted, and held messages are given back."""
        self.stop()
        self._hurry.set()

    async def run(self) -> Report:
        """Run until `stop` is called or a part fails; return a report of unfinished work.

        A stop while the app's resources open cancels that, and then they have to close in time.

        When cancelled, it gives back all held messages at once before it ends.

        Raises:
            CredentialsNotConfigured, RegionMissing: nothing can be received.
            QueuesMissing: none of its queues has existed for ``queue_grace``.
            Exception: a part of the worker failed; all messages were given back before.
        """
        if self._stop.is_set():
            return Report()
        self._parts.means.is_cancelled = cancelled_with_this_task()
        work = asyncio.create_task(self._lifespan.run(self._work), name="headgate-worker")
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self.hurry()
            while not work.done():
                with suppress(asyncio.CancelledError):  # cancelled again: messages still go back
                    await asyncio.wait([work])
            raise

    async def _work(self, resources: OpenResources) -> Report:
        self._parts.means.resources = resources
        async with self._parts.children_open():
            self._begun = True
            return await self._work_with_children()

    async def _work_with_children(self) -> Report:
        await self._parts.introduce()
        polls = {
            asyncio.create_task(poller.run(), name=f"headgate-poll-{poller.queue.name}")
            for poller in self._parts.pollers
        }
        supports = {
            asyncio.create_task(run, name=f"headgate-{name}")
            for name, run in self._parts.supports()
        }
        stopped = asyncio.create_task(self._stop.wait(), name="headgate-stop")
        missing = asyncio.create_task(
            self._parts.queues.none_for(self._settings.queue_grace.total_seconds()),
            name="headgate-queues",
        )
        ends = {stopped, missing, *polls, *supports}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            missing.cancel()  # it counts only if it was first
            self._parts.close()
            if any(task.done() for task in supports):
                self._hurry.set()  # without a heartbeat other workers would soon run the jobs too
            report = await drain(
                self._parts.running,
                self._parts.settler,
                polls,
                bound_s=self._settings.drain.total_seconds(),
                hurry=self._hurry,
            )
            await self._parts.flush()
        finally:
            await _end(ends)
            self._parts.threads.close()
            self._parts.hooks.close()
        _raise_first_fault(ends)
        return report


async def _end(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _raise_first_fault(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error
