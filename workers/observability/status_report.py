"""The summary of a worker that its status in the table shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.jobs.records.fleet.worker_status import (
    MOST_LIMITS,
    MOST_RUNNING,
    MOST_TENANTS,
    TenantHeld,
    WorkerJob,
    WorkerState,
    WorkerStatus,
)
from headgate.jobs.records.pausing.paused import Paused
from headgate.jobs.values.own_version import own_version
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.held import Hold
from headgate.workers.observability.failed_attempts import FailedAttempts
from headgate.workers.observability.limit_states import LimitStates
from headgate.workers.receiving.demand import Demand
from headgate.workers.services import Services


class StatusReport:
    """Describes a worker from its parts.

    Args:
        services: the worker's services.
        app_version: the version of the app's code; empty if it is not known.
        queues: the queues that it receives from.
        slots: the number of jobs that it can run at once.
        demand: counts the slots in use.
        waiting: the messages that wait.
        paused: the pauses that it knows.
        running: returns the messages whose handlers run.
        held: returns all messages that it holds, each once.
    """

    def __init__(
        self,
        services: Services,
        *,
        app_version: str,
        queues: Sequence[QueueSpec],
        slots: int,
        demand: Demand,
        waiting: Waiting,
        paused: Paused,
        running: Callable[[], Sequence[Hold]],
        held: Callable[[], Iterable[Hold]],
    ) -> None:
        self._services = services
        self._app_version = app_version
        self._version = own_version()
        self._polls = _polls(queues)
        self._slots = slots
        self._demand = demand
        self._waiting = waiting
        self._paused = paused
        self._running = running
        self._held = held
        self._limits = LimitStates()
        services.events.subscribe(self._limits, wants=self._limits.wants)
        self._failed = FailedAttempts()
        services.events.subscribe(self._failed, wants=self._failed.wants)
        self._started_at = services.clock.now()
        self.is_draining = False
        """True once it receives nothing more."""

    def __call__(self) -> WorkerStatus:
        """Return the worker's status now."""
        now = self._services.clock.now()
        limits = list(self._limits.now.items())[:MOST_LIMITS]
        return WorkerStatus(
            name=self._services.name,
            state=WorkerState.DRAINING if self.is_draining else WorkerState.WORKING,
            started_at=self._started_at,
            seen_at=now,
            version=self._version,
            app_version=self._app_version,
            polls=self._polls,
            slots=self._slots,
            busy=self._demand.busy,
            waiting=len(self._waiting),
            running=list(self._jobs(now)),
            limits=dict(limits),
            pauses=[str(each.target) for each in self._paused.now()][:MOST_LIMITS],
            tenants=list(self._tenants()),
            failed=self._failed.now,
            reserved=self._demand.reserved,
        )

    def _tenants(self) -> Iterator[TenantHeld]:
        """Yield the tenants of fair queues of which it holds most messages, most first."""
        counted: Counter[tuple[str, str, Priority]] = Counter()
        for hold in self._held():
            queue, group = hold.delivery.queue, hold.delivery.message.group
            if group and not queue.fifo:  # on a FIFO queue it orders jobs, and names no tenant
                counted[group, queue.group, queue.priority] += 1
        for (tenant, name, priority), held in counted.most_common(MOST_TENANTS):
            yield TenantHeld(tenant=tenant, queue=name, priority=priority, held=held)

    def _jobs(self, now: datetime) -> Iterator[WorkerJob]:
        """Yield the jobs that have run for longest."""
        monotonic = self._services.clock.monotonic()
        holds = sorted(self._running(), key=lambda hold: hold.run.began_at)
        for hold in holds[:MOST_RUNNING]:
            if (job := hold.run.job) is not None:
                yield WorkerJob(
                    id=job.attempt.job_id,
                    type=job.type.name,
                    queue=hold.delivery.queue.group,
                    priority=hold.delivery.queue.priority,
                    attempt=job.attempt.number,
                    started_at=now - timedelta(seconds=monotonic - hold.run.began_at),
                )


def _polls(queues: Sequence[QueueSpec]) -> Mapping[str, Sequence[Priority]]:
    polls: dict[str, list[Priority]] = {}
    for queue in queues:
        polls.setdefault(queue.group, []).append(queue.priority)
    return polls
