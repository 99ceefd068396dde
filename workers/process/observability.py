"""Observability of a worker process: the watch on its event loop, metrics, and health server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.transport import AsyncReceiver
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.metric_lines import MetricLines
from headgate.jobs.deployment.metric_names import service_name
from headgate.jobs.values.own_log import OwnLog
from headgate.workers.background import beside
from headgate.workers.configuration import ObservabilitySettings, WorkerSettings
from headgate.workers.observability.health import Health
from headgate.workers.observability.health_server import Endpoint
from headgate.workers.observability.loop_lag import LagWatch
from headgate.workers.observability.prometheus import Metrics
from headgate.workers.observability.queue_depths import QueueDepths
from headgate.workers.observability.worker_gauges import WorkerGauges
from headgate.workers.worker import Worker

_log = OwnLog("headgate.worker")

_WRITE_EVERY_S = 60.0
"""Seconds between two lines of metrics for CloudWatch."""


@asynccontextmanager
async def watched(
    app: App,
    worker: Worker,
    receiver: AsyncReceiver,
    events: Events,
    watching: ObservabilitySettings,
    settings: WorkerSettings,
    *,
    place: int,
) -> AsyncIterator[None]:
    """Observe a worker while the block runs.

    Args:
        app: the app whose jobs it runs.
        worker: the worker, not yet running.
        receiver: tells the depths of its queues.
        events: the worker's events.
        watching: the settings of health checks and metrics.
        settings: the worker's settings.
        place: its place among the processes of one supervisor, from 1.

    Raises:
        ConfigurationError: the health server can't listen, or an extra is not installed.
    """
    lag = LagWatch(clock=SystemClock(), events=events, running=worker.in_loop)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(beside(lag.run(), name="the watch on the event loop"))
        if watching.emf:
            await stack.enter_async_context(_emf(app, events))
        if watching.port is not None:
            port = watching.port + place - 1 if watching.port else 0
            served = _served(app, worker, receiver, events, settings, watching.host, port)
            await stack.enter_async_context(served)
        yield


@asynccontextmanager
async def _emf(app: App, events: Events) -> AsyncIterator[None]:
    lines = MetricLines(service_name(app.name, app.stage), rng=random.Random())  # noqa: S311 - samples, guards no secret
    events.subscribe(lines)
    async with beside(_written(lines), name="metrics for CloudWatch"):
        yield
    lines.flush()


async def _written(lines: MetricLines) -> None:
    """Write the metrics every minute until cancelled."""
    while True:
        await asyncio.sleep(_WRITE_EVERY_S)
        lines.flush()


@asynccontextmanager
async def _served(
    app: App,
    worker: Worker,
    receiver: AsyncReceiver,
    events: Events,
    settings: WorkerSettings,
    host: str,
    port: int,
) -> AsyncIterator[None]:
    queues = settings.selection.of(app.topology)
    health = Health(
        [queue.name for queue in queues],
        clock=SystemClock(),
        held_back=lambda: worker.is_held_back,
        faults=worker.faults,
    )
    quarantine = app.topology.quarantine_name
    depths = QueueDepths(queues, quarantine, receiver, clock=SystemClock())
    metrics = Metrics(app)
    metrics.watch(_gauges(worker, depths, settings))
    events.subscribe(health)
    events.subscribe(metrics)
    endpoint = Endpoint(
        health,
        metrics,
        ready=lambda: worker.is_receiving,
        refresh=depths.refresh,
        host=host,
        port=port,
    )
    await endpoint.start()
    _log.info("health and metrics on http://%s:%d", host, endpoint.port)
    try:
        yield
    finally:
        await endpoint.close()


def _gauges(worker: Worker, depths: QueueDepths, settings: WorkerSettings) -> WorkerGauges:
    return WorkerGauges(
        active=worker.active,
        budgets=worker.budgets_left,
        depths=depths,
        slots=settings.concurrency,
        app_version=settings.app_version,
    )
