"""The worker: puts its parts together, watches them, and stops them in order."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.context import JobContext
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports import ObjectStore, OutgoingMessage, Scheduler, Table, Transport
from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.app_path import app_path
from headgate.jobs.execution.call import Around, Means, nothing_around
from headgate.jobs.execution.claimed_call import require_claims
from headgate.jobs.execution.claims import Claims
from headgate.jobs.execution.delivery import Job
from headgate.jobs.execution.recording.recorder import Recorder
from headgate.jobs.execution.run import Executor
from headgate.jobs.messages.envelope import parse
from headgate.jobs.records.cancellations import Cancelling
from headgate.jobs.records.lives import Lives
from headgate.jobs.submission.prepare import Submission
from headgate.workers.configuration import DEFAULTS, WorkerSettings
from headgate.workers.dispatch.admission import Admission
from headgate.workers.dispatch.once_per_turn import OncePerTurn
from headgate.workers.dispatch.patience import Patience
from headgate.workers.dispatch.returning import Returns
from headgate.workers.dispatch.shares import Shares
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.held import Holdings
from headgate.workers.isolation.child_pool import ChildPool
from headgate.workers.limits.gate import Gate
from headgate.workers.observability.lifeline import Lifeline
from headgate.workers.receiving.demand import Demand
from headgate.workers.receiving.heartbeat import Heartbeat
from headgate.workers.receiving.poller import Poller
from headgate.workers.receiving.pollers import Pollers
from headgate.workers.receiving.queue_watch import QueueWatch
from headgate.workers.running.backlog import Backlog
from headgate.workers.running.hook_runner import HookRunner
from headgate.workers.running.runner import Running, ThreadPool
from headgate.workers.running.settler import SETTLEMENT_PACING, Settler
from headgate.workers.running.trimmer import Trimmer
from headgate.workers.shutdown import FLUSH_S, Report, drain

_log = logging.getLogger("headgate.worker")


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
        self._app = app
        topology = app.topology
        clock = clock or SystemClock()
        events = events or Events()
        rng = rng or random.Random()  # noqa: S311 - spreads pauses, guards no secret
        name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        self._settings = settings
        self._begun = False
        self._look_soon = OncePerTurn(self._look)
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._clock = clock
        queues = sorted(settings.lanes.of(topology), key=lambda spec: spec.priority.rank)
        self._queues = QueueWatch([queue.name for queue in queues], clock=clock)
        events.subscribe(self._queues)
        self._holdings = Holdings()
        self._threads = ThreadPool(settings.concurrency)
        self._gate = Gate(
            app,
            clock=clock,
            events=events,
            rng=rng,
            table=table,
            worker=name,
            on_change=self._look,
        )
        self._children = self._pool(settings.children, rng) if _isolates(app) else None
        self._admission = Admission(app, self._gate, self._children, clock=clock)
        shares = Shares(queues, slots=settings.concurrency)
        self._waiting = Waiting(queues, shares, block=self._admission.block)
        self._demand = Demand(
            settings.concurrency,
            _reserved(settings, queues),
            self._waiting,
            self._holdings,
            shares,
            clock,
            acceptable=self._admission.acceptable,
            on_change=self._look_soon,
        )
        self._recorder: Recorder | None = None
        self._lifeline: Lifeline | None = None
        if table is not None and app.keeps_records:
            lives = Lives(table, own=name, clock=clock)
            self._recorder = Recorder(
                app,
                table,
                worker=name,
                clock=clock,
                events=events,
                rng=rng,
                store=store,
                lives=lives,
            )
            events.subscribe(self._recorder)
            self._lifeline = Lifeline(
                table,
                lives,
                name=name,
                groups={queue.group for queue in queues},
                clock=clock,
                events=events,
                rng=rng,
            )
        self._trimmer = (
            Trimmer(app, table, clock=clock, events=events, rng=rng) if table is not None else None
        )
        if self._trimmer is not None:
            events.subscribe(self._trimmer)
        self._cancelling = (
            Cancelling(table, clock=clock, events=events, rng=rng, on_news=self._end_cancelled)
            if table is not None and app.keeps_records
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
            scheduler=scheduler,
            store=store,
        )
        self._client = AsyncClient(
            app,
            transport=transport,
            scheduler=scheduler,
            store=store,
            table=table,
            clock=clock,
            events=events,
        )
        self._hooks = HookRunner(app, clock=clock, events=events)
        events.subscribe(self._hooks)
        self._means = Means(
            app=app,
            clock=clock,
            events=events,
            send=self._client.send,
            store=store,
            call_blocking=self._threads,
            call_isolated=self._children.call if self._children is not None else None,
            around=around,
            claims=Claims(table, owner=name, clock=clock) if table is not None else None,
        )
        require_claims(app, self._means.claims)
        self._running = Running(
            Executor(
                self._means,
                backlog=Backlog(transport, clock),
                records=self._recorder is not None,
            ),
            self._settler,
            self._waiting,
            self._holdings,
            self._demand,
            self._admission,
            Returns(
                self._waiting,
                self._admission,
                Patience(settings.give_back_after.total_seconds(), rng=rng),
                clock,
                is_recorded=self._is_recorded,
            ),
            recorder=self._recorder,
            cancelled=self._cancelling.reason if self._cancelling else _never,
            on_change=self._look_soon,
        )
        self._heartbeat = Heartbeat(transport, queues, self._holdings, clock=clock, events=events)
        self._pollers = Pollers(
            (
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
            ),
            self._demand,
        )

    @property
    def is_stuck(self) -> bool:
        """Whether a plain function still runs, so that the process would not end by itself."""
        return self._threads.busy

    def active(self) -> list[tuple[str, str]]:
        """The type and queue of each job whose handler runs now."""
        return [
            (job.type.name, hold.delivery.queue.group)
            for hold in self._running.unfinished
            if (job := hold.run.job) is not None
        ]

    def in_loop(self) -> set[str]:
        """The types whose async handlers run now, in this event loop."""
        return {
            job.type.name
            for hold in self._running.unfinished
            if (job := hold.run.job) is not None
            and job.handler.is_async
            and not self._means.isolates(job)
        }

    def budgets_left(self) -> Mapping[str, float]:
        """How many retries each budget has left, by its limit's name."""
        return self._gate.budgets_left()

    def outlasts(self, seconds: float) -> bool:
        """Whether a job runs that came longer ago than that."""
        now = self._clock.monotonic()
        running = self._running.unfinished
        return any(now - hold.delivery.received_at > seconds for hold in running)

    @property
    def is_receiving(self) -> bool:
        """Whether it runs, and has not begun to stop."""
        return self._begun and not self._stop.is_set()

    @property
    def is_held_back(self) -> bool:
        """True if it receives nothing, from any queue, since its limits and slots leave no room."""
        return self._gate.is_known and all(poller.has_no_room for poller in self._pollers)

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
        async with self._app.resources.opened() as shared, self._with_children():
            self._means.shared = shared
            self._begun = True
            return await self._work_with_resources()

    @asynccontextmanager
    async def _with_children(self) -> AsyncIterator[None]:
        if self._children is None:
            yield
            return
        await self._children.start()
        try:
            yield
        finally:
            await self._children.close()

    async def _work_with_resources(self) -> Report:
        await self._introduce()
        polls = {
            asyncio.create_task(poller.run(), name=f"headgate-poll-{poller.queue.name}")
            for poller in self._pollers
        }
        supports = {
            asyncio.create_task(self._heartbeat.run(), name="headgate-heartbeat"),
            asyncio.create_task(self._give_back(), name="headgate-give-back"),
            asyncio.create_task(self._hooks.run(), name="headgate-hooks"),
            asyncio.create_task(self._gate.run(), name="headgate-limits"),
        }
        if self._recorder is not None:
            supports.add(asyncio.create_task(self._recorder.run(), name="headgate-records"))
        if self._lifeline is not None:
            supports.add(asyncio.create_task(self._lifeline.run(), name="headgate-life"))
        if self._trimmer is not None and self._trimmer.is_needed:
            supports.add(asyncio.create_task(self._trimmer.run(), name="headgate-trim"))
        if self._cancelling is not None:
            watch = asyncio.create_task(self._cancelling.run(), name="headgate-cancellations")
            supports.add(watch)
        stopped = asyncio.create_task(self._stop.wait(), name="headgate-stop")
        missing = asyncio.create_task(
            self._queues.none_for(self._settings.queue_grace.total_seconds()),
            name="headgate-queues",
        )
        ends = {stopped, missing, *polls, *supports}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            missing.cancel()  # it has its say only if it was first
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
            await _end(ends)
            self._threads.close()
            self._hooks.close()
        _raise_first_fault(ends)
        return report

    async def _introduce(self) -> None:
        """Learn what is cancelled already, which must not start, and begin to live."""
        if self._cancelling is not None:
            await self._cancelling.look()
        if self._lifeline is not None:
            await self._lifeline.start()

    async def _flush(self) -> None:
        """Let what stands beside the jobs come to an end, within a bound.

        A hook of the users that hangs must keep neither records nor the worker's end unwritten.
        """
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S), asyncio.TaskGroup() as endings:
                    endings.create_task(self._client.close(), name="headgate-end-client")
                    endings.create_task(self._hooks.drain(), name="headgate-end-hooks")
                    endings.create_task(self._gate.close(), name="headgate-end-limits")
                    if self._recorder is not None:
                        endings.create_task(self._recorder.drain(), name="headgate-end-records")
        finally:
            if self._lifeline is not None:
                await self._lifeline.close()

    def _close(self) -> None:
        self._pollers.stop()
        if self._recorder is not None:
            self._recorder.hurry()
        self._running.close()

    async def _give_back(self) -> None:
        """Return what has not been started for a while, so that other workers can have it."""
        while True:
            await asyncio.sleep(min(1.0, self._settings.give_back_after.total_seconds()))
            self._look()  # what can start now does not go back
            self._running.give_back()
            self._look_soon()

    def _is_recorded(self, job: Job) -> bool:
        return self._recorder is not None and self._app.records_of(job.type) != "off"

    def _pool(self, size: int | None, rng: random.Random) -> ChildPool:
        return ChildPool(
            app_path(self._app),
            size=size or os.cpu_count() or 1,
            clock=self._clock,
            rng=rng,
            answers={"submit": self._submit_for_child},
            on_change=self._look_soon,
            on_fault=partial(_log.error, "%s"),
        )

    async def _submit_for_child(self, _ctx: JobContext, message: Mapping[str, Any]) -> None:
        """Send what a handler in a child process submits."""
        outgoing = OutgoingMessage(**message)
        envelope = parse(outgoing.body)
        queue = self._app.topology.queue(envelope.queue, envelope.priority)
        await self._client.send(Submission(queue=queue, message=outgoing, envelope=envelope))

    def _end_cancelled(self) -> None:
        self._running.end_cancelled()

    def _look(self) -> None:
        """Receive and start what there is room for now.

        Receives come first, so that a higher priority can claim a slot that has come free; and once
        more for what has been started or set aside since.
        """
        self._pollers.notice()
        if self._running.fill():
            self._pollers.notice()


def _never(_job_id: str) -> None:
    """No job is cancelled."""


def _isolates(app: App) -> bool:
    return any(job.isolation == "process" for job in app.types.values())


def _reserved(settings: WorkerSettings, queues: Collection[QueueSpec]) -> int:
    if settings.reserved is not None:
        return settings.reserved
    critical = sum(spec.priority is Priority.CRITICAL for spec in queues)
    return settings.concurrency // 10 if 0 < critical < len(queues) else 0


async def _end(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _raise_first_fault(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error
