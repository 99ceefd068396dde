"""The gate: all limits of the app, its queues and its types together.

Each limit is a guard (`workers.limits.guards`); a job starts when all guards of its type let it
through.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import BudgetSpent, Events, LeaseFailed, LimitCleared, LimitReached
from headgate.jobs.core.limits import Limits, RetryBudget
from headgate.jobs.core.ports import AsyncTable
from headgate.jobs.core.topology import MAX_VISIBILITY, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import types_from
from headgate.jobs.execution.delivery import Job
from headgate.jobs.execution.outcome import Outcome
from headgate.jobs.execution.settling.settlement import BudgetAnswer, Exhausted, Granted
from headgate.workers.limits.circuit_breaker import Circuit
from headgate.workers.limits.fleet_leases import FleetLeases
from headgate.workers.limits.fleet_retry_budget import FleetBudget
from headgate.workers.limits.guards import Block, BreakerGuard, Guard, RateGuard, SlotGuard
from headgate.workers.limits.retry_budget import Budget, WorkerBudget
from headgate.workers.limits.token_bucket import Window

_SOONEST_S, _LATEST_S = 0.01, 5.0
"""Bounds on the delay after which limits that hold jobs back are checked again."""

_LONGEST_S = MAX_VISIBILITY.total_seconds() - 60
"""Longest time by which a retry is put off."""

Ticket = tuple[tuple[Guard, object], ...]


class QueueLine(Protocol):
    """The messages that wait for one queue: a `workers.dispatch.line.Line`."""

    queue: QueueSpec

    @property
    def startable(self) -> int:
        """The number of messages that wait only for a slot."""
        ...

    def startable_of(self, job_type: str) -> int:
        """Return the number of jobs of a type that wait only for a slot."""
        ...

    def held_back_by(self, limit: str) -> int:
        """Return the number of messages that a limit holds back."""
        ...


@dataclass(frozen=True, slots=True)
class _Spending:
    """A retry budget in use, by the types that share it."""

    name: str
    budget: Budget
    gives_up: bool


class Gate:
    """Lets jobs start as the limits allow.

    Args:
        app: the app whose limits apply.
        clock: tells the time.
        events: receives events when a limit holds jobs back, and when it no longer does.
        rng: adds jitter to postponed retries, and to renewals of leases.
        table: the table in which fleet limits are leased; None if there are none.
        worker: this worker's name, for the leases.
        on_eased: called with the name of a limit that may let more through, or None for all
            limits, so that the jobs that it holds back are checked again.
        on_change: called when a limit may let more through; it has to check the jobs that the limit
            still holds back before it returns, otherwise the limit counts as cleared.
    """

    def __init__(
        self,
        app: App,
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
        table: AsyncTable | None,
        worker: str,
        on_eased: Callable[[str | None], None],
        on_change: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._events = events
        self._on_eased = on_eased
        self._on_change = on_change
        self._fleet = FleetLeases(
            table, worker, clock=clock, events=events, rng=rng, on_change=self._eased
        )
        made = _Maker(app, self._fleet, table, clock, events, rng)
        self._guards = made.guards
        """By type, the guards that it has to pass."""
        self._shared = made.shared
        """By queue group, the guards that all its types have to pass."""
        self._own = made.own
        """By queue group and type, the guards that the type has to pass in addition."""
        self._named = {guard.name: guard for guards in made.guards.values() for guard in guards}
        self._spendings = made.spendings
        """By type, its retry budget."""
        self._spent: set[str] = set()
        """Names of budgets reported as spent."""
        self._held: dict[str, float] = {}
        """By limit that holds jobs back, the last time at which it did."""
        self._alarm: asyncio.TimerHandle | None = None

    def block(self, job: Job) -> Block | None:
        """Return the block that holds a job back, or None."""
        if not (guards := self._guards.get(job.type.name)):
            return None
        now = self._clock.monotonic()
        for guard in guards:
            if (block := guard.block(job, now)) is not None:
                self._hold(guard, block.retry_in_s, now)
                return block
        return None

    def bounds(self, group: str, job_type: str | None = None) -> bool:
        """Return True if limits bound the jobs of a queue group: of all types, or also of one."""
        return bool(self._of(group, job_type))

    def room(self, line: QueueLine, job_type: str | None = None) -> float:
        """Return how many more of a queue's messages the limits would let start within about 1 s.

        For each limit it accounts for the messages that already wait for that limit or for a slot,
        but not for those that another limit holds back.

        Args:
            line: the waiting messages of the queue.
            job_type: a type whose own limits are used, instead of those that all types share.
        """
        now, least = self._clock.monotonic(), math.inf
        before = line.startable if job_type is None else line.startable_of(job_type)
        for guard in self._of(line.queue.group, job_type):
            if (ahead := guard.ahead(now)) < 1:
                self._hold(guard, _LATEST_S, now)
            least = min(least, ahead - before - line.held_back_by(guard.name))
        return least

    def startable_soon(self, limit: str) -> float:
        """Return how many messages a limit would let start within about a second; 0 if unknown."""
        if (guard := self._named.get(limit.partition("#")[0])) is None:
            return 0.0
        soon = guard.soon(limit, self._clock.monotonic())
        return soon if soon < math.inf else 0.0

    def start(self, job: Job) -> Ticket:
        """Take what a starting job needs of each limit; return the ticket for `end`."""
        if not (guards := self._guards.get(job.type.name)):
            return ()
        now = self._clock.monotonic()
        return tuple((guard, guard.start(job, now)) for guard in guards)

    def end(self, ticket: Ticket, outcome: Outcome, *, retryable: bool) -> None:
        """Give back what a job that has ended took."""
        if not ticket:
            return
        now = self._clock.monotonic()
        for guard, taken in ticket:
            if limit := guard.end(taken, outcome, retryable=retryable, now=now):
                self._on_eased(limit)

    async def retry(self, job: Job, delay_s: int) -> BudgetAnswer | None:
        """Return the answer of a job's retry budget to a retry after ``delay_s``, or None if it has
        none; a fleet budget counts it in the table."""
        if (spending := self._spendings.get(job.type.name)) is None:
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

    def budgets_left(self) -> Mapping[str, float]:
        """Return the number of retries left in each budget's window, by limit name."""
        return {each.name: each.budget.left() for each in self._spendings.values()}

    def hurry(self) -> None:
        """Wait only briefly for fleet budgets from now on: the worker is stopping."""
        for spending in self._spendings.values():
            spending.budget.hurry()

    @property
    def is_known(self) -> bool:
        """True while every lease is valid, so that this worker's part of fleet limits is known."""
        return self._fleet.stands

    async def run(self) -> None:
        """Keep leases renewed until cancelled."""
        await self._fleet.run()

    async def close(self) -> None:
        """Give leases back; best effort."""
        if self._alarm is not None:
            self._alarm.cancel()
        await self._fleet.close()

    def _of(self, group: str, job_type: str | None) -> tuple[Guard, ...]:
        if job_type is None:
            return self._shared.get(group, ())
        return self._own.get(group, {}).get(job_type, ())

    def _hold(self, guard: Guard, wait_s: float, now: float) -> None:
        """Note that a limit holds jobs back: report it once, and check again in time."""
        if guard.name not in self._held and not isinstance(guard, BreakerGuard):
            self._events.emit(
                LimitReached(at=self._clock.now(), limit=guard.name, retry_in_s=wait_s)
            )
        self._held[guard.name] = now
        wait_s = max(_SOONEST_S, min(wait_s, _LATEST_S))
        loop = asyncio.get_running_loop()
        if self._alarm is None or self._alarm.when() > loop.time() + wait_s:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = loop.call_later(wait_s, self._look_again)

    def _look_again(self) -> None:
        self._alarm = None
        looked = self._clock.monotonic()
        self._eased()  # limits that still hold jobs back are noted again here
        for name in [name for name, held_at in self._held.items() if held_at < looked]:
            del self._held[name]
            if not name.startswith("breaker:"):
                self._events.emit(LimitCleared(at=self._clock.now(), limit=name))

    def _eased(self) -> None:
        self._on_eased(None)
        self._on_change()

    def _tell_spent(self, spending: _Spending, retry_in_s: float) -> None:
        if spending.name not in self._spent:
            self._spent.add(spending.name)
            self._events.emit(
                BudgetSpent(at=self._clock.now(), limit=spending.name, retry_in_s=retry_in_s)
            )


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


class _Maker:
    """Makes the guards of an app, one per limit."""

    def __init__(
        self,
        app: App,
        fleet: FleetLeases,
        table: AsyncTable | None,
        clock: Clock,
        events: Events,
        rng: random.Random,
    ) -> None:
        self._app = app
        self._fleet = fleet
        self._table = table
        self._clock = clock
        self._events = events
        self._rng = rng
        by_app = self._at("app", app.limits)
        by_queue = {name: self._at(f"queue:{name}", q.limits) for name, q in app.queues.items()}
        by_type = {
            name: (*self._at(f"type:{name}", job.limits), *self._breaker(name))
            for name, job in app.types.items()
        }
        self.guards = {
            name: (*by_app, *by_queue[job.queue], *by_type[name]) for name, job in app.types.items()
        }
        # A type that belongs to another group passes that group's limits, and not these.
        self.shared = {
            queue: tuple(
                guard
                for guard in (*by_app, *guards)
                if all(guard in self.guards[job.name] for job in types_from(app, queue))
            )
            for queue, guards in by_queue.items()
        }
        self.own = {
            queue: {
                name: tuple(guard for guard in self.guards[name] if guard not in shared)
                for name, job in app.types.items()
                if queue in job.runs_from
            }
            for queue, shared in self.shared.items()
        }
        named = {name: found for name in app.types if (found := self._budget(name)) is not None}
        budgets = {limit: self._spending(limit, values) for limit, values in named.values()}
        self.spendings = {name: budgets[limit] for name, (limit, _) in named.items()}

    def _at(self, level: str, limits: Limits) -> tuple[Guard, ...]:
        """Return the guards for all jobs of one app, queue or type."""
        return (*self._rate(level, limits), *self._slots(level, limits))

    def _rate(self, level: str, limits: Limits) -> Iterator[Guard]:
        if (rate := limits.rate_limit) is None:
            return
        name, per_s = f"rate:{level}", rate.per.total_seconds()
        if rate.scope == "worker":
            yield RateGuard(name, Window(lambda: rate.limit, per_s), None)
            return
        use = partial(self._out, window := Window(lambda: lease.tokens, per_s))
        lease = self._fleet.lease(name, rate.limit, lasting_s=per_s, in_use=use)
        yield RateGuard(name, window, lease)

    def _slots(self, level: str, limits: Limits) -> Iterator[Guard]:
        if (slots := limits.concurrency) is None:
            return
        name = f"concurrency:{level}"
        if slots.scope == "worker":
            yield SlotGuard(name, slots, None)
            return
        guard = SlotGuard(
            name,
            slots,
            lambda leased: self._fleet.lease(
                leased, slots.limit, lasting_s=0, in_use=partial(guard.in_use, leased)
            ),
        )
        yield guard

    def _breaker(self, name: str) -> Iterator[Guard]:
        job = self._app.types[name]
        levels = (job.limits, self._app.queues[job.queue].limits, self._app.limits)
        values = next((each.breaker for each in levels if each.breaker is not None), None)
        if values is not None:
            circuit = Circuit(
                f"breaker:type:{name}", values, clock=self._clock, tell=self._events.emit
            )
            yield BreakerGuard(circuit)

    def _budget(self, name: str) -> tuple[str, RetryBudget] | None:
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

    def _out(self, window: Window) -> int:
        return window.out(self._clock.monotonic())
