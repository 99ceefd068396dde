"""The console as its pages use it: what is read through the shared reader, and what is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import field
from functools import partial
from typing import TypeVar

from starlette.requests import Request

from headgate.jobs.client.auditing.actor import acting_as
from headgate.jobs.client.client import Client
from headgate.jobs.client.overview.health import SystemHealth, judged
from headgate.jobs.client.overview.queues import QueueList
from headgate.jobs.client.overview.workers import WorkerList
from headgate.jobs.core.clock import Clock
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.records.audit.entry import in_one_line
from headgate.jobs.records.cancellation import LONGEST_ACTOR
from headgate.jobs.schedules.registry import ScheduleInfo, UnreadableSchedule
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog
from headgate.ops.console.figures.samples import Samples
from headgate.ops.console.outcomes import Outcomes
from headgate.ops.console.reader import Seen, SharedReader
from headgate.ops.console.sent_forms import SentForms

QUEUES, WORKERS, SCHEDULES = "queues", "workers", "schedules"
"""Questions of the shared reader."""

_FRESH_S = 5.0
_SCHEDULES_FRESH_S = 60.0  # each schedule is a request
_REQUESTS_PER_MINUTE = 300
"""Requests for the depths of queues that the console sends at most, however many queues there
are."""

_PATIENCE_S = 10.0
"""Seconds that the end of the console waits for replays to stop."""

_log = OwnLog("headgate.console")

T = TypeVar("T")


@light_dataclass(frozen=True, kw_only=True)
class Console:
    """One app's console.

    Args:
        app: the app.
        client: reads and acts.
        clock: tells the time.
        deployment: the thresholds of health, and the functions that run jobs; None: unknown.
    """

    app: App
    client: Client
    clock: Clock
    deployment: Deployment | None = None
    samples: Samples = field(default_factory=Samples)
    outcomes: Outcomes = field(default_factory=Outcomes)
    sent: SentForms = field(default_factory=SentForms)
    reader: SharedReader = field(init=False)
    _begun: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reader", SharedReader(self.clock))

    def queues(self) -> Seen[QueueList]:
        """Return what the queues hold, and keep it as a sample."""
        requests = 2 * len(self.app.topology.queues) + 1
        fresh_s = max(_FRESH_S, requests * 60 / _REQUESTS_PER_MINUTE)
        return self.reader.read(QUEUES, self._read_queues, fresh_s=fresh_s)

    def _read_queues(self) -> QueueList:
        found = self.client.queues.list()
        self.samples.add(self.clock.now(), found)
        return found

    def health(self, found: QueueList) -> SystemHealth:
        """Judge what the queues hold; sends no request."""
        return judged(self.app, found, self.deployment)

    def workers(self) -> Seen[WorkerList]:
        """Return the workers."""
        return self.reader.read(WORKERS, self.client.workers.list, fresh_s=_FRESH_S)

    def schedules(self) -> Seen[Sequence[ScheduleInfo | UnreadableSchedule]]:
        """Return the app's schedules on AWS."""
        return self.reader.read(SCHEDULES, self.client.schedules.list, fresh_s=_SCHEDULES_FRESH_S)

    def begin_schedules(self) -> None:
        """Have the schedules be read in the background, if they never were."""
        if self.reader.peek(SCHEDULES).at is None:
            self.reader.read_behind(
                SCHEDULES,
                self.client.schedules.list,
                fresh_s=_SCHEDULES_FRESH_S,
                wait_first=False,
            )

    def act(self, request: Request, do: Callable[[], T], *, changes: tuple[Hashable, ...]) -> T:
        """Do something as the viewer, whom the audit then has as its actor.

        Args:
            request: the request that asks for it, which the front door has let pass.
            do: does it.
            changes: the questions of the shared reader whose answers it changes.
        """
        try:
            with acting_as(_actor(request)):
                return do()
        finally:
            self.reader.forget(*changes)

    def begin(
        self,
        request: Request,
        what: str,
        do: Callable[[Callable[[T], None]], object],
        *,
        changes: tuple[Hashable, ...],
    ) -> T:
        """Begin what goes on after the answer, in a thread; return the first that it tells.

        Args:
            request: see `act`.
            what: what goes on, for the name of its thread and the log.
            do: does it, and calls its argument with each step, the first one soon.
            changes: see `act`.
        """
        first: Future[T] = Future()
        with acting_as(_actor(request)):
            run = partial(copy_context().run, _run, what, do, first)
        thread = threading.Thread(target=run, name=what, daemon=True)
        self._begun[:] = [each for each in self._begun if each.is_alive()]
        self._begun.append(thread)
        thread.start()
        return self.act(request, first.result, changes=changes)

    def end(self) -> None:
        """Stop the replays that this console carries out, and wait for them a moment."""
        self.client.dead_letters.stop()
        for each in self._begun:
            each.join(_PATIENCE_S)


def _actor(request: Request) -> str:
    return in_one_line(request.state.viewer.name, LONGEST_ACTOR) or "unnamed"


def _run(what: str, do: Callable[[Callable[[T], None]], object], first: Future[T]) -> None:
    def tell(step: T) -> None:
        if not first.done():
            first.set_result(step)

    try:
        do(tell)
    except Exception as error:  # noqa: BLE001 - handed to who waits for it, or logged
        if first.done():  # nobody waits for it any more
            _log.exception("could not %s to its end", what)
        else:
            first.set_exception(error)
