"""The worker: puts its parts together, watches them, and stops them in order."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from jobs.aio import AsyncClient
from jobs.app import App
from jobs.calling import Means
from jobs.clock import Clock, SystemClock
from jobs.errors import ConfigurationError, SettingsInvalid
from jobs.events import Events
from jobs.execution import Executor
from jobs.ports import Table, Transport
from jobs.topology import Priority, QueueSpec
from workers.backlog import Backlog
from workers.choosing import Waiting
from workers.heartbeat import Heartbeat
from workers.holding import Hold, Holdings
from workers.hooks import HookRunner
from workers.isolation import ChildPool
from workers.limiting import Gate
from workers.polling import Demand, Poller
from workers.recording import Recorder
from workers.running import Running, ThreadPool
from workers.settling import SETTLEMENT_PACING, Settler
from workers.shutdown import FLUSH_S, Report, drain

_MOST_CONCURRENCY = 1000

_PATIENCE = 12.0
"""How much longer a message that comes again is kept waiting for a slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How one worker process works.

    Raises:
        SettingsInvalid: a value is out of range.
    """

    concurrency: int = 50
    """Jobs at once, 1 to 1000; also the number of threads for plain functions."""
    reserved: int | None = None
    """Of them, those that only critical jobs may take, so that one which comes starts at once. None
    takes a tenth of ``concurrency``, rounded down, if the worker has critical and other queues."""
    queues: tuple[str, ...] | None = None
    """The queue groups to work on; None means all of the app's."""
    drain: timedelta = timedelta(seconds=22)
    """How long running jobs may go on after SIGTERM. It lets the longest receive return, and with
    the 5 s that interruption and the last settlements may take it fits into ECS's stop timeout of
    30 s; raise both together."""
    give_back_after: timedelta = timedelta(seconds=5)
    """A received message that found no slot for so long goes back to its queue; each time that it
    comes again it is kept twelve times longer."""
    receive_wait: timedelta | None = None
    """How long a poll waits for the first message, 1 to 20 s; None takes the queue's, 20 s."""

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= _MOST_CONCURRENCY:
            raise SettingsInvalid(
                f"concurrency must lie between 1 and {_MOST_CONCURRENCY}, got {self.concurrency}"
            )
        if self.reserved is not None and not 0 <= self.reserved < self.concurrency:
            raise SettingsInvalid(
                f"reserved must leave other jobs a slot: 0 to {self.concurrency - 1} of "
                f"{self.concurrency}, got {self.reserved}"
            )
        if self.drain < timedelta(0):
            raise SettingsInvalid(f"drain must not be negative, got {self.drain}")
        if self.give_back_after <= timedelta(0):
            raise SettingsInvalid(f"give_back_after must be positive, got {self.give_back_after}")
        if self.receive_wait is not None and not (
            timedelta(seconds=1) <= self.receive_wait <= timedelta(seconds=20)
        ):
            raise SettingsInvalid(
                f"receive_wait must lie between 1 and 20 s, SQS's limit, got {self.receive_wait}"
            )


class Worker:
    """Runs an app's jobs in this event loop until it is stopped.

    Args:
        app: its handlers are loaded here.
        transport: open, and left open.
        settings: how many jobs at once, of which queues, and so on.
        table: open, and left open; for records and for limits of the fleet.
        name: tells this worker from others, in records and leases; None makes one up.
        clock: tells the time.
        events: hears of everything.
        rng: spreads pauses.

    Raises:
        ConfigurationError: a handler module doesn't import, or a type has no handler.
        UnknownQueue: the settings name a queue group that the app doesn't have.
    """

    def __init__(
        self,
        app: App,
        transport: Transport,
        settings: WorkerSettings = WorkerSettings(),
        *,
        table: Table | None = None,
        name: str | None = None,
        clock: Clock | None = None,
        events: Events | None = None,
        rng: random.Random | None = None,
    ) -> None:
        app.load_handlers()
        self._app = app
        topology = app.topology
        clock = clock or SystemClock()
        events = events or Events()
        rng = rng or random.Random()  # noqa: S311 - spreads pauses, guards no secret
        name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        self._settings = settings
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._clock = clock
        queues = sorted(topology.select(settings.queues), key=lambda spec: spec.priority.rank)
        if not queues:
            raise ConfigurationError(
                f"the app {app.name!r} has no queue to work on: declare job types, or name queue "
                "groups that it has"
            )
        self._holdings = Holdings()
        self._waiting = Waiting(queues)
        self._demand = Demand(
            settings.concurrency,
            _reserved(settings, queues),
            self._waiting,
            self._holdings,
            clock,
            on_change=self._notice,
        )
        self._threads = ThreadPool(settings.concurrency)
        self._gate = Gate()
        self._children = _children()
        self._recorder = (
            Recorder(app, table, worker=name, clock=clock, events=events, rng=rng)
            if table is not None and app.records != "off"
            else None
        )
        self._settler = Settler(
            transport,
            topology,
            self._holdings,
            clock=clock,
            events=events,
            eager=lambda: self._demand.busy == 0,
            rng=rng,
            pacing=SETTLEMENT_PACING,
        )
        self._client = AsyncClient(app, transport=transport, clock=clock, events=events)
        self._hooks = HookRunner(app, clock=clock, events=events)
        events.subscribe(self._hooks)
        self._means = Means(
            app=app,
            clock=clock,
            events=events,
            send=self._client.send,
            call_blocking=self._threads,
            call_isolated=self._children.call if self._children is not None else None,
        )
        self._running = Running(
            Executor(self._means, backlog=Backlog(transport, clock)),
            self._settler,
            self._waiting,
            self._holdings,
            self._demand,
            self._gate,
            recorder=self._recorder,
            children=self._children,
            on_change=self._notice,
        )
        self._heartbeat = Heartbeat(transport, queues, self._holdings, clock=clock, events=events)
        self._pollers = [
            Poller(
                queue,
                transport,
                self._demand,
                self._waiting,
                self._running.deliver,
                wait_s=(settings.receive_wait or queue.receive_wait).total_seconds(),
                clock=clock,
                events=events,
                rng=rng,
            )
            for queue in queues
        ]

    @property
    def is_stuck(self) -> bool:
        """Whether a plain function still runs, so that the process would not end by itself."""
        return self._threads.busy

    def active(self) -> list[tuple[str, str]]:
        """The type and queue of each job whose handler runs now."""
        return [
            (job.type.name, job.type.queue)
            for hold in self._running.unfinished
            if (job := hold.run.job) is not None
        ]

    def stop(self) -> None:
        """Begin to stop: nothing new is received, running jobs may finish within ``drain``."""
        self._stop.set()
        self._close()  # now, not when `run` wakes up: a poll that returns meanwhile starts no other

    def hurry(self) -> None:
        """Stop at once: running jobs are interrupted, and what is held is given back."""
        self.stop()
        self._hurry.set()

    async def run(self) -> Report:
        """Work until `stop` is called or a part fails; returns what was left behind.

        Cancelled, it hurries to give back what it holds before it ends.

        Raises:
            CredentialsMissing, RegionMissing: nothing can be received.
            Exception: a part of the worker failed; everything was given back before.
        """
        if self._stop.is_set():
            return Report()
        work = asyncio.create_task(self._work(), name="headgate-worker")
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self.hurry()
            await asyncio.wait([work])
            raise

    async def _work(self) -> Report:
        async with self._app.resources.opened() as shared:
            self._means.shared = shared
            return await self._work_with_resources()

    async def _work_with_resources(self) -> Report:
        polls = {
            asyncio.create_task(poller.run(), name=f"headgate-poll-{poller.queue.name}")
            for poller in self._pollers
        }
        supports = {
            asyncio.create_task(self._heartbeat.run(), name="headgate-heartbeat"),
            asyncio.create_task(self._give_back(), name="headgate-give-back"),
            asyncio.create_task(self._hooks.run(), name="headgate-hooks"),
        }
        stopped = asyncio.create_task(self._stop.wait(), name="headgate-stop")
        try:
            await asyncio.wait({stopped, *polls, *supports}, return_when=asyncio.FIRST_COMPLETED)
            self._close()
            if any(task.done() for task in supports):
                self._hurry.set()  # without a heartbeat other workers would soon run it as well
            report = await drain(
                self._running,
                self._settler,
                polls,
                bound_s=self._settings.drain.total_seconds(),
                hurry=self._hurry,
            )
            await self._flush()
        finally:
            await _end({stopped, *polls, *supports})
            self._threads.close()
            self._hooks.close()
        _raise_first_fault({*polls, *supports})
        return report

    async def _flush(self) -> None:
        """Let what stands beside the jobs come to an end, within a bound."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await self._client.close()
                await self._hooks.drain()
                if self._recorder is not None:
                    await self._recorder.drain()

    def _close(self) -> None:
        for poller in self._pollers:
            poller.stop()
        self._running.close()

    async def _give_back(self) -> None:
        """Return what has found no slot for a while, so that other workers can have it."""
        first_s = self._settings.give_back_after.total_seconds()
        while True:
            await asyncio.sleep(min(1.0, first_s))
            overdue = partial(_is_overdue, first_s=first_s, now=self._clock.monotonic())
            for hold in self._waiting.take_if(overdue):
                self._running.release(hold)
            self._notice()

    def _notice(self) -> None:
        for poller in self._pollers:
            poller.notice()


def _reserved(settings: WorkerSettings, queues: Collection[QueueSpec]) -> int:
    if settings.reserved is not None:
        return settings.reserved
    critical = sum(spec.priority is Priority.CRITICAL for spec in queues)
    return settings.concurrency // 10 if 0 < critical < len(queues) else 0


def _is_overdue(hold: Hold, *, first_s: float, now: float) -> bool:
    # Each return costs one of the receives that the attempts and SQS's redrive count, so a message
    # must not be handed round quickly; nor may it wait here for long while another worker is idle.
    patience_s = first_s * (_PATIENCE if hold.delivery.message.receive_count > 1 else 1)
    return hold.lost or now - hold.delivery.received_at > patience_s


async def _end(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _raise_first_fault(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error


def _children() -> ChildPool | None:
    return None
