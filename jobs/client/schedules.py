"""``client.schedules`` of plain code: an app's schedules made, changed and removed while it runs.

What is asked for, and what the answers mean, is in `jobs.schedules.registry`; what is held back, in
`jobs.schedules.delayed_job`. `jobs.client.async_schedules` has the same for an event loop.
"""

from __future__ import annotations

import builtins
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar, Unpack

from headgate.jobs.client import schedule_requests as making
from headgate.jobs.client.handle import JobHandle
from headgate.jobs.core.batching import TRIES, pause_s
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports import BlockingScheduler, ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.schedule import Schedule
from headgate.jobs.errors import MessageUnreadable, Throttled, TransportError
from headgate.jobs.schedules import registry as book
from headgate.jobs.schedules.reading import AT_ONCE, Answer, Reading
from headgate.jobs.schedules.registry import ScheduleInfo, UnreadableSchedule
from headgate.jobs.submission.prepare import Overrides, Submission

P = TypeVar("P")


class Schedules:
    """An app's schedules on AWS: those that its job types declare, and those made here.

    Every method may raise a `TransportError`; `ScheduleMissing` where there is none of that name.
    """

    def __init__(
        self,
        app: App,
        scheduler: Callable[[], BlockingScheduler],
        send: Callable[[Sequence[Submission]], None],
        handle: Callable[[str, JobType[Any, Any]], JobHandle[Any]],
        clock: Clock,
        *,
        sleep: Callable[[float], None],
        rng: random.Random,
    ) -> None:
        self._app = app
        self._scheduler = scheduler
        self._send = send
        self._handle = handle
        self._clock = clock
        self._sleep = sleep
        self._rng = rng

    def create(
        self,
        name: str,
        job: JobType[P, Any],
        payload: P,
        *,
        when: Schedule,
        limit: int | None = None,
        **overrides: Unpack[Overrides],
    ) -> ScheduleInfo:
        """Submit such a job at the times that ``when`` says.

        Args:
            name: 1 to 56 letters, digits, hyphens, underscores and full stops.
            job: the type, as declared on the app.
            payload: of each of its jobs.
            when: `headgate.cron`, `headgate.rate` or `headgate.at`.
            limit: end after so many of its times, at most 100,000. They count whether it runs or is
                paused.
            overrides: as for a submission, but for ``delay`` and ``at``.

        Raises:
            ScheduleExists: there is one of that name.
            SubmissionError: the name, the payload or an option is not valid.
            SettingsInvalid: it would never fire, or the limit doesn't go with ``when``.
        """
        spec = making.new_schedule(
            self._app, self._clock.now(), name, job, payload, when, limit, overrides
        )
        if not self._scheduler().create(spec, token=making.new_token()):
            raise book.taken(self._app, name)
        return book.read_schedule(self._app, spec)

    def list(self) -> Sequence[ScheduleInfo | UnreadableSchedule]:
        """All that are on AWS, by name; a request for each, and one for a hundred names.

        One that can't be read is among them as an `UnreadableSchedule`. What AWS throttles is
        asked for again, after pauses.
        """
        reading = Reading(self._app, self._names(), self._rng)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="headgate-schedules") as threads:
            while reading.left:
                if wait_s := reading.note(threads.map(self._look, reading.left)):
                    self._sleep(wait_s)
        return reading.listed()

    def get(self, name: str) -> ScheduleInfo:
        """The schedule of that name."""
        return book.read_schedule(self._app, self._found(name))

    def next_times(self, name: str, count: int = 5) -> Sequence[datetime]:
        """When it fires next, in UTC; see `jobs.schedules.registry.ScheduleInfo.next_times`."""
        return self.get(name).next_times(count, self._clock.now())

    def pause(self, name: str) -> None:
        """Let it fire no more until `resume`; what it misses meanwhile is not made up for.

        Raises:
            SettingsInvalid: it is a rate with an end, and none of its times is left.
        """
        self._switch(name, enabled=False)

    def resume(self, name: str) -> None:
        """Let it fire again, from now on; raises as `pause`."""
        self._switch(name, enabled=True)

    def reschedule(self, name: str, *, when: Schedule, limit: int | None = None) -> None:
        """Let it fire at other times; what it submits stays.

        Raises:
            ScheduleDeclared: the code declares it.
            SettingsInvalid: it would never fire, or the limit doesn't go with ``when``.
        """
        book.refuse_declared(self._app, name)
        self._update(name, making.rescheduled(self._found(name), when, limit, self._clock.now()))

    def remove(self, name: str) -> bool:
        """Remove it; False if there was none. What it has submitted goes its way.

        Raises:
            ScheduleDeclared: the code declares it.
        """
        book.refuse_declared(self._app, name)
        return self._scheduler().delete(*book.address(self._app, name))

    def run_now(self, name: str) -> JobHandle[Any]:
        """Submit its job at once, beside its times, paused or not.

        Raises:
            UnknownJobType: the app no longer has the type of its jobs; nothing is submitted.
        """
        submission = making.at_once(self._app, name, self._found(name), self._clock.now())
        self._send([submission])
        return self._handle(submission.id, self._app.find_type(submission.envelope.type))

    def cancel_delayed(self, job_id: str) -> bool:
        """Cancel a job that waits in a one-time schedule.

        Returns:
            True if the job will not be sent. False if no schedule holds it, or none for longer
            than the half minute that a deletion may take: it has been sent, or is about to be.
        """
        return any(self._withdraw(name) for name in making.names_of(job_id))

    def hold(self, submissions: Sequence[Submission]) -> Sequence[TransportError | None]:
        """Put jobs into one-time schedules; for each what kept it out, None if nothing did."""
        results: list[TransportError | None] = []
        for submission in submissions:
            spec, token = making.held(self._app, submission, self._clock.now())
            try:
                self._scheduler().create(spec, token=token)  # False: it had been, by this request
            except TransportError as error:
                # It would fail the rest as well.
                return [*results, *[error] * (len(submissions) - len(results))]
            results.append(None)
        return results

    def _names(self) -> builtins.list[str]:
        """The names on AWS of those made at run time."""
        group, _ = book.address(self._app, "")
        for tries in range(1, TRIES):
            try:
                return self._scheduler().names(group, prefix=book.PREFIX)
            except Throttled:
                self._sleep(pause_s(tries, self._rng))
        return self._scheduler().names(group, prefix=book.PREFIX)

    def _look(self, physical: str) -> Answer:
        try:
            return self._scheduler().get(self._app.topology.schedule_group, physical)
        except (MessageUnreadable, Throttled) as error:
            return error

    def _withdraw(self, name: str) -> bool:
        group, scheduler = self._app.topology.schedule_group, self._scheduler()
        found = scheduler.get(group, name)
        if found is None or not making.is_waiting(found, self._clock.now()):
            return False
        return scheduler.delete(group, name)

    def _switch(self, name: str, *, enabled: bool) -> None:
        now = self._clock.now()
        self._update(name, making.switched(self._found(name), enabled=enabled, now=now))

    def _update(self, name: str, spec: ScheduleSpec) -> None:
        if not self._scheduler().update(spec):
            raise book.missing(self._app, name)

    def _found(self, name: str) -> ScheduleSpec:
        found = self._scheduler().get(*book.address(self._app, name))
        return book.existing(self._app, name, found)
