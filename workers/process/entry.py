"""One worker as a process: settings in, exit code out."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial

from headgate.jobs.aws.backend import AsyncAwsBackend
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import Events
from headgate.jobs.core.settings import Settings
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import QueuesMissing
from headgate.jobs.execution.calling.means import span_opener
from headgate.jobs.execution.exits import run_through
from headgate.jobs.values.own_log import OwnLog
from headgate.workers.configuration import UNWATCHED, ObservabilitySettings, WorkerSettings
from headgate.workers.process.ecs_protection import ScaleInProtection, bound_s, protecting
from headgate.workers.process.event_loop import loop_factory
from headgate.workers.process.exit_codes import (
    EXIT_CLEAN,
    EXIT_FAULT,
    EXIT_NO_QUEUES,
    EXIT_UNFINISHED,
    exit_at_once,
)
from headgate.workers.process.garbage import collected_seldom
from headgate.workers.process.loop_threads import LoopThreads
from headgate.workers.process.observability import watched
from headgate.workers.process.supervisor_link import Leash, tied
from headgate.workers.shutdown import Report, on_signals
from headgate.workers.worker import Worker

_log = OwnLog("headgate.worker")

_CONNECTIONS = 50

_THREADS_S = 1.0
"""Time for the event loop's threads to end after the drain: a DNS look-up may be under way."""

OnStop = Callable[[], None]

_LONG = 0.5
"""Fraction of the drain after which a running job counts as one that may not end within it."""


def _nothing() -> None:
    """Do nothing more when the worker begins to stop."""


async def work(
    app: App,
    settings: WorkerSettings,
    *,
    watching: ObservabilitySettings = UNWATCHED,
    on_stop: OnStop = _nothing,
    leash: Leash | None = None,
    threads: LoopThreads | None = None,
) -> Report:
    """Run a worker on SQS until SIGTERM or SIGINT; a second one makes it hurry.

    Args:
        app: the app whose jobs it runs.
        settings: the worker's; ``drain`` is cut to the time that ``HEADGATE_STOP_TIMEOUT`` leaves.
        watching: the settings of health checks and metrics.
        on_stop: called in the event loop when it begins to stop.
        leash: the link to the supervisor, if it was taken from the environment already.
        threads: those of the event loop, if the process has to end in spite of them.

    Raises:
        ConfigurationError, UnknownQueue: the app or the settings are wrong.
        TransportError: no credentials are configured, or no region.
        QueuesMissing: none of the queues has existed for ``queue_grace``.
    """
    leash = leash or Leash.from_env(os.environ)
    surroundings = Settings.from_env()
    drain_s = bound_s(settings.drain, surroundings.stop_timeout_s)
    settings = replace(
        settings, drain=timedelta(seconds=drain_s), app_version=surroundings.app_version
    )
    async with AsyncExitStack() as stack:
        # Each queue's long poll holds a connection for 20 s; the others are for all other requests.
        connections = len(settings.selection.of(app.topology)) + _CONNECTIONS
        backend = await stack.enter_async_context(
            AsyncAwsBackend(app.topology, account=surroundings.account, connections=connections)
        )
        events = Events(log_event)
        worker = Worker(app, backend, settings, events=events, open_span=span_opener(app))
        place = leash.place if leash is not None else 1
        sqs = backend.async_ports.transport
        await stack.enter_async_context(
            watched(app, worker, sqs, events, watching, settings, place=place)
        )
        has_long_job = partial(worker.outlasts, drain_s * _LONG)
        protection = _protection(has_long_job) if leash is None else None
        await stack.enter_async_context(protecting(protection))
        stopped = _Stop(worker, drain_s, on_stop)
        await stack.enter_async_context(tied(leash, stop=stopped, busy=has_long_job))
        with on_signals(stopped, stopped.hurry):
            names = (queue.name for queue in settings.selection.of(app.topology))
            _log.info("working on %s: %s", app.name, ", ".join(names))
            _log.debug("event loop: %s", type(asyncio.get_running_loop()).__module__)
            report = await _until_it_ends(worker, threads)
            if threads is not None:
                # Work that a handler has begun and not awaited, or that outlived its timeout.
                await threads.finish(within_s=stopped.left_s, hurry=stopped.hurried)
            return report


def run(
    app: App,
    settings: WorkerSettings,
    watching: ObservabilitySettings = UNWATCHED,
    on_stop: OnStop = _nothing,
    leash: Leash | None = None,
) -> int:
    """Run `work` in a new event loop, uvloop's if installed; return the process's exit code.

    Raises:
        ConfigurationError, UnknownQueue, TransportError: it could not start.
    """
    with collected_seldom(), asyncio.Runner(loop_factory=loop_factory()) as runner:
        return run_through(runner, _run(app, settings, watching, on_stop, leash))


async def _run(
    app: App,
    settings: WorkerSettings,
    watching: ObservabilitySettings,
    on_stop: OnStop,
    leash: Leash | None,
) -> int:
    threads = LoopThreads.of_running_loop()
    try:
        report = await work(
            app, settings, watching=watching, on_stop=on_stop, leash=leash, threads=threads
        )
    except QueuesMissing as error:
        _log.error("stopped: %s", error)
        return EXIT_NO_QUEUES
    report = replace(report, left_running=threads.left_running(after_s=_THREADS_S))
    if report.clean:
        _log.info("stopped: everything was finished and settled")
        return EXIT_CLEAN
    _log.warning(
        "stopped: jobs returned unfinished: %s; stuck handlers: %s; unsettled: %d; polls cut: %d; "
        "stuck resources: %s; threads still running: %s",
        ", ".join(report.interrupted) or "none",
        ", ".join(report.abandoned) or "none",
        report.unsettled,
        report.polls_cut,
        ", ".join(report.left_open) or "none",
        ", ".join(report.left_running) or "none",
    )
    if report.abandoned or report.left_open or report.left_running:
        exit_at_once(EXIT_UNFINISHED)
    return EXIT_UNFINISHED if report.unsettled or report.polls_cut else EXIT_CLEAN


async def _until_it_ends(worker: Worker, threads: LoopThreads | None) -> Report:
    try:
        return await worker.run()
    except Exception as error:
        if worker.is_stuck or (threads is not None and threads.busy):
            _log.exception("a part of the worker failed while a handler or a resource doesn't end")
            exit_at_once(EXIT_NO_QUEUES if isinstance(error, QueuesMissing) else EXIT_FAULT)
        raise


class _Stop:
    """Stops a worker, and logs what happens next."""

    def __init__(self, worker: Worker, drain_s: float, on_stop: OnStop) -> None:
        self._worker = worker
        self._drain_s = drain_s
        self._on_stop = on_stop
        self._ends_at: float | None = None
        """End of the drain, on the event loop's clock, once it has begun."""
        self.hurried = asyncio.Event()
        """Set by a second signal."""

    @property
    def left_s(self) -> float:
        """The seconds that are left of the drain; 0 if the worker has ended by itself."""
        if self._ends_at is None:
            return 0.0
        return max(0.0, self._ends_at - asyncio.get_running_loop().time())

    def hurry(self) -> None:
        """End at once."""
        self.hurried.set()
        self._worker.hurry()

    def __call__(self) -> None:
        if self._ends_at is None:  # the signal may be followed by the supervisor's death
            self._ends_at = asyncio.get_running_loop().time() + self._drain_s
        self._worker.stop()
        self._on_stop()
        _log.info(
            "stopping: jobs may run for %g s; a second signal ends them at once", self._drain_s
        )
        _log.info("waiting for receives in progress, so that none of their messages stays hidden")


def _protection(busy: Callable[[], bool]) -> ScaleInProtection | None:
    return ScaleInProtection.from_env(
        os.environ,
        busy=busy,
        clock=SystemClock(),
        rng=random.Random(),  # noqa: S311 - spreads retries, guards no secret
        on_fault=lambda fault: _log.warning("no scale-in protection: %s", fault),
    )
