"""Rules for schedules: those that never fire, no longer fire, or submit more than may start."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from headgate.jobs.core.limits import Limits, RateLimit
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.schedules.declared import DeclaredSchedule
from headgate.jobs.definitions.schedules.occurrences import (
    FIRST_MOMENT,
    is_one_time,
    occurrences,
    period_of,
)
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.deployment.checks.places import place_of
from headgate.jobs.errors import Fault


def schedule_never_fires(app: App, _now: datetime) -> Iterator[Fault]:
    """A schedule without a single date, even in the past."""
    for job, declared in _declared(app):
        if not _could_ever_fire(declared.when):
            yield Fault(
                rule="schedule-never-fires",
                where=_place_of(job, declared),
                what=f"{declared.when.expression} has no date{_within(declared.when)}",
                why="EventBridge accepts it, but never fires",
                instead="Check the day of month against the month, and the year, start= and end=",
            )


def schedule_over(app: App, now: datetime) -> Iterator[Fault]:
    """A schedule whose dates have all passed.

    The mere passing of time causes it, so it is not an error, which would block deployments of code
    that nobody has changed, rollbacks included.
    """
    for job, declared in _declared(app):
        schedule = declared.when
        if _fires_from(schedule, now) or not _could_ever_fire(schedule):
            continue
        yield Fault(
            rule="schedule-over",
            where=_place_of(job, declared),
            what=f"{schedule.expression} has no more dates{_within(schedule)}",
            why="It no longer fires, but stays on AWS as long as it is declared",
            instead="Take it off the type, or give it a future date",
            severity="warning",
        )


def rate_below_schedule(app: App, _now: datetime) -> Iterator[Fault]:
    """A rate limit that lets through less than a schedule submits."""
    for job in app.types.values():
        per_s = sum(1 / every_s for each in job.schedules if (every_s := _period_s(each)))
        for owner, limits in _levels(app, job):
            limit = limits.rate_limit
            if limit is None or limit.key is not None:
                continue  # a key may exempt them: those of no tenant, or by their payload
            cost = max((_cost(limit, job, each) for each in job.schedules), default=0)
            starts = limit.limit / cost if cost else math.inf
            if per_s and starts / limit.per.total_seconds() < per_s:
                yield Fault(
                    rule="rate-below-schedule",
                    where=place_of(job),
                    what=f"it is scheduled every {timedelta(seconds=1 / per_s)}, and the rate "
                    f"limit of {owner} lets {starts:,.10g} start in {limit.per}",
                    why="Its backlog would grow without end",
                    instead="Raise the limit, or schedule it less often",
                )


def cost_above_limit(app: App, _now: datetime) -> Iterator[Fault]:
    """A schedule whose jobs cost more than a rate limit has."""
    for job, declared in _declared(app):
        for owner, limits in _levels(app, job):
            limit = limits.rate_limit
            if limit is None or (cost := _cost(limit, job, declared)) <= limit.limit:
                continue
            yield Fault(
                rule="cost-above-limit",
                where=_place_of(job, declared),
                what=f"a job of its schedule costs {cost:,}, and the rate limit of {owner} has "
                f"{limit.limit:,}",
                why="Such a submission is refused; a firing is not, and takes all of the limit",
                instead="Raise the limit, or have the cost function return less for the "
                "schedule's payload",
            )


def _declared(app: App) -> Iterator[tuple[JobType[Any, Any], DeclaredSchedule]]:
    """Yield each declared schedule, with its type."""
    for job in app.types.values():
        for declared in job.schedules:
            yield job, declared


def _place_of(job: JobType[Any, Any], declared: DeclaredSchedule) -> str:
    place = place_of(job)
    return place if declared.name == job.name else f"{place}, schedule {declared.name}"


def _cost(limit: RateLimit, job: JobType[Any, Any], declared: DeclaredSchedule) -> int:
    """Return the cost of a job that one of a type's schedules submits."""
    try:
        if isinstance(limit.cost, int):
            return limit.cost
        return limit.cost_of(job.load(job.scheduled_payload(declared)))
    except Exception:  # noqa: BLE001 - the users' code; a worker counts such a job as one token
        return 1


def _levels(app: App, job: JobType[Any, Any]) -> Iterator[tuple[str, Limits]]:
    """Yield the limits that apply to a type, each with its owner."""
    yield place_of(job), job.limits
    yield f"queue {job.queue}", app.queues[job.queue].limits
    yield f"app {app.name}", app.limits


def _period_s(declared: DeclaredSchedule) -> float | None:
    """Return the seconds between two firings of a rate; None for a schedule of another kind."""
    if not declared.when.expression.startswith("rate("):
        return None
    return period_of(declared.when.expression).total_seconds()


def _fires_from(schedule: Schedule, since: datetime) -> bool:
    """Return True if a schedule has a date from ``since`` on."""
    try:
        times = occurrences(
            schedule.expression,
            schedule.timezone,
            since=since,
            start=schedule.start,
            end=schedule.end,
        )
        return next(times, None) is not None
    except ValueError:
        return True  # EventBridge may know how to read it


def _could_ever_fire(schedule: Schedule) -> bool:
    return is_one_time(schedule.expression) or _fires_from(schedule, FIRST_MOMENT)


def _within(schedule: Schedule) -> str:
    """Return the bounds of a schedule's dates, for a message."""
    bounds = {"start": schedule.start, "end": schedule.end}
    given = [f"{name}={moment.isoformat()}" for name, moment in bounds.items() if moment]
    return f" with {' and '.join(given)}" if given else ""
