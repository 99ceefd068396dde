"""``client.schedules``: creates, changes and removes an app's schedules at run time.

`AsyncSchedules` is the awaited form of `Schedules`. Its requests and answers are defined in
`jobs.schedules.registry`, and delayed jobs in `jobs.schedules.delayed_job`.
"""

from __future__ import annotations

import builtins
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar, Unpack, overload

from headgate.jobs.client import schedule_requests
from headgate.jobs.client.auditing.auditor import Audited, Auditor
from headgate.jobs.client.handle import AsyncJobHandle, JobHandle
from headgate.jobs.core.batching import TRIES, pause_s
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports.scheduler import AsyncScheduler, ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import Given, JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.errors import MessageUnreadable, Throttled
from headgate.jobs.messages.sealing import Seals
from headgate.jobs.records.audit.entry import AuditAction
from headgate.jobs.schedules import registry
from headgate.jobs.schedules.delayed_jobs import DelayedJobs
from headgate.jobs.schedules.firing import source_of
from headgate.jobs.schedules.reading import AT_ONCE, Answer, Reading
from headgate.jobs.schedules.registry import ScheduleInfo, UnreadableSchedule
from headgate.jobs.submission.prepare import Submission, new_job_of
from headgate.jobs.submission.sealing import sealed_for

P = TypeVar("P")
H = TypeVar("H", bound=JobHandle[Any] | AsyncJobHandle[Any])


class AsyncSchedules(Generic[H]):
    """The awaited form of `Schedules`, which also drives this class.

    Args:
        app: the app whose schedules are managed.
        scheduler: holds the schedules.
        send: submits the jobs of `run_now`.
        handle: makes the handle of a submitted job.
        delayed: holds the jobs that wait in one-time schedules.
        clock: tells the time.
        concurrency: makes several requests at once.
        sleep: pauses when AWS throttles.
        rng: spreads the pauses.
        seals: seals the payloads; None leaves them as they are.
        auditor: enters who changes schedules into the audit.
    """

    def __init__(
        self,
        app: App,
        scheduler: AsyncScheduler,
        send: Callable[[Sequence[Submission]], Awaitable[None]],
        handle: Callable[[str, JobType[Any, Any]], H],
        delayed: DelayedJobs,
        clock: Clock,
        *,
        concurrency: Parallelism,
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
        seals: Seals | None,
        auditor: Auditor,
    ) -> None:
        self._app = app
        self._scheduler = scheduler
        self._send = send
        self._handle = handle
        self._delayed = delayed
        self._clock = clock
        self._concurrency = concurrency
        self._sleep = sleep
        self._rng = rng
        self._seals = seals
        self._auditor = auditor

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
        reading = Reading(self._app, await self._names(), self._rng)
        while reading.left:
            answers = await self._concurrency.each(self._look, reading.left, at_once=AT_ONCE)
            if wait_s := reading.note(answers):
                await self._sleep(wait_s)
        return reading.listed()

    async def get(self, name: str) -> ScheduleInfo:
        """`Schedules.get`, awaited."""
        return registry.read_schedule(self._app, await self._found(name))

    async def next_times(self, name: str, count: int = 5) -> Sequence[datetime]:
        """`Schedules.next_times`, awaited."""
        return (await self.get(name)).next_times(count, self._clock.now())

    async def pause(self, name: str) -> None:
        """`Schedules.pause`, awaited."""
        await self._switch(AuditAction.PAUSE_SCHEDULE, name, enabled=False)

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
            was_held = await self._delayed.cancel(job_id)
            cancelling.result = "" if was_held else "no schedule held it"
        return was_held

    async def _names(self) -> builtins.list[str]:
        """Return the names on AWS of the schedules created at run time."""
        group, _ = registry.address(self._app, "")
        for tries in range(1, TRIES):
            try:
                return await self._scheduler.names(group, prefix=registry.PREFIX)
            except Throttled:
                await self._sleep(pause_s(tries, self._rng))
        return await self._scheduler.names(group, prefix=registry.PREFIX)

    async def _look(self, physical: str) -> Answer:
        try:
            return await self._scheduler.get(self._app.topology.schedule_group, physical)
        except (MessageUnreadable, Throttled) as error:
            return error

    async def _switch(self, action: AuditAction, name: str, *, enabled: bool) -> None:
        spec = schedule_requests.switched(
            await self._found(name), enabled=enabled, now=self._clock.now()
        )
        async with self._action(action, name):
            await self._update(name, spec)

    def _action(self, action: AuditAction, name: str, *, detail: str = "") -> Audited:
        return self._auditor.action(action, "schedule", name, detail=detail)

    async def _update(self, name: str, spec: ScheduleSpec) -> None:
        if not await self._scheduler.update(spec):
            raise registry.missing(self._app, name)

    async def _found(self, name: str) -> ScheduleSpec:
        found = await self._scheduler.get(*registry.address(self._app, name))
        return registry.existing(self._app, name, found)


class Schedules:
    """An app's schedules on AWS: those that its job types declare, and those created here.

    Every method may raise a `TransportError`, and `ScheduleMissing` if no schedule has the name.
    """

    def __init__(self, engine: AsyncSchedules[JobHandle[Any]]) -> None:
        self._engine = engine

    @overload
    def create(
        self, name: str, job: NewJob[Any], *, schedule: Schedule, limit: int | None = None
    ) -> ScheduleInfo: ...
    @overload
    def create(
        self,
        name: str,
        job: JobType[None, Any],
        *,
        schedule: Schedule,
        limit: int | None = None,
        **overrides: Unpack[SubmitOptions],
    ) -> ScheduleInfo: ...
    @overload
    def create(
        self,
        name: str,
        job: JobType[P, Any],
        payload: Given[P],
        *,
        schedule: Schedule,
        limit: int | None = None,
        **overrides: Unpack[SubmitOptions],
    ) -> ScheduleInfo: ...
    def create(
        self,
        name: str,
        job: JobType[Any, Any] | NewJob[Any],
        payload: Any = None,
        *,
        schedule: Schedule,
        limit: int | None = None,
        **overrides: Unpack[SubmitOptions],
    ) -> ScheduleInfo:
        """Create a schedule, which submits a job at each of its times.

        Args:
            name: 1 to 56 letters, digits, hyphens, underscores and full stops.
            job: the type, as declared on the app; or a job as a value, which includes the payload
                and overrides.
            payload: the payload of each of its jobs; omitted for jobs that have none.
            schedule: `headgate.Schedule`, as made by `cron`, `rate` or `at`.
            limit: the number of times after which it ends, at most 100,000. Times count even while
                it is paused.
            overrides: as for a submission, except ``delay``, ``at`` and ``unique``.

        Raises:
            ScheduleExists: there is one of that name.
            SubmissionError: the name, the payload or an option is not valid.
            SettingsInvalid: it would never fire, or the limit doesn't go with ``schedule``.
        """
        new = new_job_of(job, payload, overrides)
        return drive(self._engine.create(name, new, schedule=schedule, limit=limit))

    def list(self) -> Sequence[ScheduleInfo | UnreadableSchedule]:
        """Return all schedules on AWS, by name; makes a request for each, and one per 100 names.

        A schedule that can't be read is listed as an `UnreadableSchedule`. Throttled requests are
        repeated after pauses.
        """
        return drive(self._engine.list())

    def get(self, name: str) -> ScheduleInfo:
        """Return the schedule of that name."""
        return drive(self._engine.get(name))

    def next_times(self, name: str, count: int = 5) -> Sequence[datetime]:
        """Return its next times, in UTC; see `jobs.schedules.registry.ScheduleInfo.next_times`."""
        return drive(self._engine.next_times(name, count))

    def pause(self, name: str) -> None:
        """Pause a schedule until `resume`; the times it misses are not made up for.

        Raises:
            SettingsInvalid: it is a rate with an end, and none of its times is left.
        """
        drive(self._engine.pause(name))

    def resume(self, name: str) -> None:
        """Resume a paused schedule, from now on; raises as `pause`."""
        drive(self._engine.resume(name))

    def reschedule(self, name: str, *, schedule: Schedule, limit: int | None = None) -> None:
        """Change the times of a schedule; its job stays the same.

        A declared schedule keeps its new times until `reset`, or until a deployment that changes
        it. Until then its `ScheduleInfo` has ``moved``, and the code's times as ``in_code``.

        Raises:
            SettingsInvalid: it would never fire, or the limit doesn't go with ``schedule``.
        """
        drive(self._engine.reschedule(name, schedule=schedule, limit=limit))

    def reset(self, name: str) -> None:
        """Have a declared schedule fire as its job type declares it: at its times, not paused.

        Raises:
            OptionInvalid: no job type declares it.
        """
        drive(self._engine.reset(name))

    def remove(self, name: str) -> bool:
        """Remove a schedule; False if there was none. Jobs that it has submitted are unaffected.

        Raises:
            ScheduleDeclared: the code declares it.
        """
        return drive(self._engine.remove(name))

    def run_now(self, name: str) -> JobHandle[Any]:
        """Submit a schedule's job at once, in addition to its times, even if it is paused.

        Raises:
            UnknownJobType: the app no longer has the type of its jobs; nothing is submitted.
        """
        return drive(self._engine.run_now(name))

    def cancel_delayed(self, job_id: str) -> bool:
        """Cancel a job that waits in a one-time schedule.

        Returns:
            True if the job will not be sent. False if no schedule holds it, or only one that fires
            within the half minute that a deletion may take: it has been sent, or is about to be.
        """
        return drive(self._engine.cancel_delayed(job_id))
