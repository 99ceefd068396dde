"""One worker as a process: settings in, exit code out."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from jobs.app import App
from jobs.aws.sqs import SqsTransport
from jobs.events import Events, Subscriber
from workers.logs import log_event
from workers.shutdown import Report, on_signals
from workers.worker import Worker, WorkerSettings

_log = logging.getLogger("headgate.worker")

_CONNECTIONS = 50

EXIT_CLEAN = 0
EXIT_FAULT = 1
EXIT_CONFIGURATION = 2
EXIT_UNFINISHED = 3
"""Stopped, but something was cut off: a stuck handler, a settlement, or a receive."""


async def work(
    app: App, settings: WorkerSettings, *, subscribers: Sequence[Subscriber] = (log_event,)
) -> Report:
    """Run a worker on SQS until SIGTERM or SIGINT; a second one makes it hurry.

    Raises:
        ConfigurationError, UnknownQueue: the app or the settings are wrong.
        TransportError: there are no credentials or no region.
    """
    queues = app.topology.select(settings.queues)
    # Each queue's long poll holds a connection for 20 s; the others are for what else goes on.
    async with SqsTransport(max_pool_connections=len(queues) + _CONNECTIONS) as transport:
        worker = Worker(app, transport, settings, events=Events(*subscribers))

        def stop() -> None:
            worker.stop()
            bound_s = settings.drain.total_seconds()
            _log.info("stopping: jobs may go on for %g s; a second signal ends them", bound_s)
            _log.info("receives under way are awaited, so that nothing they bring stays hidden")

        with on_signals(stop, worker.hurry):
            _log.info("working on %s: %s", app.name, ", ".join(queue.name for queue in queues))
            try:
                return await worker.run()
            except Exception:
                if worker.is_stuck:
                    _log.exception("a part of the worker failed while a handler runs in a thread")
                    _exit_at_once(EXIT_FAULT)
                raise


def run(app: App, settings: WorkerSettings) -> int:
    """`work` in an event loop of its own; returns the process's exit code.

    Raises:
        ConfigurationError, UnknownQueue, TransportError: it could not start.
    """
    return asyncio.run(_run(app, settings))


async def _run(app: App, settings: WorkerSettings) -> int:
    report = await work(app, settings)
    if report.clean:
        _log.info("stopped: everything was finished and settled")
        return EXIT_CLEAN
    _log.warning(
        "stopped: given back unfinished: %s; stuck handlers: %s; unsettled: %d; polls cut: %d",
        ", ".join(report.interrupted) or "none",
        ", ".join(report.abandoned) or "none",
        report.unsettled,
        report.polls_cut,
    )
    if report.abandoned:
        _exit_at_once(EXIT_UNFINISHED)
    return EXIT_UNFINISHED if report.unsettled or report.polls_cut else EXIT_CLEAN


def _exit_at_once(code: int) -> NoReturn:
    """Neither the event loop nor the interpreter ends before a stuck handler does."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
