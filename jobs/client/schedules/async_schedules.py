"""The requests behind ``client.schedules``, awaited.

They and their answers are defined in `jobs.schedules.registry`, and delayed jobs in
`jobs.schedules.delayed_job`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Generic, TextIO, TypeVar, Unpack, overload

from headgate.jobs.client.auditing.auditor import Audited
from headgate.jobs.client.lookup import Lookup
from headgate.jobs.client.private_files import reading, writing
from headgate.jobs.client.schedules import schedule_requests
from headgate.jobs.client.schedules.schedule_import import ScheduleImport
from headgate.jobs.client.schedules.schedule_reader import ScheduleReader
from headgate.jobs.client.services import ClientServices
from headgate.jobs.client.submitting.engine import Submit
from headgate.jobs.core.backend import AsyncPorts
from headgate.jobs.core.ports.scheduler import AsyncScheduler, ScheduleSpec
from headgate.jobs.definitions.job_type import Given, JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.handles.handle import AsyncJobHandle, JobHandle
from headgate.jobs.records.audit.entry import AuditAction
from headgate.jobs.records.cancellation import check_reason
from headgate.jobs.schedules import registry
from headgate.jobs.schedules.copies import (
    SchedulesExported,
    SchedulesImported,
    line_of,
    read_lines,
)
from headgate.jobs.schedules.delayed_jobs import DelayedJobs
from headgate.jobs.schedules.firing import source_of
from headgate.jobs.schedules.registry import ScheduleInfo, UnreadableSchedule
from headgate.jobs.submission.prepare import new_job_of
from headgate.jobs.submission.sealing import sealed_for

P = TypeVar("P")
H = TypeVar("H", bound=JobHandle[Any] | AsyncJobHandle[Any])


class AsyncSchedules(Generic[H]):
    """The awaited form of `Schedules`, which also drives this class.

    Args:
        services: the client's services, and its audit.
        scheduler: holds the schedules.
        send: submits the jobs of `run_now`.
        handle: makes the handle of a submitted job.
        withdraw: cancels a job that waits in a one-time schedule; False if none holds it.
    """

    def __init__(
        self,
        services: ClientServices,
        scheduler: AsyncScheduler,
        send: Submit,
        handle: Callable[[str, JobType[Any, Any]], H],
        withdraw: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._app = services.app
        self._clock = services.clock
        self._seals = services.seals
        self._auditor = services.auditor
        self._scheduler = scheduler
        self._send = send
        self._handle = handle
        self._withdraw = withdraw
        self._reader = ScheduleReader(services, scheduler)

    @overload
    async def create(
        self, name: str, job: NewJob[Any], *, schedule: Schedule, limit: int | None = None
    ) -> ScheduleInfo: ...
    @overload
    async def create(
        self,
        name: str,
        job: JobType[None, Any],
        *,
        schedule: Schedule,
        limit: int | None = None,
        **overrides: Unpack[SubmitOptions],
    ) -> ScheduleInfo: ...
    @overload
    async def create(
        self,
        name: str,
        job: JobType[P, Any],
        payload: Given[P],
        *,
        schedule: Schedule,
        limit: int | None = None,
        **overrides: Unpack[SubmitOptions],
    ) -> ScheduleInfo: ...
    async def create(
        self,
        name: str,
        job: JobType[Any, Any] | NewJob[Any],
        payload: Any = None,
        *,
        schedule: Schedule,
        limit: int | None = None,
        **overrides: Unpack[SubmitOptions],
    ) -> ScheduleInfo:
        """`Schedules.create`, awaited."""
        new = new_job_of(job, payload, overrides)
        now = self._clock.now()
        like = schedule_requests.job_of(self._app, now, name, new)
        like = await sealed_for(self._seals, like, source_of(name))
        spec = schedule_requests.of_jobs_like(self._app, name, like)
        spec = schedule_requests.timed(spec, schedule, limit, now)
        detail = f"{new.type.name} {schedule.expression}"
        async with self._action(AuditAction.CREATE_SCHEDULE, name, detail=detail):
            if not await self._scheduler.create(spec, token=schedule_requests.new_token()):
                raise registry.taken(self._app, name)
        return registry.read_schedule(self._app, spec)

    async def list(self) -> Sequence[ScheduleInfo | UnreadableSchedule]:
        """`Schedules.list`, awaited."""
        return (await self._reader.read()).listed()

    async def export(self, to: str | Path | TextIO) -> SchedulesExported:
        """`Schedules.export`, awaited."""
        async with self._auditor.action(AuditAction.EXPORT, "schedules", "all") as exporting:
            specs, unreadable = (await self._reader.read()).specs()
            with writing(to) as file:
                file.writelines(f"{line_of(spec)}\n" for spec in specs)
            exporting.count = len(specs)
        return SchedulesExported(exported=len(specs), unreadable=tuple(unreadable))

    async def import_(self, path: str | Path, *, prune: bool = False) -> SchedulesImported:
        """`Schedules.import_`, awaited."""
        with reading(path) as file:
            saved = [*read_lines(self._app, file)]  # all are checked before any is made
        of = f"of {Path(path).name}"
        async with self._auditor.action(AuditAction.IMPORT, "schedules", of) as importing:
            copying = ScheduleImport(self._app, self._scheduler, self._clock)
            for each in saved:
                await copying.take(each)
            done = await copying.finish(await self._reader.names(), prune=prune)
            importing.count = len(done.created) + len(done.changed)
        return done

    async def get(self, name: str) -> ScheduleInfo:
        """`Schedules.get`, awaited."""
        return registry.read_schedule(self._app, await self._found(name))

    async def next_times(self, name: str, count: int = 5) -> Sequence[datetime]:
        """`Schedules.next_times`, awaited."""
        return (await self.get(name)).next_times(count, self._clock.now())

    async def pause(self, name: str, *, reason: str = "") -> None:
        """`Schedules.pause`, awaited."""
        check_reason(reason)
        await self._switch(AuditAction.PAUSE_SCHEDULE, name, enabled=False, reason=reason)

    async def resume(self, name: str) -> None:
        """`Schedules.resume`, awaited."""
        await self._switch(AuditAction.RESUME_SCHEDULE, name, enabled=True)

    async def reschedule(self, name: str, *, schedule: Schedule, limit: int | None = None) -> None:
        """`Schedules.reschedule`, awaited."""
        found, now = await self._found(name), self._clock.now()
        spec = schedule_requests.rescheduled(self._app, name, found, schedule, limit, now)
        async with self._action(AuditAction.CHANGE_SCHEDULE, name, detail=schedule.expression):
            await self._update(name, spec)

    async def reset(self, name: str) -> None:
        """`Schedules.reset`, awaited."""
        found = await self._found(name)
        spec = schedule_requests.as_declared(self._app, name, found)
        async with self._action(AuditAction.RESET_SCHEDULE, name, detail=spec.expression):
            await self._update(name, spec)

    async def remove(self, name: str) -> bool:
        """`Schedules.remove`, awaited."""
        registry.refuse_declared(self._app, name)
        address = registry.address(self._app, name)
        async with self._action(AuditAction.REMOVE_SCHEDULE, name) as removing:
            was_there = await self._scheduler.delete(*address)
            removing.result = "" if was_there else "there was none"
        return was_there

    async def run_now(self, name: str) -> H:
        """`Schedules.run_now`, awaited."""
        submission = schedule_requests.at_once(
            self._app, name, await self._found(name), self._clock.now()
        )
        async with self._action(AuditAction.RUN_SCHEDULE, name) as running:
            await self._send([submission])
            running.result = f"job {submission.id}"
        return self._handle(submission.id, self._app.find_type(submission.envelope.type))

    async def cancel_delayed(self, job_id: str) -> bool:
        """`Schedules.cancel_delayed`, awaited."""
        async with self._auditor.action(AuditAction.CANCEL, "job", job_id) as cancelling:
            was_held = await self._withdraw(job_id)
            cancelling.result = "" if was_held else "no schedule held it"
        return was_held

    async def _switch(
        self, action: AuditAction, name: str, *, enabled: bool, reason: str = ""
    ) -> None:
        spec = schedule_requests.switched(
            await self._found(name), enabled=enabled, now=self._clock.now()
        )
        async with self._action(action, name, reason=reason):
            await self._update(name, spec)

    def _action(
        self, action: AuditAction, name: str, *, reason: str = "", detail: str = ""
    ) -> Audited:
        return self._auditor.action(action, "schedule", name, reason=reason, detail=detail)

    async def _update(self, name: str, spec: ScheduleSpec) -> None:
        if not await self._scheduler.update(spec):
            raise registry.missing(self._app, name)

    async def _found(self, name: str) -> ScheduleSpec:
        found = await self._scheduler.get(*registry.address(self._app, name))
        return registry.existing(self._app, name, found)


def async_schedules(
    ports: AsyncPorts, lookup: Lookup, send: Submit, delayed: DelayedJobs
) -> AsyncSchedules[AsyncJobHandle[Any]]:
    """Return the schedules of an asynchronous client."""

    def handle(job_id: str, job: JobType[Any, Any]) -> AsyncJobHandle[Any]:
        return AsyncJobHandle(job_id, lookup, job)

    return AsyncSchedules(
        lookup.services, ports.scheduler, send, handle, partial(lookup.withdraw, delayed)
    )
