"""The worker: starts its parts, watches them, and stops them in order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports import ObjectStore, Scheduler, Table, Transport
from headgate.jobs.definitions.app import App
from headgate.jobs.execution.call import Around, nothing_around
from headgate.workers.configuration import DEFAULTS, WorkerSettings
from headgate.workers.parts import Parts
from headgate.workers.services import Services, made_up_name
from headgate.workers.shutdown import Report, drain


class Worker:
    """Runs an app's jobs in this event loop until it is stopped.

    Args:
        app: its handlers are loaded here.
        transport: open, and left open.
        settings: how many jobs at once, of which queues, and so on.
        table: open, and left open; for records, limits of the fleet, and types with ``once=True``.
        scheduler: left open; for waits beyond what SQS can hold.
        store: open, and left open; for payloads that are too large for messages.
        around: entered around each call of a handler.
        name: tells this worker from others, in records and leases; None makes one up.
        clock: tells the time.
        events: hears of everything.
        rng: spreads pauses.

    Raises:
        ConfigurationError: a handler module doesn't import, a type has no handler, the app needs
            a table and there is none, or it has no queue of the settings' priorities.
        UnknownQueue: the settings name a queue group that the app doesn't have.
    """

    def __init__(
        self,
        app: App,
        transport: Transport,
        settings: WorkerSettings = DEFAULTS,
        *,
        table: Table | None = None,
        scheduler: Scheduler | None = None,
        store: ObjectStore | None = None,
        around: Around = nothing_around,
        name: str | None = None,
        clock: Clock | None = None,
        events: Events | None = None,
        rng: random.Random | None = None,
    ) -> None:
        app.load_handlers()
        services = Services(
            app=app,
            clock=clock or SystemClock(),
            events=events or Events(),
            rng=rng or random.Random(),  # noqa: S311 - spreads pauses, guards no secret
            name=name or made_up_name(),
        )
        self._app = app
        self._clock = services.clock
        self._settings = settings
        self._begun = False
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._parts = Parts(
            services,
            settings,
            transport,
            table=table,
            scheduler=scheduler,
            store=store,
            around=around,
        )

    @property
    def is_stuck(self) -> bool:
        """Whether a plain function still runs, so that the process would not end by itself."""
        return self._parts.threads.busy

    def active(self) -> list[tuple[str, str]]:
        """The type and queue of each job whose handler runs now."""
        return [
            (job.type.name, hold.delivery.queue.group)
            for hold in self._parts.running.unfinished
            if (job := hold.run.job) is not None
        ]

    def in_loop(self) -> set[str]:
        """The types whose async handlers run now, in this event loop."""
        return {
            job.type.name
            for hold in self._parts.running.unfinished
            if (job := hold.run.job) is not None
            and job.handler.is_async
            and not self._parts.means.isolates(job)
        }

    def budgets_left(self) -> Mapping[str, float]:
        """How many retries each budget has left, by its limit's name."""
        return self._parts.gate.budgets_left()

    def outlasts(self, seconds: float) -> bool:
        """Whether a job runs that came longer ago than that."""
        now = self._clock.monotonic()
        running = self._parts.running.unfinished
        return any(now - hold.delivery.received_at > seconds for hold in running)

    @property
    def is_receiving(self) -> bool:
        """Whether it runs, and has not begun to stop."""
        return self._begun and not self._stop.is_set()

    @property
    def is_held_back(self) -> bool:
        """True if it receives nothing, from any queue, since its limits and slots leave no room."""
        return self._parts.gate.is_known and all(
            poller.has_no_room for poller in self._parts.pollers
        )

    def stop(self) -> None:
        """Begin to stop: nothing new is received, running jobs may finish within ``drain``."""
        self._stop.set()
        # Now, not when `run` wakes up: a poll that returns meanwhile starts no other.
        self._parts.close()

    def hurry(self) -> None:
        """Stop at once: running jobs are interrupted, and what is held is given back."""
        self.stop()
        self._hurry.set()

    async def run(self) -> Report:
        """Work until `stop` is called or a part fails; returns what was left behind.

        Cancelled, it hurries to give back what it holds before it ends.

        Raises:
            CredentialsNotConfigured, RegionMissing: nothing can be received.
            QueuesMissing: none of its queues has existed for ``queue_grace``.
            Exception: a part of the worker failed; everything was given back before.
        """
        if self._stop.is_set():
            return Report()
        work = asyncio.create_task(self._work(), name="headgate-worker")
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self.hurry()
            while not work.done():
                with suppress(asyncio.CancelledError):  # asked again: what is held still goes back
                    await asyncio.wait([work])
            raise

    async def _work(self) -> Report:
        async with self._app.resources.opened() as shared, self._parts.children_open():
            self._parts.means.shared = shared
            self._begun = True
            return await self._work_with_resources()

    async def _work_with_resources(self) -> Report:
        await self._parts.books.introduce()
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
            missing.cancel()  # it has its say only if it was first
            self._parts.close()
            if any(task.done() for task in supports):
                self._hurry.set()  # without a heartbeat other workers would soon run it as well
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
