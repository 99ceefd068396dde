"""The simulated load: jobs' arrivals and durations, and the service that they all call."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, field
from datetime import timedelta

from pydantic import BaseModel

from headgate import App, Backoff, Priority, Retry
from headgate.jobs.core.limits import Breaker, RetryBudget
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.retry.strategies import Jitter

MIX = {Priority.CRITICAL: 0.05, Priority.HIGH: 0.25, Priority.NORMAL: 0.40, Priority.LOW: 0.30}
"""Each priority's share of all jobs."""

OVERLOAD = 1.6
"""Factor by which the arrival rate rises during the overload."""

MEAN_S = 1.0
"""Mean duration of a job in seconds; durations are log-normally distributed."""
_SIGMA = 0.5

REFUSAL_S = 0.05
"""Seconds that a refused call takes."""


class ServiceDown(ConnectionError):
    """The service that all jobs call refuses everything."""


class Call(BaseModel):
    """The payload of a job."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of the hour, in seconds from its start."""

    start_s: float
    end_s: float

    def holds(self, at_s: float) -> bool:
        """Return True if a time lies in it."""
        return self.start_s <= at_s < self.end_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One hour, and the app's protections in it."""

    name: str
    jitter: Jitter = "full"
    protected: bool = False
    """True if the breaker and the retry budget protect the service."""
    minutes: int = 60
    jobs_per_minute: float = 10_000
    workers: int = 4
    concurrency: int = 50
    overload: Span = field(default=Span(start_s=300, end_s=900))
    """The period in which more jobs come than the workers can run."""
    outage: Span = field(default=Span(start_s=2400, end_s=2700))
    """The period in which the service refuses all calls: five minutes."""

    def scaled(self, by: float) -> Scenario:
        """Return the same scenario with fewer jobs and slots, which takes less time to simulate."""
        return Scenario(
            name=self.name,
            jitter=self.jitter,
            protected=self.protected,
            minutes=self.minutes,
            jobs_per_minute=self.jobs_per_minute * by,
            workers=max(1, round(self.workers * by)),
            concurrency=max(4, round(self.concurrency * by * self.workers))
            // max(1, round(self.workers * by)),
            overload=self.overload,
            outage=self.outage,
        )

    def rate_per_s(self, at_s: float) -> float:
        """Return the number of jobs per second that come at a time."""
        return self.jobs_per_minute / 60 * (OVERLOAD if self.overload.holds(at_s) else 1)


class Service:
    """The service that every job calls; it counts calls by the second."""

    def __init__(self, scenario: Scenario) -> None:
        self._outage = scenario.outage
        self.calls = [0] * (scenario.minutes * 60 + 3600)
        """Number of calls, by second."""

    async def call(self, seconds: float) -> None:
        """Take that many seconds of work.

        Raises:
            ServiceDown: the service refuses the call.
        """
        now = asyncio.get_running_loop().time()
        self.calls[int(now)] += 1
        if self._outage.holds(now):
            await asyncio.sleep(REFUSAL_S)
            raise ServiceDown("refused")
        await asyncio.sleep(seconds)


def build(scenario: Scenario, service: Service) -> tuple[App, dict[Priority, JobType[Call, None]]]:
    """Return the app, with one type per priority; all of them call the one service."""
    retry = Retry(
        max_attempts=30,
        backoff=Backoff.exponential(base=1, factor=2, cap=60, jitter=scenario.jitter),
    )
    app = App("simulation", priorities="all")
    if scenario.protected:
        per_minute = max(1, round(scenario.jobs_per_minute / 10))
        queue = app.queue(
            "work",
            retry=retry,
            breaker=Breaker(
                failure_ratio=0.5,
                window=timedelta(seconds=30),
                min_runs=20,
                open_for=timedelta(seconds=30),
            ),
            retry_budget=RetryBudget(per_minute, per=timedelta(minutes=1), on_exhausted="wait"),
        )
    else:
        queue = app.queue("work", retry=retry)

    async def run(call: Call) -> None:
        await service.call(call.seconds)

    types: dict[Priority, JobType[Call, None]] = {}
    for priority in Priority:
        types[priority] = queue.define(f"call-{priority}", Call, priority=priority)
        types[priority].handler(run)
    return app, types


def duration_s(rng: random.Random) -> float:
    """Draw a job's duration in seconds."""
    return rng.lognormvariate(math.log(MEAN_S) - _SIGMA**2 / 2, _SIGMA)


def poisson(rng: random.Random, mean: float) -> int:
    """Draw a number of independent arrivals, of which ``mean`` are expected."""
    if mean <= 0:
        return 0
    if mean > 50:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    limit, product, count = math.exp(-mean), rng.random(), 0
    while product > limit:
        product *= rng.random()
        count += 1
    return count
