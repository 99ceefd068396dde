"""What is simulated: how many jobs come, how long they take, and the service that they all call."""

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
from headgate.jobs.retry.backoff import Jitter

MIX = {Priority.CRITICAL: 0.05, Priority.HIGH: 0.25, Priority.NORMAL: 0.40, Priority.LOW: 0.30}
"""The part of all jobs that each priority gets."""

OVERLOAD = 1.6
"""How many times as many jobs come while there are too many."""

MEAN_S = 1.0
"""How long a job takes on average; its logarithm is normally distributed."""
_SIGMA = 0.5

REFUSAL_S = 0.05
"""How long a call takes that the service refuses."""


class ServiceDown(ConnectionError):
    """The service that all jobs call refuses everything."""


class Call(BaseModel):
    """What a job has to do."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of the hour, in seconds from its start."""

    start_s: float
    end_s: float

    def holds(self, at_s: float) -> bool:
        """Whether a time lies in it."""
        return self.start_s <= at_s < self.end_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One hour, and how the app is protected in it."""

    name: str
    jitter: Jitter = "full"
    protected: bool = False
    """Whether the breaker and the retry budget stand before the service."""
    minutes: int = 60
    jobs_per_minute: float = 10_000
    workers: int = 4
    concurrency: int = 50
    overload: Span = field(default=Span(start_s=300, end_s=900))
    """More jobs come than the workers can do."""
    outage: Span = field(default=Span(start_s=2400, end_s=2700))
    """The service refuses all calls: five minutes."""

    def scaled(self, by: float) -> Scenario:
        """The same with fewer jobs and fewer slots, so that it takes less time to simulate."""
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
        """How many jobs come a second."""
        return self.jobs_per_minute / 60 * (OVERLOAD if self.overload.holds(at_s) else 1)


class Service:
    """What every job calls; it counts what it is asked for, by the second."""

    def __init__(self, scenario: Scenario) -> None:
        self._outage = scenario.outage
        self.calls = [0] * (scenario.minutes * 60 + 3600)
        """By second."""

    async def call(self, seconds: float) -> None:
        """Do some work there.

        Raises:
            ServiceDown: it refuses.
        """
        now = asyncio.get_running_loop().time()
        self.calls[int(now)] += 1
        if self._outage.holds(now):
            await asyncio.sleep(REFUSAL_S)
            raise ServiceDown("refused")
        await asyncio.sleep(seconds)


def build(scenario: Scenario, service: Service) -> tuple[App, dict[Priority, JobType[Call, None]]]:
    """The app, with one type a priority; all of them call the one service."""
    retry = Retry(
        max_attempts=30,
        backoff=Backoff.exponential(base=1, factor=2, cap=60, jitter=scenario.jitter),
    )
    app = App("simulation")
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
    """How long one job takes."""
    return rng.lognormvariate(math.log(MEAN_S) - _SIGMA**2 / 2, _SIGMA)


def poisson(rng: random.Random, mean: float) -> int:
    """How many come, when ``mean`` are expected and they know nothing of each other."""
    if mean <= 0:
        return 0
    if mean > 50:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    limit, product, count = math.exp(-mean), rng.random(), 0
    while product > limit:
        product *= rng.random()
        count += 1
    return count
