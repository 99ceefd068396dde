"""The gate: all limits of the app, its queues and its types together.

Each limit is a guard (`workers.limits.guards`); a job starts when all guards of its type let it
through.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.execution.delivery import Job
from headgate.jobs.execution.settling.settlement import BudgetAnswer
from headgate.jobs.records.lives import Lives
from headgate.workers.limits.app_limits import AppBudgets, AppGuards
from headgate.workers.limits.fleet_leases import FleetLeases
from headgate.workers.limits.guards import Block, Passage
from headgate.workers.limits.held_limits import HeldLimits
from headgate.workers.limits.meters import Ending

Ticket = tuple[Passage, ...]


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


class Gate:
    """Lets jobs start as the limits allow.

    Args:
        app: the app whose limits apply.
        queues: the queues that the worker receives from.
        clock: tells the time.
        events: receives events when a limit holds jobs back, and when it no longer does.
        rng: adds jitter to postponed retries, and to renewals of leases.
        table: the table in which fleet limits are leased; None if there are none.
        worker: this worker's name, for the leases.
        lives: the observed lives of the workers, whose slots stay taken while they may run jobs
            without a lease; None without records.
        on_eased: called with the name of a limit that may let more through, so that the jobs that
            it holds back are checked again.
        on_change: called after that, unless a job's end has eased it; it has to check those jobs
            before it returns, otherwise the limit counts as cleared.
    """

    def __init__(
        self,
        app: App,
        queues: Sequence[QueueSpec],
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
        table: AsyncTable | None,
        worker: str,
        lives: Lives | None,
        on_eased: Callable[[str], None],
        on_change: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._on_eased = on_eased
        self._on_change = on_change
        self._fleet = FleetLeases(
            table,
            worker,
            clock=clock,
            events=events,
            rng=rng,
            may_run=_unwatched if lives is None else lives.may_run,
            on_renewed=self._ease,
        )
        self._guards = AppGuards(app, self._fleet, queues, clock=clock, events=events)
        self._budgets = AppBudgets(app, table, clock=clock, events=events, rng=rng)
        self._held = HeldLimits(clock=clock, events=events, on_due=self._ease)

    def block(self, job: Job) -> Block | None:
        """Return the block that holds a job back, or None."""
        if not (guards := self._guards.of_type.get(job.type.name)):
            return None
        now = self._clock.monotonic()
        for guard in guards:
            if (block := guard.block(job, now)) is not None:
                self._held.note(block.limit, block.retry_in_s)
                return block
        return None

    def bounds(self, group: str, job_type: str | None = None) -> bool:
        """Return True if limits bound the jobs of a queue group: of all types, or also of one."""
        return bool(self._guards.of(group, job_type))

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
        for guard in self._guards.of(line.queue.group, job_type):
            if (ahead := guard.ahead(now)) < 1:
                self._held.note(guard.name)
            least = min(least, ahead - before - line.held_back_by(guard.name))
        return least

    def start(self, job: Job) -> Ticket:
        """Take what a starting job needs of each limit; return the ticket for `end`."""
        if not (guards := self._guards.of_type.get(job.type.name)):
            return ()
        now = self._clock.monotonic()
        starts = (guard.start(job, now) for guard in guards)
        return tuple(start for start in starts if start is not None)

    def end(self, ticket: Ticket, ending: Ending) -> None:
        """Give back what a job that has ended took."""
        if not ticket:
            return
        now = self._clock.monotonic()
        for start in ticket:
            if (limit := start.end(ending, now)) is not None:
                self._on_eased(limit)

    async def retry(self, job: Job, delay_s: int) -> BudgetAnswer | None:
        """Return the answer of a job's retry budget to a retry; see `AppBudgets.retry`."""
        return await self._budgets.retry(job.type.name, delay_s)

    def budgets_left(self) -> Mapping[str, float]:
        """Return the number of retries left in each budget's window, by limit name."""
        return self._budgets.left()

    def hurry(self) -> None:
        """Wait only briefly for fleet budgets from now on: the worker is stopping."""
        self._budgets.hurry()

    @property
    def is_known(self) -> bool:
        """True while every lease is valid, so that this worker's part of fleet limits is known."""
        return self._fleet.stands

    @property
    def fault(self) -> str:
        """The reason why a limit of the fleet can't be kept up now; empty without one."""
        return self._fleet.fault or self._budgets.fault

    async def run(self) -> None:
        """Keep leases renewed until cancelled."""
        await self._fleet.run()

    async def close(self) -> None:
        """Give leases back; best effort."""
        self._held.close()
        await self._fleet.close()

    def _ease(self, limits: Sequence[str]) -> None:
        """Have the jobs checked again that these limits hold back."""
        for limit in limits:
            self._on_eased(limit)
        self._on_change()


def _unwatched(_worker: str) -> bool:
    return False
