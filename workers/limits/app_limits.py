"""The guards and the retry budgets of an app, as its limits are declared."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import BudgetSpent, Events, LeaseFailed
from headgate.jobs.core.limits import Concurrency, Limits, RateLimit, RetryBudget
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.core.topology import MAX_VISIBILITY, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import types_from
from headgate.jobs.execution.settling.settlement import BudgetAnswer, Exhausted, Granted
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.workers.limits.circuit_breaker import Circuit
from headgate.workers.limits.fair_shares import UNRANKED
from headgate.workers.limits.fleet_leases import FleetLeases
from headgate.workers.limits.fleet_retry_budget import FleetBudget
from headgate.workers.limits.guards import Guard
from headgate.workers.limits.keys import CostOf, cost_of, key_of
from headgate.workers.limits.meters import LeasedTokens, Meter, OwnTokens, Tokens
from headgate.workers.limits.retry_budget import Budget, WorkerBudget
from headgate.workers.limits.slots import Slots
from headgate.workers.limits.token_bucket import CostWindow, Window

_LONGEST_S = MAX_VISIBILITY.total_seconds() - 60
"""Longest time by which a retry is put off."""


def needs_table(app: App) -> bool:
    """Return True if a limit of the app applies to the fleet."""
    return any(limits.of_fleet for limits in all_limits(app))


def all_limits(app: App) -> Iterator[Limits]:
    """Yield the limits of an app, of its queues and of its types."""
    yield app.limits
    for queue in app.queues.values():
        yield queue.limits
    for job in app.types.values():
        yield job.limits


class AppGuards:
    """The guards of an app, one per limit.

    Args:
        app: the app whose limits apply.
        fleet: leases the tokens of fleet limits.
        queues: the queues that the worker receives from.
        clock: tells the time.
        events: receives an event when a breaker opens, probes or closes.
    """

    def __init__(
        self,
        app: App,
        fleet: FleetLeases,
        queues: Iterable[QueueSpec],
        *,
        clock: Clock,
        events: Events,
    ) -> None:
        self._app = app
        self._fleet = fleet
        self._queues = tuple(queues)
        self._clock = clock
        self._events = events
        types = app.types.values()
        by_app = self._at("app", app.limits, types)
        by_queue = {
            name: self._at(
                f"queue:{name}", queue.limits, [job for job in types if job.queue == name]
            )
            for name, queue in app.queues.items()
        }
        by_type = {
            name: (*self._at(f"type:{name}", job.limits, [job]), *self._breaker(name))
            for name, job in app.types.items()
        }
        self.of_type: Mapping[str, tuple[Guard, ...]] = {
            name: (*by_app, *by_queue[job.queue], *by_type[name]) for name, job in app.types.items()
        }
        """By type, the guards that it has to pass."""
        # A type that belongs to another group passes that group's limits, and not these.
        self.shared = {
            queue: tuple(
                guard
                for guard in (*by_app, *guards)
                if all(guard in self.of_type[job.name] for job in types_from(app, queue))
            )
            for queue, guards in by_queue.items()
        }
        """By queue group, the guards that all its types have to pass."""
        self.own = {
            queue: {
                name: tuple(guard for guard in self.of_type[name] if guard not in shared)
                for name, job in app.types.items()
                if queue in job.runs_from
            }
            for queue, shared in self.shared.items()
        }
        """By queue group and type, the guards that the type has to pass in addition."""

    def of(self, group: str, job_type: str | None) -> tuple[Guard, ...]:
        """Return the guards that all types of a group share, or the additional ones of a type."""
        if job_type is None:
            return self.shared.get(group, ())
        return self.own.get(group, {}).get(job_type, ())

    def _at(
        self, level: str, limits: Limits, types: Iterable[JobType[Any, Any]]
    ) -> tuple[Guard, ...]:
        """Return the guards for all jobs of one app, queue or type."""
        rank = self._most_urgent(types)
        rates = self._rate(level, limits.rate_limit, rank)
        return (*rates, *self._slots(level, limits.concurrency, rank))

    def _most_urgent(self, types: Iterable[JobType[Any, Any]]) -> int:
        """Return the rank of the most urgent of the worker's queues that any of the types is in."""
        groups = {group for job in types for group in job.runs_from}
        ranks = (queue.priority.rank for queue in self._queues if queue.group in groups)
        return min(ranks, default=UNRANKED)

    def _rate(self, level: str, rate: RateLimit | None, rank: int) -> Iterator[Guard]:
        if rate is not None:
            per_s = rate.per.total_seconds()
            name = f"rate:{level}"
            cost = cost_of(name, rate)
            window = Window if cost is None else CostWindow
            yield self._guard(name, rate, lambda tokens: window(tokens, per_s), per_s, rank, cost)

    def _slots(self, level: str, slots: Concurrency | None, rank: int) -> Iterator[Guard]:
        if slots is not None:
            yield self._guard(f"concurrency:{level}", slots, Slots, None, rank)

    def _guard(
        self,
        name: str,
        declared: RateLimit | Concurrency,
        meter: Callable[[Tokens], Meter],
        lasting_s: float | None,
        rank: int,
        cost: CostOf | None = None,
    ) -> Guard:
        """Return the guard of a limit that gives out tokens.

        Args:
            name: the limit's name.
            declared: its number of tokens, its key, and its scope.
            meter: makes a meter with given tokens.
            lasting_s: how long a used token stays out after its worker has died; None until its job
                ends.
            rank: the rank of the most urgent queue that it concerns, of those of this worker.
            cost: returns the tokens that a start takes; None if each takes one.
        """

        def tokens(limit: str) -> Tokens:
            if declared.scope == "worker":
                return OwnTokens(declared.limit)
            used = partial(in_use, limit)
            lease = partial(
                self._fleet.lease,
                limit,
                declared.limit,
                lasting_s=lasting_s,
                rank=rank,
                in_use=used,
            )
            return LeasedTokens(lease)

        def in_use(limit: str) -> int:
            return guard.in_use(limit, self._clock.monotonic())

        key = key_of(name, declared.key)
        guard = Guard(name, key, lambda limit: meter(tokens(limit)), cost)
        return guard

    def _breaker(self, name: str) -> Iterator[Guard]:
        job = self._app.types[name]
        levels = (job.limits, self._app.queues[job.queue].limits, self._app.limits)
        values = next((each.breaker for each in levels if each.breaker is not None), None)
        if values is not None:
            limit = f"breaker:type:{name}"
            circuit = partial(Circuit, breaker=values, clock=self._clock, tell=self._events.emit)
            yield Guard(limit, key_of(limit, values.key), circuit)


@light_dataclass(frozen=True, slots=True)
class _Spending:
    """A retry budget in use, by the types that share it."""

    name: str
    budget: Budget
    gives_up: bool


class AppBudgets:
    """The retry budgets of an app.

    Args:
        app: the app whose budgets apply.
        table: the table in which fleet budgets are counted; None if there are none.
        clock: tells the time.
        events: receives an event when a budget is spent, or can't be counted.
        rng: adds jitter to postponed retries.
    """

    def __init__(
        self,
        app: App,
        table: AsyncTable | None,
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
    ) -> None:
        self._app = app
        self._table = table
        self._clock = clock
        self._events = events
        self._rng = rng
        named = {name: found for name in app.types if (found := self._declared(name)) is not None}
        budgets = {limit: self._spending(limit, values) for limit, values in named.values()}
        self._spendings = {name: budgets[limit] for name, (limit, _) in named.items()}
        """By type, its retry budget."""
        self._spent: set[str] = set()
        """Names of budgets reported as spent."""

    async def retry(self, job_type: str, delay_s: int) -> BudgetAnswer | None:
        """Return the answer of a type's budget to a retry after ``delay_s``, or None if it has
        none; a fleet budget counts it in the table."""
        if (spending := self._spendings.get(job_type)) is None:
            return None
        longest_s = 0 if spending.gives_up else _LONGEST_S
        answer = await spending.budget.take(delay_s, longest_s=longest_s)
        match answer:
            case Exhausted():
                self._tell_spent(spending, delay_s)
            case Granted(is_put_off=True):
                self._tell_spent(spending, answer.delay_s)
            case Granted():
                self._spent.discard(spending.name)
        return answer

    def left(self) -> Mapping[str, float]:
        """Return the number of retries left in each budget's window, by limit name."""
        return {each.name: each.budget.left() for each in self._spendings.values()}

    @property
    def fault(self) -> str:
        """A budget whose retries can't be counted now, and the reason; empty without one."""
        faults = ((each.name, each.budget.fault) for each in self._spendings.values())
        return next((f"{name}: {fault}" for name, fault in faults if fault), "")

    def hurry(self) -> None:
        """Wait only briefly for fleet budgets from now on: the worker is stopping."""
        for spending in self._spendings.values():
            spending.budget.hurry()

    def _declared(self, name: str) -> tuple[str, RetryBudget] | None:
        """Return the name and the settings of a type's retry budget, or None."""
        job = self._app.types[name]
        if (own := job.limits.retry_budget) is not None:
            return f"budget:type:{name}", own
        queue = self._app.queues[job.queue].limits.retry_budget or self._app.limits.retry_budget
        return None if queue is None else (f"budget:queue:{job.queue}", queue)

    def _spending(self, name: str, values: RetryBudget) -> _Spending:
        per_s, limit = values.per.total_seconds(), values.limit
        gives_up = values.on_exhausted == "dead-letter"
        if values.scope == "worker" or self._table is None:
            own = WorkerBudget(limit, per_s, clock=self._clock, rng=self._rng)
            return _Spending(name, own, gives_up)
        shared = FleetBudget(
            self._table,
            name,
            limit,
            per_s,
            clock=self._clock,
            rng=self._rng,
            tell=partial(self._tell_away, name),
        )
        return _Spending(name, shared, gives_up)

    def _tell_away(self, name: str, error: str) -> None:
        self._events.emit(LeaseFailed(at=self._clock.now(), limit=name, error=error))

    def _tell_spent(self, spending: _Spending, retry_in_s: float) -> None:
        if spending.name not in self._spent:
            self._spent.add(spending.name)
            self._events.emit(
                BudgetSpent(at=self._clock.now(), limit=spending.name, retry_in_s=retry_in_s)
            )
