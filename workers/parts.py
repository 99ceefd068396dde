"""The parts of a worker, and their wiring."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Collection, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.client.child_handles import async_child_handles
from headgate.jobs.core.backend import AsyncBackend, AsyncPorts
from headgate.jobs.core.concurrency import Tasks
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.core.ports.transport import AsyncTransport
from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.app_path import app_path
from headgate.jobs.definitions.policies import types_from, uses_claims
from headgate.jobs.definitions.sealing import seals_of
from headgate.jobs.execution.calling.claims import Claims
from headgate.jobs.execution.calling.handler_threads import HandlerThreads
from headgate.jobs.execution.calling.means import Means, OpenSpan
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.hook_runner import HookRunner
from headgate.jobs.execution.settling.settler import Settler
from headgate.jobs.messages.sealing import Seals
from headgate.jobs.records.fleet.worker_status import WorkerStatus
from headgate.jobs.records.pausing.paused import Paused
from headgate.jobs.values.own_log import OwnLog
from headgate.workers.background import refreshed
from headgate.workers.bookkeeping import Bookkeeping, lives_in
from headgate.workers.configuration import WorkerSettings
from headgate.workers.dispatch.admission import Admission
from headgate.workers.dispatch.forming import jobs_a_slot
from headgate.workers.dispatch.once_per_turn import OncePerTurn
from headgate.workers.dispatch.patience import Patience
from headgate.workers.dispatch.records_pace import RecordsPace
from headgate.workers.dispatch.returning import Returns
from headgate.workers.dispatch.shares import Shares
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.held import Holdings
from headgate.workers.isolation.child_pool import ChildPool
from headgate.workers.isolation.child_submissions import submit_for_child
from headgate.workers.limits.app_limits import needs_table
from headgate.workers.limits.gate import Gate
from headgate.workers.observability.status_report import StatusReport
from headgate.workers.receiving.demand import Demand
from headgate.workers.receiving.heartbeat import Heartbeat
from headgate.workers.receiving.lineup import Lineup
from headgate.workers.receiving.poller import Poller
from headgate.workers.receiving.queue_watch import QueueWatch
from headgate.workers.running.backlog import Backlog
from headgate.workers.running.lingering import Lingering
from headgate.workers.running.runner import Running
from headgate.workers.running.settler import SETTLEMENT_PACING, HoldSettler
from headgate.workers.services import Services
from headgate.workers.shutdown import FLUSH_S

_log = OwnLog("headgate.worker")


class Parts:
    """All parts of one worker, wired together.

    Args:
        services: the worker's services.
        settings: the worker's settings, such as its concurrency and queues.
        backend: gives them AWS and the time, open; it is left open.
        open_span: opens a span for each call of a handler.

    Raises:
        ConfigurationError: the app has no queue of the settings' priorities.
        UnknownQueue: the settings name a queue group that the app doesn't have.
    """

    def __init__(
        self,
        services: Services,
        settings: WorkerSettings,
        backend: AsyncBackend,
        *,
        open_span: OpenSpan,
    ) -> None:
        app, clock, events = services.app, services.clock, services.events
        ports = backend.async_ports
        table = _table_of(app, ports)
        self._app, self._clock, self._settings = app, clock, settings
        self.look_soon = OncePerTurn(self._look)
        queues = sorted(settings.selection.of(app.topology), key=lambda spec: spec.priority.rank)
        self.queues = QueueWatch([queue.name for queue in queues], clock=clock)
        events.subscribe(self.queues, wants=self.queues.wants)
        self.holdings = Holdings()
        self.threads = HandlerThreads(settings.concurrency)
        self.paused = Paused(clock=clock, events=events)
        self._lives = lives_in(table, services)
        self._admit(services, table, queues)
        seals = seals_of(app, ports.keys, Tasks())
        self.books = Bookkeeping(
            services,
            table,
            ports.store,
            self._lives,
            groups={queue.group for queue in queues},
            paused=self.paused,
            describe=self._describe,
            on_requests=self._heed_requests,
            on_room=self.pace.eased,
            seals=seals,
        )
        self.client = AsyncClient(app, events=events, backend=backend)
        self._settle(services, ports)
        self.hooks = HookRunner(app, clock=clock, events=events)
        events.subscribe(self.hooks, wants=self.hooks.wants)
        self.means = Means(
            app=app,
            clock=clock,
            events=events,
            send=self.client.send,
            handles=async_child_handles(self.client),
            store=ports.store,
            seals=seals,
            call_blocking=self.threads,
            call_isolated=self.children.call if self.children is not None else None,
            open_span=open_span,
            claims=_claims_in(table, services, seals),
            keyring=self.client.keyring,
        )
        self._run_and_receive(services, ports.transport, queues)
        self._report = StatusReport(
            services,
            app_version=settings.app_version,
            queues=queues,
            slots=settings.concurrency,
            demand=self.demand,
            waiting=self.waiting,
            paused=self.paused,
            running=lambda: self.running.unfinished,
            held=self.holdings.messages,
        )

    def _admit(
        self, services: Services, table: AsyncTable | None, queues: Sequence[QueueSpec]
    ) -> None:
        """Make the parts that decide which messages start, and how many are received."""
        app, settings = self._app, self._settings
        self.gate = Gate(
            app,
            queues,
            clock=services.clock,
            events=services.events,
            rng=services.rng,
            table=table,
            worker=services.name,
            lives=self._lives,
            on_eased=self._ease,
            on_change=self._look,
        )
        self.children = self._pool(settings.children, services.rng) if _isolates(app) else None
        self.pace = RecordsPace(
            app, is_behind=self._records_are_behind, on_eased=self._ease_and_look
        )
        self.admission = Admission(
            app,
            self.gate,
            self.children,
            self.paused,
            self.pace,
            clock=services.clock,
            on_eased=self._ease,
        )
        # A queue alone has nobody to share with, and no share to be worked out with each start.
        shares = Shares(queues if len(queues) > 1 else (), slots=settings.concurrency)
        self.waiting = Waiting(
            queues, shares, block=self.admission.block, jobs_a_slot=partial(jobs_a_slot, app)
        )
        self.demand = Demand(
            settings.concurrency,
            _reserved(settings, queues),
            self.waiting,
            self.holdings,
            shares,
            services.clock,
            acceptable=self.admission.acceptable,
            on_change=self.look_soon,
        )

    def _settle(self, services: Services, ports: AsyncPorts) -> None:
        """Make the parts that carry out verdicts."""
        self._lingering = Lingering(self.demand)
        self.settler = HoldSettler(
            self.holdings,
            rng=services.rng,
            make=lambda keeper: Settler(
                keeper,
                ports.transport,
                self._app.topology,
                clock=services.clock,
                events=services.events,
                linger_s=self._lingering.linger_s,
                deletes_linger_s=self._lingering.deletes_linger_s,
                rng=services.rng,
                pacing=SETTLEMENT_PACING,
                scheduler=ports.scheduler if self._app.long_delays else None,
                asked=self.books.asked,
                store=ports.store,
                keyring=self.client.keyring,
            ),
        )

    def _run_and_receive(
        self, services: Services, transport: AsyncTransport, queues: Sequence[QueueSpec]
    ) -> None:
        """Make the parts that run jobs, hold their messages, and receive more."""
        settings, clock, events = self._settings, services.clock, services.events
        executor = Executor(
            self.means,
            backlog=Backlog(transport, clock),
            records=self.books.recorder is not None,
            scheduled=self._app.long_delays,
        )
        returns = Returns(
            self.waiting,
            self.admission,
            Patience(settings.give_back_after.total_seconds(), rng=services.rng),
            clock,
            is_recorded=self.books.is_recorded,
        )
        self.running = Running(
            executor,
            self.settler,
            self.waiting,
            self.holdings,
            self.demand,
            self.admission,
            returns,
            recorder=self.books.recorder,
            cancelled=self.books.cancelled,
            on_change=self.look_soon,
        )
        self.heartbeat = Heartbeat(transport, queues, self.holdings, clock=clock, events=events)
        self._lineup = Lineup(queues, self.demand)
        self.pollers = [
            Poller(
                queue,
                transport,
                self.demand,
                self.waiting,
                self.running.deliver,
                self._lineup,
                wait_s=(settings.receive_wait or queue.receive_wait).total_seconds(),
                has_bundles=any(job.bundle for job in types_from(self._app, queue.group)),
                clock=clock,
                events=events,
                rng=services.rng,
            )
            for queue in queues
        ]

    @asynccontextmanager
    async def children_open(self) -> AsyncIterator[None]:
        """Run child processes while the context is open, if any type needs them."""
        if self.children is None:
            yield
            return
        await self.children.start()
        try:
            yield
        finally:
            await self.children.close()

    async def introduce(self) -> None:
        """Read what has to be known before the first message comes: last what others change."""
        if self.client.keyring is not None:
            await self.client.keyring.refresh()
        await self.books.introduce()

    def supports(self) -> Iterator[tuple[str, Coroutine[Any, Any, Any]]]:
        """Yield the background tasks needed while the worker receives or runs jobs, by name."""
        yield "heartbeat", self.heartbeat.run()
        yield "give-back", self._give_back()
        yield "hooks", self.hooks.run()
        yield "limits", self.gate.run()
        if self.client.keyring is not None:
            yield "keys", refreshed(self.client.keyring)
        yield from self.books.running()

    def close(self) -> None:
        """Stop receiving and starting messages: those that wait go back, and settlements hurry."""
        for poller in self.pollers:
            poller.stop()
        self._report.is_draining = True
        self.books.hurry()
        self._lingering.hurry()
        self.settler.hurry()
        self.running.close()

    async def flush(self) -> None:
        """Finish client, hooks, leases and records within a bound.

        A user's hook that hangs must not prevent writing the records or the worker's end.
        """
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S), asyncio.TaskGroup() as endings:
                    endings.create_task(self.client.close(), name="headgate-end-client")
                    endings.create_task(self.hooks.drain(), name="headgate-end-hooks")
                    endings.create_task(self.gate.close(), name="headgate-end-limits")
                    endings.create_task(self.books.drain(), name="headgate-end-records")
        finally:
            await self.books.close()

    async def _give_back(self) -> None:
        """Give back messages that have not been started for a while, for other workers."""
        while True:
            await asyncio.sleep(min(1.0, self._settings.give_back_after.total_seconds()))
            self._ease()
            self._look()  # messages that can start now must not go back
            self.running.give_back()
            self.look_soon()

    def _pool(self, size: int | None, rng: random.Random) -> ChildPool:
        return ChildPool(
            app_path(self._app),
            size=size or os.cpu_count() or 1,
            clock=self._clock,
            rng=rng,
            answers={"submit": lambda message: submit_for_child(self._app, self.client, message)},
            on_change=self._ease_and_look,
            on_fault=partial(_log.error, "%s"),
        )

    def _describe(self) -> WorkerStatus:
        return self._report()

    def _heed_requests(self) -> None:
        """End what has been cancelled, and give back what has been paused."""
        self.running.end_cancelled()
        self.running.give_back_paused()

    def _ease(self, limit: str | None = None) -> None:
        self.waiting.ease(limit)

    def _records_are_behind(self, *, urgent: bool) -> bool:
        return self.books.is_behind(urgent=urgent)

    def _ease_and_look(self, limit: str | None = None) -> None:
        self._ease(limit)
        self.look_soon()

    def _look(self) -> None:
        """Receive and start as many messages as there is room for now.

        Receives come first, so that a higher priority can claim a slot that has come free; and
        again after any message has been started or set aside.
        """
        self._lineup.notice()
        if self.running.fill():
            self._lineup.notice()


def _table_of(app: App, ports: AsyncPorts) -> AsyncTable | None:
    """Return the app's table, or None if nothing in the app needs one."""
    return ports.table if uses_claims(app) or needs_table(app) else None


def _claims_in(table: AsyncTable | None, services: Services, seals: Seals | None) -> Claims | None:
    """Return the claims of jobs that run once; None without a table."""
    if table is None:
        return None
    return Claims(table, owner=services.name, clock=services.clock, seals=seals)


def _isolates(app: App) -> bool:
    return any(job.isolation == "process" for job in app.types.values())


def _reserved(settings: WorkerSettings, queues: Collection[QueueSpec]) -> int:
    if settings.reserved is not None:
        return settings.reserved
    critical = sum(spec.priority is Priority.CRITICAL for spec in queues)
    return settings.concurrency // 10 if 0 < critical < len(queues) else 0
