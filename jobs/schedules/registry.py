"""An app's schedules as EventBridge Scheduler keeps them: declared ones, and those made later.

A type's schedule bears the type's name, a further one that name and its own behind a full stop; one
made at run time has a prefix that no declared schedule's name can have, so they never clash. Users
see each by its own name; only a schedule made at run time before a type declared one of the same
name goes by its name on AWS.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any

from headgate.jobs.core.naming import MAX_SCHEDULER_NAME
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.schedules.declared import DeclaredSchedule
from headgate.jobs.definitions.schedules.occurrences import occurrences
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.errors import (
    HeadgateError,
    MessageUnreadable,
    OptionInvalid,
    ScheduleDeclared,
    ScheduleExists,
    ScheduleMissing,
    SettingsInvalid,
)
from headgate.jobs.schedules.declared_starts import declared
from headgate.jobs.schedules.firing import fired_job_id, read_scheduled
from headgate.jobs.values.light_dataclass import frozen_dataclass

PREFIX = "dynamic."
"""Prefix of the names of schedules that were made at run time."""

_FIRST_LOOK, _FURTHER = timedelta(hours=1), 6
"""The length of time in which past times are looked for, and the factor by which it grows."""

_LONGEST_NAME = MAX_SCHEDULER_NAME - len(PREFIX)
_NAME = re.compile(r"[0-9A-Za-z_.-]+")


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    """One of an app's schedules, as it is on AWS."""

    name: str
    job_type: str
    when: Schedule
    enabled: bool
    """False while it is paused."""
    declared: bool
    """True if it is declared on its job type, and so created and deleted by deployments."""
    in_code: Schedule | None = None
    """The times that its job type declares; None for one that was made at run time."""
    moved: bool = False
    """True if it is declared, and was given other times at run time: ``when``, not ``in_code``."""
    created_at: datetime | None
    """Time of its creation; None right after it was created here."""
    arn: str = ""
    """Its ARN; empty right after it was created here."""

    def next_times(self, count: int, now: datetime) -> list[datetime]:
        """Return the next times that it fires, in UTC; while it is paused, those that it would.

        A flexible window may shift each. A rate counts from its start; if that is not known any
        more, the times are calculated from its creation.

        Raises:
            SettingsInvalid: its expression can't be read here, or there are no such times.
        """
        _check(count, now)
        return list(islice(times_of(self.when, now, self.created_at), count))

    def last_runs(self, count: int, now: datetime) -> list[ScheduledRun]:
        """Return its last times since its creation, the latest first, and the job of each.

        A time at which it was paused, or had other times, has no job; `Client.handle` tells of each
        job what became of it. There are none right after the creation.

        Raises:
            SettingsInvalid: as for `next_times`.
        """
        _check(count, now)
        if not self.arn or self.created_at is None:
            return []
        # A firing tells its time in whole seconds, and its job's id follows from that.
        created_at = self.created_at.replace(microsecond=0)
        times = times_before(self.when, now, count, created_at)
        return [ScheduledRun(at=at, job_id=str(fired_job_id(self.arn, at))) for at in times]


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRun:
    """One time of a schedule, and the id of the job that it submits then."""

    at: datetime
    """In UTC."""
    job_id: str


def _check(count: object, now: datetime) -> None:
    if not isinstance(count, int) or count < 0:
        raise SettingsInvalid(f"count must be a whole number, 0 or more, got {count!r}")
    if now.utcoffset() is None:
        raise SettingsInvalid(f"now must have a time zone, got {now!r}")


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableSchedule:
    """One of an app's schedules on AWS that can't be read."""

    name: str
    declared: bool
    """As `ScheduleInfo.declared`."""
    reason: str
    """An input that is not one of Headgate's, times that can't be read here, another target, or AWS
    throttling every request for it."""


def times_of(
    when: Schedule, now: datetime, created_at: datetime | None = None
) -> Iterator[datetime]:
    """Return the times of a schedule from now on.

    Raises:
        SettingsInvalid: its expression can't be read here.
    """
    counts_from = created_at if when.expression.startswith("rate(") else None
    try:
        return occurrences(
            when.expression,
            when.timezone,
            since=now,
            start=when.start or counts_from,
            end=when.end,
        )
    except (ValueError, KeyError) as error:
        raise SettingsInvalid(f"{when.expression} can't be read: {error}") from error


def times_before(
    when: Schedule, now: datetime, count: int, created_at: datetime
) -> Sequence[datetime]:
    """Return the last times of a schedule up to now, the latest first; raises as `times_of`."""
    back, found = _FIRST_LOOK, deque[datetime](maxlen=count)
    while True:
        since = max(created_at, now - back)
        coming = times_of(when, since, created_at)
        found.extend(takewhile(lambda at: at <= now, coming))
        if len(found) == count or since == created_at:
            return [*reversed(found)]
        found.clear()
        back *= _FURTHER


def address(app: App, name: object) -> tuple[str, str]:
    """Return the group and name on AWS of the schedule that an app calls ``name``.

    Raises:
        OptionInvalid: it is not a string.
    """
    if not isinstance(name, str):
        raise OptionInvalid(f"a schedule's name must be a string, got {name!r}")
    as_on_aws = is_declared(app, name) or name.startswith(PREFIX)
    return app.topology.schedule_group, name if as_on_aws else PREFIX + name


def own_name(app: App, physical: str) -> str:
    """Return the name in the app of the schedule that has this name on AWS.

    One made at run time goes by its whole name if a type has declared one of that name since then.
    """
    name = physical.removeprefix(PREFIX)
    return physical if address(app, name)[1] != physical else name


def is_declared(app: App, name: object) -> bool:
    """Return True if a job type declares the schedule of that name."""
    return isinstance(name, str) and find_declared(app, name) is not None


def find_declared(app: App, name: str) -> tuple[JobType[Any, Any], DeclaredSchedule] | None:
    """Return the declared schedule of that name, and its job type; None if there is none."""
    job = app.types.get(name.partition(".")[0])
    if job is None:
        return None
    return next(((job, each) for each in job.schedules if each.name == name), None)


def all_names(app: App, found: list[str]) -> list[str]:
    """Return the names on AWS of the schedules that job types declare, and of those found."""
    declared = [each.name for job in app.types.values() for each in job.schedules]
    return [*declared, *found]


def read_schedule(app: App, spec: ScheduleSpec) -> ScheduleInfo:
    """Read a stored schedule.

    Raises:
        MessageUnreadable: its input is not one of Headgate's.
        SettingsInvalid: its times can't be read here.
    """
    name = own_name(app, spec.name)
    scheduled, in_code = read_scheduled(spec.input), find_declared(app, name)
    return ScheduleInfo(
        name=name,
        job_type=scheduled.type,
        when=times_on_aws(spec),
        enabled=spec.enabled,
        declared=in_code is not None,
        in_code=None if in_code is None else in_code[1].when,
        moved=scheduled.moved_from is not None,
        created_at=spec.created_at,
        arn=spec.arn,
    )


def times_on_aws(spec: ScheduleSpec) -> Schedule:
    """Return the times at which a stored schedule submits jobs; raises as `read_schedule` does."""
    minutes = spec.flexible_minutes
    on_aws = Schedule(
        expression=spec.expression,
        timezone=spec.timezone,
        start=spec.start,
        end=spec.end,
        flexible_window=None if minutes is None else timedelta(minutes=minutes),
    )
    return declared(on_aws, read_scheduled(spec.input).start)


def read_listed(
    app: App, physical: str, found: ScheduleSpec | HeadgateError
) -> ScheduleInfo | UnreadableSchedule:
    """Read a stored schedule, or return the reason why it can't be read."""
    fault = found
    if isinstance(found, ScheduleSpec):
        try:
            return read_schedule(app, found)
        except (MessageUnreadable, SettingsInvalid) as error:
            fault = error
    name = own_name(app, physical)
    return UnreadableSchedule(name=name, declared=is_declared(app, name), reason=str(fault))


def undeployed(app: App, found: Iterable[ScheduleInfo | UnreadableSchedule]) -> list[str]:
    """Return the names of declared schedules that are not among those found on AWS."""
    there = {each.name for each in found}
    declared = (each.name for job in app.types.values() for each in job.schedules)
    return [name for name in declared if name not in there]


def existing(app: App, name: str, found: ScheduleSpec | None) -> ScheduleSpec:
    """Return the schedule that was found on AWS.

    Raises:
        ScheduleMissing: none was found.
    """
    if found is not None:
        return found
    raise missing(app, name)


def missing(app: App, name: str) -> ScheduleMissing:
    """Return the error for a name that no schedule has."""
    if is_declared(app, name):
        return ScheduleMissing(
            f"the declared schedule {name!r} is not on AWS: provision it with `cdk deploy`"
        )
    return ScheduleMissing(
        f"the app {app.name!r} has no schedule {name!r}: client.schedules.list(), or headgate "
        "schedules list, has all of them"
    )


def refuse_declared(app: App, name: str) -> None:
    """Refuse to remove a schedule that a deployment has made.

    Raises:
        ScheduleDeclared: a job type declares the schedule.
    """
    if is_declared(app, name):
        raise ScheduleDeclared(
            f"the schedule {name!r} is declared on its job type: take it off the type and deploy. "
            "It can be paused, resumed, rescheduled, reset and run. One made at run time "
            f"goes by {PREFIX + name!r}"
        )


def check_new_name(app: App, name: object) -> None:
    """Check the name of a schedule that is to be made.

    Raises:
        OptionInvalid: it is not fit for AWS.
        ScheduleExists: a job type declares one of that name.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise OptionInvalid(
            f"the schedule's name {name!r} must be 1 to {_LONGEST_NAME} letters, digits, hyphens, "
            "underscores and full stops"
        )
    if name.startswith(PREFIX):
        raise OptionInvalid(
            f"the schedule's name {name!r} begins with {PREFIX!r}, which stands before the names "
            "on AWS: leave that out"
        )
    if is_declared(app, name):
        raise taken(app, name)


def taken(app: App, name: object) -> ScheduleExists:
    """Return the error for a name that another schedule has."""
    return ScheduleExists(
        f"the app {app.name!r} has a schedule {name!r}: reschedule it, remove it first, or take "
        "another name"
    )
