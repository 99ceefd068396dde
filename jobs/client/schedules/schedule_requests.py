"""Requests of `jobs.client.schedules` to EventBridge Scheduler, as pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import uuid4

from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import NewJob
from headgate.jobs.definitions.schedules.occurrences import is_one_time, occurrences
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.errors import OptionInvalid, SettingsInvalid, UnknownJobType
from headgate.jobs.messages.envelope import Options
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.outgoing import message_of
from headgate.jobs.schedules.declared_schedules import declared_schedule
from headgate.jobs.schedules.declared_starts import times_as_text
from headgate.jobs.schedules.delayed_job import check_input
from headgate.jobs.schedules.firing import ScheduledJob, input_of, moved_input, read_scheduled
from headgate.jobs.schedules.registry import (
    address,
    check_new_name,
    find_declared,
    is_declared,
    times_of,
    times_on_aws,
)
from headgate.jobs.submission.prepare import Submission, prepare

_MINUTE = timedelta(minutes=1)
_MOST_TIMES = 100_000
"""Highest limit of a schedule, since its times are counted one by one."""


def job_of(app: App, now: datetime, name: str, new: NewJob[Any]) -> Submission:
    """Return a job as the new schedule of that name is to submit it.

    Raises:
        SubmissionError: the name, the payload or an option is not valid.
        ScheduleExists: a job type declares one of that name.
    """
    given: Mapping[str, object] = new.overrides
    for option in ("delay", "at", "unique"):
        if given.get(option) is not None:
            raise OptionInvalid(f"a schedule takes no {option}: each of its times is one job")
    if given.get("expires") is not None:
        raise OptionInvalid("a schedule takes no expires: declare it on the job's type")
    check_new_name(app, name)
    return prepare(app, app.topology, new, None, {}, now=now, job_id=new_job_id(now))


def of_jobs_like(app: App, name: str, submission: Submission) -> ScheduleSpec:
    """Return a schedule that submits such jobs, without its times.

    See `jobs.client.schedules.schedules.Schedules.create`.

    Raises:
        PayloadTooLarge: EventBridge Scheduler can't hold the job.
    """
    envelope, topology = submission.envelope, app.topology
    scheduled = ScheduledJob(
        schedule=name,
        type=envelope.type,
        schema=envelope.schema_,
        payload=envelope.payload,
        sealed=envelope.sealed,
        queue=envelope.queue,
        priority=envelope.priority,
        queue_name=submission.queue.name,
        fifo_group=submission.message.group if submission.queue.fifo else None,
        tenant=envelope.tenant,
        options=_lasting(envelope.options),
    )
    text = input_of(scheduled)
    check_input(f"the schedule {name!r}", text)
    group, physical = address(app, name)
    return ScheduleSpec(
        group=group,
        name=physical,
        expression="",
        function=topology.bridge_name,
        role=topology.scheduler_role,
        dead_letters=topology.failed_firings_name,
        input=text,
        description=f"Submits {envelope.type} jobs to {envelope.queue}/{envelope.priority}",
    )


def _lasting(options: Options | None) -> Options | None:
    """Return the options that apply to every job of a schedule, or None if there are none."""
    lasting = options.model_copy(update={"unique": None}) if options else None
    return None if lasting == Options() else lasting


def timed(spec: ScheduleSpec, when: Schedule, limit: int | None, now: datetime) -> ScheduleSpec:
    """Return the same schedule at these times.

    Raises:
        SettingsInvalid: it never fires, or the limit doesn't go with it.
    """
    if not isinstance(when, Schedule):
        raise SettingsInvalid(
            "schedule must be made by cron(...), Schedule.rate(...) or Schedule.at(...), got "
            f"{when!r}"
        )
    if when.expression.startswith("rate(") and when.start is None:
        when = replace(when, start=now)  # so that the rate counts from a known time
    if limit is not None:
        when = _limited(when, limit, now)
    if next(times_of(when, now), None) is None:
        end = "" if when.end is None else f", or are after its end ({when.end})"
        raise SettingsInvalid(f"{when.expression} never fires: all of its times have passed{end}")
    window = when.flexible_window
    again = replace(
        spec,
        expression=when.expression,
        timezone=when.timezone,
        start=when.start,
        end=when.end,
        flexible_minutes=None if window is None else window // _MINUTE,
        delete_when_done=is_one_time(when.expression) or when.end is not None,
    )
    return _begun(again, now)


def _limited(when: Schedule, limit: int, now: datetime) -> Schedule:
    """Return the schedule with an end after ``limit`` of its times, paused or not."""
    _check_limit(limit)
    if is_one_time(when.expression):
        if limit > 1:
            raise SettingsInvalid(f"{when.expression} fires once: leave limit={limit} out")
        return when
    if when.flexible_window is not None:
        raise SettingsInvalid(
            f"{when.expression}: limit and flexible_window exclude each other, since the limit is "
            "an end by the minute"
        )
    times = list(islice(times_of(when, now), limit))
    if not times:
        return when
    last = times[-1] + _MINUTE - timedelta(seconds=1)  # no two are closer than a minute
    return replace(when, end=min(last, when.end or last))


def _check_limit(limit: object) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MOST_TIMES:
        raise SettingsInvalid(
            f"limit must be a whole number of 1 to {_MOST_TIMES:,}, got {limit!r}: for a "
            "later end give the schedule an end="
        )


def switched(spec: ScheduleSpec, *, enabled: bool, now: datetime) -> ScheduleSpec:
    """Return the same schedule, paused or not.

    Raises:
        SettingsInvalid: it is a rate with no time left before its end.
    """
    return _begun(replace(spec, enabled=enabled), spec.as_of or now)


def rescheduled(
    app: App, name: str, spec: ScheduleSpec, when: Schedule, limit: int | None, now: datetime
) -> ScheduleSpec:
    """Return a schedule that exists on AWS, at other times; raises as `timed` does.

    Raises:
        MessageUnreadable: the input of a declared schedule was not written by Headgate.
    """
    again = timed(spec, when, limit, spec.as_of or now)
    if not is_declared(app, name):
        return again
    moved_from = read_scheduled(spec.input).moved_from or times_as_text(times_on_aws(spec))
    # It stays after its last time: a deployment that changes or deletes it has to find it.
    return replace(again, delete_when_done=False, input=moved_input(spec.input, moved_from))


def as_declared(app: App, name: str, spec: ScheduleSpec) -> ScheduleSpec:
    """Return a declared schedule that exists on AWS as its job type declares it.

    Raises:
        OptionInvalid: no job type declares it.
    """
    if (found := find_declared(app, name)) is None:
        raise OptionInvalid(
            f"no job type of the app {app.name!r} declares a schedule {name!r} to reset it to: "
            "reschedule it, or remove it"
        )
    declared = declared_schedule(app, *found)
    return replace(
        spec,
        expression=declared.expression,
        timezone=declared.timezone,
        start=None,
        end=declared.end,
        flexible_minutes=declared.flexible_minutes,
        enabled=True,
        input=declared.input,
    )


def _begun(spec: ScheduleSpec, now: datetime) -> ScheduleSpec:
    """Return the same times from now on, with a start that EventBridge Scheduler accepts.

    The service refuses a start more than five minutes ago. A cron expression needs no past start. A
    rate counts from its start, so a past start is replaced by the next of the rate's times.

    Raises:
        SettingsInvalid: a rate has no time left before its end; without a start it would begin
            anew.
    """
    if spec.start is None or spec.start >= now:
        return spec
    if not spec.expression.startswith("rate("):
        return replace(spec, start=None)
    times = occurrences(spec.expression, "UTC", since=now, start=spec.start, end=spec.end)
    start, end = next(times, None), spec.end
    if start is None:
        raise SettingsInvalid(
            f"{spec.expression} no longer fires: none of its times is left before its end ({end}), "
            "so there is nothing to pause or to resume: reschedule it, or remove it"
        )
    if end is not None:
        end = max(end, start + timedelta(seconds=1))  # it has to be after the start
    return replace(spec, start=start, end=end)


def at_once(app: App, name: str, spec: ScheduleSpec, now: datetime) -> Submission:
    """Return the job that a schedule submits, for submission outside its times.

    Raises:
        UnknownJobType: the app no longer has its type.
        MessageUnreadable: its input was not written by Headgate.
    """
    scheduled = read_scheduled(spec.input)
    if scheduled.type not in app.types:
        raise UnknownJobType(
            f"the schedule {name!r} submits jobs of the type {scheduled.type!r}, which the app "
            f"{app.name!r} no longer has: remove the schedule, or declare the type again"
        )
    queue = app.topology.queue(scheduled.queue, scheduled.priority)
    envelope = scheduled.envelope(new_job_id(now), now)
    message = message_of(envelope, fifo_group=scheduled.fifo_group)
    return Submission(queue=queue, message=message, envelope=envelope)


def new_token() -> str:
    """Return a unique token, so that a schedule that was removed can be created again."""
    return uuid4().hex
