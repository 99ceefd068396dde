"""The parts of a client besides submitting, by which people look after an app.

Each is imported on first use, to keep importing the client fast.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from headgate.jobs.client.lookup import Lookup
from headgate.jobs.client.services import ClientServices
from headgate.jobs.core.backend import AsyncPorts, Ports
from headgate.jobs.core.immediate import (
    ImmediateMetricReader,
    ImmediateReceiver,
    ImmediateScheduler,
    drive,
)
from headgate.jobs.messages.keyring import Keyring

if TYPE_CHECKING:
    from headgate.jobs.client.auditing.desk import AsyncAuditDesk, AuditDesk
    from headgate.jobs.client.dead_letters.desks import AsyncDeadLetters, DeadLetters
    from headgate.jobs.client.erasing.erasure import AsyncErase, Erase
    from headgate.jobs.client.jobs.jobs import AsyncJobs, Jobs
    from headgate.jobs.client.overview.health import SystemHealth
    from headgate.jobs.client.overview.queues import AsyncQueueDesk, QueueDesk
    from headgate.jobs.client.overview.workers import AsyncWorkerDesk, WorkerDesk
    from headgate.jobs.client.pauses import AsyncPauses, Pauses
    from headgate.jobs.client.schedules.async_schedules import AsyncSchedules
    from headgate.jobs.client.schedules.schedules import Schedules
    from headgate.jobs.client.submitting.engine import SubmissionEngine
    from headgate.jobs.deployment.deployment import Deployment
    from headgate.jobs.handles.handle import AsyncJobHandle
    from headgate.jobs.schedules.delayed_jobs import DelayedJobs


class Desks:
    """The parts of `Client` for those who look after an app."""

    _ports: Ports
    _services: ClientServices
    _lookup: Lookup
    _engine: SubmissionEngine
    _keyring: Keyring | None

    @cached_property
    def _delayed(self) -> DelayedJobs:
        from headgate.jobs.schedules.delayed_jobs import DelayedJobs

        scheduler, app = ImmediateScheduler(self._ports.scheduler), self._services.app
        return DelayedJobs(scheduler, lambda: app.topology, self._services.clock, self._keyring)

    @cached_property
    def audit(self) -> AuditDesk:
        """Tells who did what to the app; see `jobs.client.auditing.desk.AuditDesk`."""
        from headgate.jobs.client.auditing.desk import AuditDesk, audit_of

        return AuditDesk(audit_of(self._services))

    @cached_property
    def dead_letters(self) -> DeadLetters:
        """The app's dead letters; see `jobs.client.dead_letters.desks.DeadLetters`."""
        from headgate.jobs.client.dead_letters.desks import dead_letters

        return dead_letters(self._ports, self._lookup, self._keyring)

    @cached_property
    def erase(self) -> Erase:
        """Deletes what is kept of one tenant; see `jobs.client.erasing.erasure.Erase`."""
        from headgate.jobs.client.erasing.erasure import erase

        return erase(self._ports, self._services)

    @cached_property
    def jobs(self) -> Jobs:
        """The app's jobs, as its records list them; see `jobs.client.jobs.jobs.Jobs`."""
        from headgate.jobs.client.jobs.jobs import jobs

        return jobs(self._ports, self._lookup, self._engine.send)

    @cached_property
    def pauses(self) -> Pauses:
        """The app's pauses; see `jobs.client.pauses.Pauses`."""
        from headgate.jobs.client.pauses import Pauses, pauses_of

        return Pauses(pauses_of(self._services))

    @cached_property
    def schedules(self) -> Schedules:
        """The app's schedules, and the jobs that wait in one; see
        `jobs.client.schedules.schedules.Schedules`."""
        from headgate.jobs.client.schedules.schedules import schedules

        return schedules(self._ports, self._lookup, self._engine.send, self._delayed)

    @cached_property
    def workers(self) -> WorkerDesk:
        """The app's workers; see `jobs.client.overview.workers.WorkerDesk`."""
        from headgate.jobs.client.overview.workers import WorkerDesk, workers_of

        return WorkerDesk(workers_of(self._services))

    @cached_property
    def queues(self) -> QueueDesk:
        """The app's queues; see `jobs.client.overview.queues.QueueDesk`."""
        from headgate.jobs.client.overview.queues import QueueDesk

        return QueueDesk(self._queues)

    def health(self, deployment: Deployment | None = None) -> SystemHealth:
        """Judge the whole system: its queues, dead letters, waits, workers and breakers.

        Sends the requests of `jobs.client.overview.queues.QueueDesk.list`, and those of
        `Schedules.list` to name the schedules that are paused.

        Args:
            deployment: the thresholds, and the Lambda functions that run jobs, as in ``cdk.json``;
                None: the defaults, and functions are unknown.

        Returns:
            the verdict with its reasons; unhealthy if SQS can't be asked.
        """
        from headgate.jobs.client.overview.health import health_of
        from headgate.jobs.client.schedules.schedule_reader import ScheduleReader

        schedules = ScheduleReader(self._services, ImmediateScheduler(self._ports.scheduler))
        return drive(health_of(self._services.app, self._queues, schedules, deployment))

    @cached_property
    def _queues(self) -> AsyncQueueDesk:
        from headgate.jobs.client.overview.queues import queues_of

        receiver = ImmediateReceiver(self._ports.transport)
        return queues_of(self._services, receiver, ImmediateMetricReader(self._ports.metrics))


class AsyncDesks:
    """The parts of `AsyncClient` for those who look after an app."""

    _ports: AsyncPorts
    _services: ClientServices
    _lookup: Lookup
    _engine: SubmissionEngine
    _delayed: DelayedJobs
    keyring: Keyring | None
    """Signs the client's messages; None: the app's are not signed."""

    @cached_property
    def audit(self) -> AsyncAuditDesk:
        """Tells who did what to the app; see `jobs.client.auditing.desk.AuditDesk`."""
        from headgate.jobs.client.auditing.desk import audit_of

        return audit_of(self._services)

    @cached_property
    def dead_letters(self) -> AsyncDeadLetters:
        """The app's dead letters; see `jobs.client.dead_letters.desks.DeadLetters`."""
        from headgate.jobs.client.dead_letters.desks import async_dead_letters

        return async_dead_letters(self._ports, self._lookup, self.keyring)

    @cached_property
    def erase(self) -> AsyncErase:
        """Deletes what is kept of one tenant; see `jobs.client.erasing.erasure.Erase`."""
        from headgate.jobs.client.erasing.erasure import async_erase

        return async_erase(self._ports, self._services)

    @cached_property
    def jobs(self) -> AsyncJobs[AsyncJobHandle[Any]]:
        """The app's jobs; see `jobs.client.jobs.jobs.Jobs`."""
        from headgate.jobs.client.jobs.jobs import async_jobs

        return async_jobs(self._ports, self._lookup, self._engine.send)

    @cached_property
    def pauses(self) -> AsyncPauses:
        """The app's pauses; see `jobs.client.pauses.Pauses`."""
        from headgate.jobs.client.pauses import pauses_of

        return pauses_of(self._services)

    @cached_property
    def schedules(self) -> AsyncSchedules[AsyncJobHandle[Any]]:
        """The app's schedules and delayed jobs; see `jobs.client.schedules.schedules.Schedules`."""
        from headgate.jobs.client.schedules.async_schedules import async_schedules

        return async_schedules(self._ports, self._lookup, self._engine.send, self._delayed)

    @cached_property
    def workers(self) -> AsyncWorkerDesk:
        """The app's workers; see `jobs.client.overview.workers.WorkerDesk`."""
        from headgate.jobs.client.overview.workers import workers_of

        return workers_of(self._services)

    @cached_property
    def queues(self) -> AsyncQueueDesk:
        """The app's queues; see `jobs.client.overview.queues.QueueDesk`."""
        from headgate.jobs.client.overview.queues import queues_of

        return queues_of(self._services, self._ports.transport, self._ports.metrics)

    async def health(self, deployment: Deployment | None = None) -> SystemHealth:
        """Judge the whole system; as `Client.health`, awaited."""
        from headgate.jobs.client.overview.health import health_of
        from headgate.jobs.client.schedules.schedule_reader import ScheduleReader

        schedules = ScheduleReader(self._services, self._ports.scheduler)
        return await health_of(self._services.app, self.queues, schedules, deployment)
