"""What is assumed of an app's jobs: how many of which types, how large, how long, how good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from headgate.jobs.core.topology import MAX_BATCH, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.occurrences import is_one_time, occurrences, period_of
from headgate.jobs.definitions.schedule import Schedule
from headgate.jobs.deployment.groups import WorkerGroup
from headgate.jobs.errors import SettingsInvalid
from headgate.ops.prices import MONTH_S

_YEAR = timedelta(days=365)
_ENOUGH = 10_000
"""Occurrences after which a schedule's frequency is known well enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A month's work.

    Raises:
        SettingsInvalid: a value is out of range.
    """

    jobs: float
    """Jobs that are submitted in a month; what schedules submit comes on top."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """By job type, its part of them, 0 to 1. What is left goes evenly to the types that are not
    named and have no schedule."""
    duration: timedelta | None = None
    """How long a handler runs; None: what the worker group that has the queue calls typical."""
    payload_bytes: int = 500
    """Of a payload's JSON."""
    result_bytes: int = 100
    """Of a result's JSON, where the type declares that it returns one."""
    failure_rate: float = 0.01
    """The part of attempts that fail and are tried again, 0 to 1."""
    together: float = 1.0
    """Messages that share a request, 1 to 10. 1 where jobs come one at a time; 10 where they are
    submitted in bulk, or so many wait that every receive comes back full."""
    peak: float = 2.0
    """How many times the mean rate jobs come at while they come: all of them in a part of the
    month that is 1 / peak."""
    delayed: float = 0.0
    """The part of jobs that are submitted with more than 15 minutes' delay."""
    tenants: bool = False
    """Whether jobs are submitted for a tenant."""

    def __post_init__(self) -> None:
        _check("jobs", self.jobs, 0, 1e15)
        _check("payload_bytes", self.payload_bytes, 0, 64 * 2**20)
        _check("result_bytes", self.result_bytes, 0, 64 * 2**20)
        _check("failure_rate", self.failure_rate, 0, 1)
        _check("together", self.together, 1, MAX_BATCH)
        _check("peak", self.peak, 1, 1e6)
        _check("delayed", self.delayed, 0, 1)
        for name, share in self.shares.items():
            _check(f"the share of {name}", share, 0, 1)
        if sum(self.shares.values()) > 1 + 1e-9:
            raise SettingsInvalid(
                f"the shares add up to {sum(self.shares.values()):g}: 1 is all of the jobs"
            )
        if self.duration is not None and self.duration <= timedelta(0):
            raise SettingsInvalid(f"duration must be positive, got {self.duration}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The jobs of one type in a month."""

    job: JobType[Any, Any]
    queue: QueueSpec
    submitted: float
    """By clients."""
    fired: float
    """By the bridge, for a schedule or an event."""
    scheduled: float
    """Of these, for schedules."""
    delayed: float
    """By the bridge, of those that clients have submitted."""
    attempts: float
    """Of one job, on average."""
    dead: float
    """The part of jobs whose last attempt fails too."""

    @property
    def jobs(self) -> float:
        """In a month."""
        return self.submitted + self.fired

    @property
    def runs(self) -> float:
        """Attempts in a month."""
        return self.jobs * self.attempts

    @property
    def failures(self) -> float:
        """Attempts that fail in a month."""
        return self.runs - self.completed

    @property
    def completed(self) -> float:
        """Jobs that end well in a month."""
        return self.jobs * (1 - self.dead)


def streams_of(app: App, load: Load, now: datetime) -> list[Stream]:
    """What comes of each type in a month.

    Args:
        app: whose types.
        load: how many jobs, and of which.
        now: when the month begins; aware.

    Raises:
        UnknownJobType: a share is of a type that the app doesn't have.
        SettingsInvalid: nothing is left to take what the shares leave over.
    """
    submitted = _submitted(app, load)
    on_event = {rule.type.name for rule in app.event_rules.values()}
    return [
        _stream(app, job, load, submitted[name], by_event=name in on_event, now=now)
        for name, job in app.types.items()
    ]


def firings(schedule: Schedule, now: datetime) -> float:
    """How often a schedule fires in a month, on average."""
    if is_one_time(schedule.expression):
        return 0.0
    if schedule.expression.startswith("rate"):
        return MONTH_S / period_of(schedule.expression).total_seconds()
    within = now + _YEAR - timedelta(seconds=1)  # both ends count
    end = min(schedule.end or within, within)
    times = occurrences(
        schedule.expression, schedule.timezone, since=now, start=schedule.start, end=end
    )
    found = list(islice(times, _ENOUGH))
    span = found[-1] - found[0] if len(found) == _ENOUGH else _YEAR
    return len(found) * MONTH_S / span.total_seconds()


def _submitted(app: App, load: Load) -> dict[str, float]:
    for name in load.shares:
        app.find_type(name)
    left = 1 - sum(load.shares.values())
    others = [name for name in app.types if name not in load.shares]
    takers = [name for name in others if app.types[name].schedule is None] or others
    if left > 1e-9 and not takers:
        raise SettingsInvalid(
            f"the shares add up to {1 - left:g}, and no type is left for the rest"
        )
    shares = dict.fromkeys(app.types, 0.0) | dict(load.shares)
    shares |= dict.fromkeys(takers, max(0.0, left) / len(takers)) if takers else {}
    return {name: load.jobs * share for name, share in shares.items()}


def _stream(
    app: App, job: JobType[Any, Any], load: Load, jobs: float, *, by_event: bool, now: datetime
) -> Stream:
    by_schedule = firings(job.schedule, now) if job.schedule is not None else 0.0
    fails, most = load.failure_rate, job.retry.max_attempts
    return Stream(
        job=job,
        queue=app.topology.queue(job.queue, job.priority),
        submitted=0.0 if by_event else jobs,
        fired=by_schedule + (jobs if by_event else 0.0),
        scheduled=by_schedule,
        delayed=0.0 if by_event else jobs * load.delayed,
        attempts=float(most) if fails == 1 else (1 - fails**most) / (1 - fails),
        dead=fails**most,
    )


def typical_s(load: Load, groups: list[WorkerGroup]) -> float:
    """How long a handler runs, in seconds, where these groups run it."""
    if load.duration is not None:
        return load.duration.total_seconds()
    return max((group.typical.total_seconds() for group in groups), default=1.0)


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise SettingsInvalid(f"{name} must lie between {least:g} and {most:g}, got {value:g}")
