"""The demo's plan: the jobs to submit, each with its expected end. Pure: one seed, one plan."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from examples.shop import contracts
from examples.shop.contracts import app
from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.execution.outcome import Reason
from headgate.jobs.values.light_dataclass import light_dataclass


class FinalOutcome(StrEnum):
    """The final outcome of a job."""

    DONE = "done"
    DISCARDED = "discarded"
    DEAD = "dead-lettered"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected end of one job."""

    ending: FinalOutcome = FinalOutcome.DONE
    failures: int = 0
    """Number of failed attempts; all but a dead job's last are retried."""
    reason: Reason | None = None
    """The reason of a dead job."""
    error_type: str = ""
    """The class of the error that ended a dead job."""

    @property
    def retries(self) -> int:
        """Number of retries."""
        return self.failures - (self.ending is FinalOutcome.DEAD)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One job to submit."""

    type: JobType[Any, Any]
    payload: Any
    overrides: SubmitOptions = field(default_factory=SubmitOptions)
    expected: Expected = Expected()
    plain: bool = False
    """Submitted by synchronous code, with `headgate.Client`; else with `headgate.AsyncClient`."""

    @property
    def queue(self) -> QueueSpec:
        """The queue that the job is sent to."""
        priority = self.overrides.get("priority") or self.type.priority
        return app.topology.queue(self.type.queue, Priority(priority))


@light_dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMessage:
    """One message that no worker can turn into a job; it has to be parked."""

    queue: QueueSpec
    body: str
    reason: Reason


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that one run of the demo submits."""

    jobs: tuple[PlannedJob, ...]
    messages: tuple[PlannedMessage, ...]
    schedules: tuple[JobType[Any, Any], ...]
    """Types whose schedule fires once; each submits one job, which has to complete."""

    @property
    def total_jobs(self) -> int:
        """Number of jobs that have to end, including the schedules'."""
        return len(self.jobs) + len(self.schedules)


def make_plan(jobs: int, seed: int) -> Plan:
    """Plan that many jobs, 100 or more: of every type and priority, with every fault, shuffled."""
    rng = random.Random(seed)  # noqa: S311 - a plan, not a secret
    planned = [job for name, count in _counts(jobs).items() for job in _jobs_of(name, count, rng)]
    rng.shuffle(planned)
    return Plan(
        jobs=tuple(planned),
        messages=_messages(),
        schedules=tuple(declared for declared in app.types.values() if declared.schedule),
    )


def batches(jobs: Iterable[PlannedJob]) -> Iterator[list[PlannedJob]]:
    """Group jobs that one ``submit_many`` can take: of one type, with the same overrides."""
    groups: defaultdict[str, list[PlannedJob]] = defaultdict(list)
    for job in jobs:
        groups[f"{job.type.name} {sorted(job.overrides.items())}"].append(job)
    yield from groups.values()


# --- how many of each ----------------------------------------------------------------------------

_SHARES = {
    "send-email": 30,
    "send-notification": 26,
    "process-order": 12,
    "capture-payment": 8,
    "update-order-status": 5,
    "sync-inventory": 6,
    "generate-report": 5,
    "abandoned-cart-reminder": 2,
    "remind-of-cart": 2,
    "aggregate-analytics": 4,
}
"""Percentages of the jobs."""

_TENANTS = (None, "aurora", "borealis", "cirrus", "drizzle")


def _counts(jobs: int) -> dict[str, int]:
    counts = {name: jobs * share // 100 for name, share in _SHARES.items()}
    counts["send-email"] += jobs - sum(counts.values())  # the rounding remainder
    return counts


# --- faults --------------------------------------------------------------------------------------

_TWICE_AT_MOST = SubmitOptions(max_attempts=2)
"""The shop's own policies would retry for longer than a demo should take."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """A fault that the shop's gateway simulates, by its word (see `examples.shop.gateway`)."""

    word: str
    expected: Expected
    overrides: SubmitOptions = field(default_factory=SubmitOptions)


_NONE = _Fault(word="fine", expected=Expected())
_FLAKY = _Fault(word="flaky", expected=Expected(failures=1))
_BUSY = _Fault(word="busy", expected=Expected(failures=1))
_CANCELLED = _Fault(word="cancelled", expected=Expected(ending=FinalOutcome.DISCARDED))
_UNKNOWN = _Fault(
    word="unknown",
    expected=Expected(
        ending=FinalOutcome.DEAD,
        failures=1,
        reason=Reason.PERMANENT_ERROR,
        error_type="GatewayError",
    ),
)
_DECLINED = _Fault(
    word="declined",
    expected=Expected(
        ending=FinalOutcome.DEAD, failures=1, reason=Reason.DO_NOT_RETRY, error_type="DoNotRetry"
    ),
)
_DOWN = _Fault(
    word="down",
    overrides=_TWICE_AT_MOST,
    expected=Expected(
        ending=FinalOutcome.DEAD,
        failures=2,
        reason=Reason.ATTEMPTS_EXHAUSTED,
        error_type="GatewayError",
    ),
)
_HANGING = _Fault(
    word="hang",
    overrides=SubmitOptions(timeout=timedelta(seconds=1), **_TWICE_AT_MOST),
    expected=Expected(
        ending=FinalOutcome.DEAD,
        failures=2,
        reason=Reason.ATTEMPTS_EXHAUSTED,
        error_type="JobTimeout",
    ),
)

_FAULTS: dict[str, tuple[tuple[_Fault, float], ...]] = {
    "send-email": ((_FLAKY, 2), (_BUSY, 2), (_UNKNOWN, 0.5)),
    "send-notification": ((_FLAKY, 1), (_BUSY, 2), (_DOWN, 0.2)),
    "process-order": ((_FLAKY, 3), (_CANCELLED, 2)),
    "capture-payment": ((_FLAKY, 2), (_BUSY, 3), (_DECLINED, 2), (_HANGING, 0)),
    "sync-inventory": ((_FLAKY, 3),),
}
"""Percentage of a type's jobs that meet each fault; at least one job."""


def _faults_of(name: str, count: int) -> list[_Fault]:
    """Return a fault, or none, for each of a type's jobs."""
    faults = [
        fault
        for fault, per_cent in _FAULTS.get(name, ())
        for _ in range(max(1, round(count * per_cent / 100)))
    ]
    return faults + [_NONE] * (count - len(faults))


# --- one job -------------------------------------------------------------------------------------

_PAYLOADS: dict[str, Callable[[str, random.Random], Any]] = {
    "send-email": lambda key, _: contracts.Email(
        to=f"{key}@customers.example", subject="Your order is on its way"
    ),
    "send-notification": lambda key, _: contracts.Notification(user=key, text="Out for delivery"),
    "process-order": lambda key, rng: contracts.Order(
        order_id=key,
        sku=f"sku-{rng.randrange(20):02}",
        quantity=rng.randint(1, 5),
        amount_cents=rng.randrange(500, 50_000),
    ),
    "capture-payment": lambda key, rng: contracts.Payment(
        order_id=key, amount_cents=rng.randrange(500, 50_000)
    ),
    "update-order-status": lambda key, _: contracts.OrderStatus(order_id=key),
    "sync-inventory": lambda key, _: contracts.InventorySync(supplier=key),
    "generate-report": lambda key, rng: contracts.Report(
        name=key, format=rng.choice(["csv", "json"])
    ),
    "abandoned-cart-reminder": lambda _, rng: contracts.AbandonedCarts(
        idle_hours=rng.randint(1, 48)
    ),
    "remind-of-cart": lambda key, _: contracts.Cart(customer=f"{key}@customers.example"),
    "aggregate-analytics": lambda _, rng: contracts.Analytics(
        metric=rng.choice(["revenue", "units"])
    ),
}

_OTHER_PRIORITIES: dict[str, tuple[tuple[Priority, float], ...]] = {
    "send-email": ((Priority.CRITICAL, 0.15), (Priority.LOW, 0.15)),
    "send-notification": ((Priority.LOW, 0.3),),
    "process-order": ((Priority.NORMAL, 0.2),),
}
"""Fractions of a type's jobs that are submitted with another priority than the type's."""

_DELAYED = 0.03
_LONGEST_DELAY_S = 4
_PLAIN = 0.15


def _jobs_of(name: str, count: int, rng: random.Random) -> Iterator[PlannedJob]:
    for index, fault in enumerate(_faults_of(name, count)):
        yield PlannedJob(
            type=app.find_type(name),
            payload=_PAYLOADS[name](f"{fault.word}-{name}-{index}", rng),
            overrides=_overrides(name, fault, rng),
            expected=fault.expected,
            plain=rng.random() < _PLAIN,
        )


def _overrides(name: str, fault: _Fault, rng: random.Random) -> SubmitOptions:
    overrides = fault.overrides.copy()
    if tenant := rng.choice(_TENANTS):
        overrides["tenant"] = tenant
    if rng.random() < _DELAYED:
        overrides["delay"] = timedelta(seconds=rng.randint(1, _LONGEST_DELAY_S))
    draw = rng.random()
    for priority, part in _OTHER_PRIORITIES.get(name, ()):
        if draw < part:
            overrides["priority"] = priority
            break
        draw -= part
    return overrides


# --- messages that are no jobs -------------------------------------------------------------------

_FROM_ELSEWHERE = (
    '{"v":1,"id":"01980000-0000-7000-8000-000000000000","type":"price-drop-alert","payload":{},'
    '"queue":"notifications","priority":"high","submitted_at":"2026-01-01T00:00:00Z"}'
)


def _messages() -> tuple[PlannedMessage, ...]:
    topology = app.topology
    return (
        PlannedMessage(
            queue=topology.queue("notifications", Priority.HIGH),
            body=_FROM_ELSEWHERE,
            reason=Reason.UNKNOWN_TYPE,
        ),
        PlannedMessage(
            queue=topology.queue("jobs", Priority.NORMAL),
            body="order 4711 please",
            reason=Reason.UNREADABLE,
        ),
    )
