"""``client.schedules`` of a `Client`: `AsyncSchedules`, run to its end at each call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypeVar, Unpack, overload

from headgate.jobs.client.lookup import Lookup
from headgate.jobs.client.schedules.async_schedules import AsyncSchedules
from headgate.jobs.client.submitting.engine import Submit
from headgate.jobs.core.backend import Ports
from headgate.jobs.core.immediate import ImmediateScheduler, drive
from headgate.jobs.definitions.job_type import Given, JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.handles.handle import JobHandle
from headgate.jobs.schedules.copies import SchedulesExported, SchedulesImported
from headgate.jobs.schedules.delayed_jobs import DelayedJobs
from headgate.jobs.schedules.registry import ScheduleInfo, UnreadableSchedule
from headgate.jobs.submission.prepare import new_job_of

P = TypeVar("P")


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

    def export(self, to: str | Path | TextIO) -> SchedulesExported:
        """Write all schedules into a file, for `import_` in another region.

        It has a line for each, with its job's payload; delayed jobs are not among them. ``to`` is a
        file that is not there yet, which its owner alone can read; or an open one.

        Raises:
            ConfigurationError: the file exists, or can't be written.
        """
        return drive(self._engine.export(to))

    def import_(self, path: str | Path, *, prune: bool = False) -> SchedulesImported:
        """Have this region's schedules fire as a file of `export` says.

        Those made at run time are created or changed. Those that job types declare, which a
        deployment has created, are enabled, paused or moved. The whole file is checked first.

        Args:
            path: the file.
            prune: remove what was made at run time and is not in the file.

        Raises:
            ConfigurationError: the file can't be read, or is of another app or stage.
        """
        return drive(self._engine.import_(path, prune=prune))

    def get(self, name: str) -> ScheduleInfo:
        """Return the schedule of that name."""
        return drive(self._engine.get(name))

    def next_times(self, name: str, count: int = 5) -> Sequence[datetime]:
        """Return its next times, in UTC; see `jobs.schedules.registry.ScheduleInfo.next_times`."""
        return drive(self._engine.next_times(name, count))

    def pause(self, name: str, *, reason: str = "") -> None:
        """Pause a schedule until `resume`; the times it misses are not made up for.

        Args:
            name: the schedule.
            reason: up to 300 characters, for the audit.

        Raises:
            SettingsInvalid: it is a rate with an end, and none of its times is left; or the reason
                is too long.
        """
        drive(self._engine.pause(name, reason=reason))

    def resume(self, name: str) -> None:
        """Resume a paused schedule, from now on.

        Raises:
            SettingsInvalid: it is a rate with an end, and none of its times is left.
        """
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
        """Cancel a job that waits in a one-time schedule. Its records say so, if its type has any.

        Returns:
            True if the job will not be sent. False if no schedule holds it, or only one that fires
            within the half minute that a deletion may take: it has been sent, or is about to be.
        """
        return drive(self._engine.cancel_delayed(job_id))


def schedules(ports: Ports, lookup: Lookup, send: Submit, delayed: DelayedJobs) -> Schedules:
    """Return the schedules of a synchronous client."""

    def handle(job_id: str, job: JobType[Any, Any]) -> JobHandle[Any]:
        return JobHandle(job_id, lookup, job)

    scheduler = ImmediateScheduler(ports.scheduler)
    return Schedules(
        AsyncSchedules(lookup.services, scheduler, send, handle, partial(lookup.withdraw, delayed))
    )
