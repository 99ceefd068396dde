"""Observability of a worker process: the watch on its event loop, metrics, and health server."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.metric_lines import MetricLines
from headgate.jobs.deployment.metric_names import service_name
from headgate.workers.background import beside
from headgate.workers.configuration import ObservabilitySettings, WorkerSettings
from headgate.workers.observability.health import Health
from headgate.workers.observability.health_server import Endpoint
from headgate.workers.observability.loop_lag import LagWatch
from headgate.workers.observability.prometheus import Metrics
from headgate.workers.worker import Worker

_log = logging.getLogger("headgate.worker")

_WRITE_EVERY_S = 60.0
"""Seconds between two lines of metrics for CloudWatch."""


@asynccontextmanager
async def watched(
    app: App,
    worker: Worker,
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
            served = _served(app, worker, events, settings, host=watching.host, port=port)
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
    app: App, worker: Worker, events: Events, settings: WorkerSettings, *, host: str, port: int
) -> AsyncIterator[None]:
    queues = [spec.name for spec in settings.selection.of(app.topology)]
    health = Health(queues, clock=SystemClock(), held_back=lambda: worker.is_held_back)
    metrics = Metrics()
    metrics.watch(worker.active, worker.budgets_left)
    events.subscribe(health)
    events.subscribe(metrics)
    endpoint = Endpoint(health, metrics, ready=lambda: worker.is_receiving, host=host, port=port)
    await endpoint.start()
    _log.info("health and metrics on http://%s:%d", host, endpoint.port)
    try:
        yield
    finally:
        await endpoint.close()
