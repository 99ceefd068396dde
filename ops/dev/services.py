"""The threads beside the worker in the process of the app: schedules and the sweep.

Each has connections of its own, and ends with the process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime

from headgate.jobs.aws.backend import AwsBackend
from headgate.jobs.aws.dynamo.table import DynamoTable
from headgate.jobs.aws.s3 import S3Store
from headgate.jobs.aws.sqs.transport import SqsTransport
from headgate.jobs.core.backend import Ports
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import Events
from headgate.jobs.core.immediate import ImmediateSecretStore
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import keyring_of
from headgate.jobs.deployment.sweep_plan import sweep_plan
from headgate.jobs.deployment.triggers import has_bridge
from headgate.jobs.errors import TransportError
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.values.own_log import OwnLog
from headgate.lambdas.sweep.memory import SweepMemory
from headgate.lambdas.sweep.sweeper import Kind, Sweeper
from headgate.ops.dev import notes
from headgate.ops.dev.schedules import LocalScheduler

LOOK_S = 0.5
"""Seconds between two looks for schedules that are due."""

_READ_S = 2.0
_READING_SHARE = 10
"""The stored schedules are read every two seconds, or less often if that would take more than a
tenth of the time."""

_SWEEP_S = 60.0

_log = OwnLog(notes.LOGGER)


def start(app: App) -> None:
    """Start all that runs beside the worker."""
    if has_bridge(app):
        _in_background("schedules", lambda: _fire_forever(_scheduler(app)))
    _in_background("sweep", lambda: _sweep_forever(_sweeper(app)))


def _in_background(name: str, run: Callable[[], None]) -> None:
    def guarded() -> None:
        try:
            run()
        except BaseException:
            # Without it the app would only seem to run.
            _log.exception("the %s of headgate dev failed: the app is stopped", name)
            os.kill(os.getpid(), signal.SIGTERM)
            raise

    threading.Thread(target=guarded, name=f"headgate-dev-{name}", daemon=True).start()


def _scheduler(app: App) -> LocalScheduler:
    return local_scheduler(app, AwsBackend(app.topology).ports)


def local_scheduler(app: App, ports: Ports) -> LocalScheduler:
    """Return what fires an app's schedules, over connections to a local AWS."""
    clock, events = SystemClock(), Events(log_event)
    bridge = Bridge(
        ports.transport,
        ports.table,
        clock.now,
        routes=Routes.of(app),
        events=events,
        keyring=keyring_of(app, ImmediateSecretStore(ports.secrets), Threads(), clock, events),
    )
    return LocalScheduler(app.topology.schedule_group, ports.scheduler, bridge, clock.now)


def _fire_forever(scheduler: LocalScheduler) -> None:
    read_at, told = 0.0, dict[str, datetime]()
    while True:
        try:
            if is_read := (began := time.monotonic()) >= read_at:
                scheduler.read()
                ended = time.monotonic()
                read_at = ended + max(_READ_S, _READING_SHARE * (ended - began))
            if (scheduler.fire_due() or is_read) and (times := scheduler.next_times()) != told:
                due = {name: at.isoformat() for name, at in times.items()}
                _log.info(notes.DUE, extra={"schedules": due})
                told = times
        except TransportError as error:
            _log.warning("schedules can't be read: %s", error)
        time.sleep(LOOK_S)


def _sweeper(app: App) -> Sweeper:
    clock = SystemClock()
    return Sweeper(
        sweep_plan(app, has_bridge=has_bridge(app)),
        queues=SqsTransport(),
        memory=SweepMemory(DynamoTable(app.topology.table_name), clock),
        store=S3Store(app.topology.bucket),
        topic=_Screen(),
        tickets=_Screen(),
        clock=clock,
        count=_uncounted,
    )


def _sweep_forever(sweeper: Sweeper) -> None:
    while True:
        time.sleep(_SWEEP_S)
        # What AWS refused, the sweep has logged, and the next one tries again.
        with suppress(TransportError):
            sweeper.sweep()


class _Screen:
    """Shows alerts on the screen: a `lambdas.sweep.publisher.Publisher`."""

    def publish(self, subject: str, _text: str) -> None:
        _log.warning("alert: %s", subject)


def _uncounted(_counts: Mapping[Kind, int]) -> None:
    """Drop the counts of new dead letters, which are metrics of CloudWatch."""
