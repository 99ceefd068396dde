"""Assumptions about an app's jobs: number, types, sizes, durations and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from headgate.jobs.core.topology import MAX_BATCH, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.schedules.occurrences import is_one_time, occurrences, period_of
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.messages.bundles import MOST_JOBS
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.prices import MONTH_S

_YEAR = timedelta(days=365)
_ENOUGH = 10_000
"""Number of occurrences that is enough to estimate a schedule's frequency."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A month's work.

    Raises:
        SettingsInvalid: a value is out of range.
    """

    jobs: float
    """Jobs submitted in a month; those that schedules submit are added."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Fraction of the jobs by job type, 0 to 1. The remainder is split evenly among the types that
    are not named and have no schedule."""
    duration: timedelta | None = None
    """Running time of a handler; None: the ``typical`` of the worker group or consumer that runs
    it."""
    payload_bytes: int = 500
    """Size of a payload's JSON."""
    result_bytes: int = 100
    """Size of a result's JSON, where the type declares that it returns one."""
    failure_rate: float = 0.01
    """Fraction of attempts that fail and are retried, 0 to 1."""
    together: float = 1.0
    """Messages per request, 1 to 10. 1 where jobs arrive one at a time; 10 where they are submitted
    in bulk, or the backlog fills every receive."""
    peak: float = 2.0
    """Arrival rate relative to the mean: all jobs arrive within 1 / peak of the month."""
    delayed: float = 0.0
    """Fraction of jobs submitted with a delay of more than 15 minutes."""
    tenants: bool = False
    """True if jobs are submitted for a tenant."""
    children: float = 0.0
    """Fraction of jobs that other jobs' handlers submit, or that run a job again."""
    bundled: float | None = None
    """Jobs that share a message, of types with ``bundle=True``; None: as many as fit into one."""

    def __post_init__(self) -> None:
        _check("jobs", self.jobs, 0, 1e15)
        _check("payload_bytes", self.payload_bytes, 0, 64 * 2**20)
        _check("result_bytes", self.result_bytes, 0, 64 * 2**20)
        _check("failure_rate", self.failure_rate, 0, 1)
        _check("together", self.together, 1, MAX_BATCH)
        _check("peak", self.peak, 1, 1e6)
        _check("delayed", self.delayed, 0, 1)
        _check("children", self.children, 0, 1)
        if self.bundled is not None:
            _check("bundled", self.bundled, 1, MOST_JOBS)
        for name, share in self.shares.items():
            _check(f"the share of {name}", share, 0, 1)
        if sum(self.shares.values()) > 1 + 1e-9:
            raise SettingsInvalid(
                f"the shares add up to {sum(self.shares.values()):g}: 1 is all of the jobs"
            )
        if self.duration is not None and self.duration <= timedelta(0):
            raise SettingsInvalid(f"duration must be positive, got {self.duration}")


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The jobs of one type in a month."""

    job: JobType[Any, Any]
    queue: QueueSpec
    submitted: float
    """Submitted by clients."""
    fired: float
    """Submitted by the bridge, for a schedule or an event."""
    scheduled: float
    """The part of ``fired`` that schedules cause."""
    delayed: float
    """The part of ``submitted`` that the bridge sends after a long delay."""
    attempts: float
    """Attempts per job, on average."""
    dead: float
    """Fraction of jobs whose last attempt fails too."""

    @property
    def jobs(self) -> float:
        """Jobs in a month."""
        return self.submitted + self.fired

    @property
    def direct(self) -> float:
        """Jobs in a month that clients send to their queue themselves."""
        return self.submitted - self.delayed

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
        """Jobs that complete in a month."""
        return self.jobs * (1 - self.dead)


def streams_of(app: App, load: Load, now: datetime) -> list[Stream]:
    """Return the jobs of each type in a month.

    Args:
        app: the app with the job types.
        load: number of jobs, and their shares by type.
        now: start of the month; aware.

    Raises:
        UnknownJobType: a share is of a type that the app doesn't have.
        SettingsInvalid: the shares leave a remainder, and no type is left to take it.
    """
    submitted = _submitted(app, load)
    on_event = {rule.type.name for rule in app.event_rules.values()}
    return [
        _stream(app, job, load, submitted[name], by_event=name in on_event, now=now)
        for name, job in app.types.items()
    ]


def firings(schedule: Schedule, now: datetime) -> float:
    """Return how many times a schedule fires in a month, on average."""
    if is_one_time(schedule.expression):
        return 0.0
    if schedule.expression.startswith("rate"):
        return MONTH_S / period_of(schedule.expression).total_seconds()
    within = now + _YEAR - timedelta(seconds=1)  # both ends are inclusive
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
    takers = [name for name in others if not app.types[name].schedules] or others
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
    by_schedule = sum(firings(each.when, now) for each in job.schedules)
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


def typical_s(load: Load, groups: Sequence[WorkerGroup | ConsumerGroup]) -> float:
    """Return a handler's longest running time in seconds, where these run it."""
    if load.duration is not None:
        return load.duration.total_seconds()
    return max((group.typical.total_seconds() for group in groups), default=1.0)


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise SettingsInvalid(f"{name} must lie between {least:g} and {most:g}, got {value:g}")
