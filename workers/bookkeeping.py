"""A worker's items in the table other than claims and limits; without a table, none.

records         the history of jobs, written and read (`jobs.execution.recording`)
lifeline        this worker's sign of life, by which others judge its deliveries
status          what it polls and runs now, for people to look at
cancellations   the jobs that are cancelled, and what is paused
trimming        the completed jobs of types that are kept by count
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.definitions.policies import keeps_records, records_of
from headgate.jobs.execution.delivery import Job
from headgate.jobs.execution.recording.recorder import Recorder
from headgate.jobs.messages.sealing import Seals
from headgate.jobs.records.cancellations import Cancelling
from headgate.jobs.records.fleet.worker_status import WorkerStatus
from headgate.jobs.records.lives import Lives
from headgate.jobs.records.pausing.paused import Paused
from headgate.workers.observability.lifeline import Lifeline
from headgate.workers.observability.presence import Presence
from headgate.workers.running.trimmer import Trimmer
from headgate.workers.services import Services


def lives_in(table: AsyncTable | None, services: Services) -> Lives | None:
    """Return this worker's view of the others' lives; None without records."""
    if table is None or not keeps_records(services.app):
        return None
    return Lives(table, own=services.name, clock=services.clock)


class Bookkeeping:
    """Records, the sign of life, cancellations and trimming of one worker.

    Args:
        services: the worker's services.
        table: an open table, left open; None keeps nothing.
        store: the store for results that are too large for a record.
        lives: the observed lives of the workers; None without records.
        groups: the queue groups that it works on.
        paused: keeps the pauses that are read; without records none is.
        describe: returns the worker's status now.
        on_requests: called when jobs have been cancelled that may run here, or something paused.
        on_room: called when jobs that waited for the table may start.
        seals: seals results and progress; None records them as they are.
    """

    def __init__(
        self,
        services: Services,
        table: AsyncTable | None,
        store: AsyncObjectStore | None,
        lives: Lives | None,
        *,
        groups: set[str],
        paused: Paused,
        describe: Callable[[], WorkerStatus],
        on_requests: Callable[[], None],
        on_room: Callable[[], None],
        seals: Seals | None = None,
    ) -> None:
        self._app = services.app
        clock, events, rng = services.clock, services.events, services.rng
        self.recorder: Recorder | None = None
        """None if attempts are counted by deliveries."""
        self._lifeline: Lifeline | None = None
        self._presence: Presence | None = None
        self._cancelling: Cancelling | None = None
        self._trimmer: Trimmer | None = None
        if table is None:
            return
        if lives is not None:
            self.recorder = Recorder(
                services.app,
                table,
                worker=services.name,
                clock=clock,
                events=events,
                rng=rng,
                store=store,
                lives=lives,
                seals=seals,
                on_room=on_room,
            )
            events.subscribe(self.recorder, wants=self.recorder.wants)
            self._lifeline = Lifeline(
                table,
                lives,
                name=services.name,
                groups=groups,
                hides_s=max(queue.visibility_s for queue in services.app.topology.queues),
                clock=clock,
                events=events,
                rng=rng,
            )
            self._presence = Presence(
                table, describe, name=services.name, clock=clock, events=events, rng=rng
            )
        self._trimmer = Trimmer(services.app, table, clock=clock, events=events, rng=rng)
        events.subscribe(self._trimmer, wants=self._trimmer.wants)
        if lives is not None:
            self._cancelling = Cancelling(
                table, paused, clock=clock, events=events, rng=rng, on_news=on_requests
            )

    def is_recorded(self, job: Job) -> bool:
        """Return True if records are written for a job."""
        return self.recorder is not None and records_of(self._app, job.type) != "off"

    def is_behind(self, *, urgent: bool) -> bool:
        """Return True while jobs with full records should wait, as the table takes them slowly."""
        return self.recorder is not None and self.recorder.is_behind(urgent=urgent)

    def cancelled(self, job_id: str, job_type: str) -> str | None:
        """Return the reason for which a job is cancelled, or None."""
        if self._cancelling is None:
            return None
        return self._cancelling.reason(job_id, job_type)

    async def asked(self, job_id: str, job_type: str) -> bool:
        """Return True if the table has a request that a job be cancelled.

        Raises:
            TransportError: the table could not be asked.
        """
        return self._cancelling is not None and await self._cancelling.asked(job_id, job_type)

    @property
    def fault(self) -> str:
        """The reason why the sign of life or the status can't be written now; empty if they are."""
        faults = (each.fault for each in (self._lifeline, self._presence) if each is not None)
        return next(filter(None, faults), "")

    async def introduce(self) -> None:
        """Write the first beat, and read what is cancelled or paused, which must not start."""
        if self._lifeline is not None:
            await self._lifeline.start()
        if self._cancelling is not None:
            await self._cancelling.look()

    def running(self) -> Iterator[tuple[str, Coroutine[Any, Any, Any]]]:
        """Yield the background tasks that have to run while the worker does, by name."""
        if self.recorder is not None:
            yield "records", self.recorder.run()
        if self._lifeline is not None:
            yield "life", self._lifeline.run()
        if self._presence is not None:
            yield "status", self._presence.run()
        if self._trimmer is not None and self._trimmer.is_needed:
            yield "trim", self._trimmer.run()
        if self._cancelling is not None:
            yield "cancellations", self._cancelling.run()

    def hurry(self) -> None:
        """Shorten waits from now on, and show it: the worker is stopping."""
        if self._presence is not None:
            self._presence.update()
        if self.recorder is not None:
            self.recorder.hurry()

    async def drain(self) -> None:
        """Write the records that still wait; any that are left are shed."""
        if self.recorder is not None:
            await self.recorder.drain()

    async def close(self) -> None:
        """Record that this worker has ended in order."""
        async with asyncio.TaskGroup() as endings:
            if self._presence is not None:
                endings.create_task(self._presence.close(), name="headgate-end-status")
            if self._lifeline is not None:
                endings.create_task(self._lifeline.close(), name="headgate-end-life")
