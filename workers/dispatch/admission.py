"""Admission: the reasons to hold a message back although a slot is free, and a queue's room."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headgate.jobs.core.clock import Clock
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.options.batch import MOST_JOBS
from headgate.jobs.definitions.policies import types_from
from headgate.jobs.execution.delivery import Job
from headgate.jobs.execution.outcome import Failed, Outcome
from headgate.jobs.execution.pausing import pause_of
from headgate.jobs.execution.settling.actions import RetryAfter
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.records.pausing.pause import Pause
from headgate.jobs.records.pausing.paused import Paused
from headgate.workers.dispatch.fifo_groups import Departure, Groups
from headgate.workers.dispatch.line import Line
from headgate.workers.dispatch.records_pace import RecordsPace
from headgate.workers.held import Hold
from headgate.workers.isolation.child_pool import ChildPool
from headgate.workers.limits.gate import Gate
from headgate.workers.limits.guards import Block, ending_of
from headgate.workers.limits.meters import GUESS_S
from headgate.workers.limits.slots import Slots

_PROCESS = "process"

_CHILDREN = "children"
_PROBATION = "probation"
"""Names of the blocks other than limits."""


class Admission:
    """Lets messages start as limits, child processes, records, probation and FIFO groups allow.

    Args:
        app: its types determine which queues need child processes.
        gate: the limits and breakers.
        children: the child processes, if any type needs them.
        paused: the queues, types and tenants that are paused.
        pace: the pace of jobs with full records.
        clock: tells the time.
        on_eased: called with the name of a block that may let another message start.
    """

    def __init__(
        self,
        app: App,
        gate: Gate,
        children: ChildPool | None,
        paused: Paused,
        pace: RecordsPace,
        *,
        clock: Clock,
        on_eased: Callable[[str], None],
    ) -> None:
        self._gate = gate
        self._paused = paused
        self._pace = pace
        self._on_eased = on_eased
        self._children = Slots(_Places(children)) if children is not None else None
        self._groups = Groups()
        self._isolated = frozenset(
            name for name, job in app.types.items() if job.isolation == _PROCESS
        )
        self._bounded = _bounded(app, gate, self._isolated)
        self._types = {
            group: frozenset(job.name for job in types_from(app, group)) for group in app.queues
        }
        self._clock = clock
        self._on_probation: Hold | None = None
        """The suspect that runs, or has run but is not settled. If the next one killed the process
        meanwhile, this one would be blamed for that crash too."""

    def take(self, hold: Hold) -> bool:
        """Add a received message; return True if no message of its FIFO group precedes it."""
        return self._groups.take(hold)

    def left(self, hold: Hold, *, gone: bool) -> Departure:
        """Remove a message that is no longer held; return the consequences for its FIFO group.

        Args:
            hold: the message.
            gone: True if it has left its queue, done or parked.
        """
        if self._on_probation is hold:
            self._on_probation = None
            self._on_eased(_PROBATION)
        return self._groups.left(hold, gone=gone)

    def block(self, hold: Hold) -> Block | None:
        """Return the block on a message, other than a missing slot and its FIFO group; or None."""
        if (job := _to_be_called(hold)) is None:
            return None
        if self._on_probation is not None and job.attempt.suspect:
            return Block(_PROBATION, GUESS_S, 1)
        children = self._children_for(job) if self._children is not None else None
        if children is not None and children.free < 1:
            soon = max(0.0, children.ahead(self._clock.monotonic()))
            return Block(_CHILDREN, GUESS_S, children.places, soon)
        return self._gate.block(job) or self._pace.block(job, hold.delivery.queue)

    def pause_of(self, hold: Hold) -> Pause | None:
        """Return the pause that concerns a message, or None."""
        return pause_of(hold.run, self._paused)

    def acceptable(self, line: Line) -> float:
        """Return how many more messages of a queue could start soon, given enough slots.

        The limits bound the number, and the free child processes bound that of isolated types. It
        is infinite if slots alone bound one of the types, whatever holds the others back; and 0
        while the queue is paused, or all its types are, or records of its jobs come too fast for
        the table. Messages that wait for others of their batches count, and there may be no more
        than a thousand of them.
        """
        if self._paused.stops(line.queue, self._types[line.queue.group]):
            return 0.0
        if self._pace.stops(line.queue):
            return 0.0
        room = self._room(line)
        if line.behind and not line.queue.fifo:  # they wait for others of their batches
            return min(room, MOST_JOBS) - len(line.behind)
        return room

    def _room(self, line: Line) -> float:
        group = line.queue.group
        if group not in self._bounded:
            return math.inf
        by_queue = self._gate.room(line)
        if (types := self._bounded[group]) is None:
            return by_queue
        return min(by_queue, self._room_of_types(line, types))

    def occupy(self, hold: Hold) -> None:
        """Take what a job needs to run, immediately, so that the next choice accounts for it."""
        if (job := _to_be_called(hold)) is None:
            return
        hold.ticket = self._gate.start(job)
        if job.attempt.suspect:
            self._on_probation = hold
        if self._children is not None and (children := self._children_for(job)) is not None:
            children.start(self._clock.monotonic())

    def vacate(self, hold: Hold, outcome: Outcome) -> None:
        """Give back what `occupy` took."""
        if hold.ticket is None or (job := hold.run.job) is None:
            return
        if not hold.ticket and self._children is None:
            return  # it took nothing
        ending = ending_of(outcome, retryable=_is_retryable(job, outcome))
        self._gate.end(hold.ticket, ending)
        if (children := self._children_for(job)) is not None:
            children.end(None, ending, self._clock.monotonic())
            self._on_eased(_CHILDREN)

    async def retried(self, hold: Hold, verdict: Verdict) -> Verdict:
        """Return the verdict as the retry budgets allow it; only retries are changed."""
        if not isinstance(verdict.action, RetryAfter) or (job := hold.run.job) is None:
            return verdict
        answer = await self._gate.retry(job, verdict.action.delay_s)
        return verdict if answer is None else replace(verdict, budget=answer)

    def hurry(self) -> None:
        """Wait only briefly for retry budgets from now on: the worker is stopping."""
        self._gate.hurry()

    def _room_of_types(self, line: Line, types: Sequence[str]) -> float:
        in_loop = isolated = 0.0
        free = (self._children.free if self._children is not None else 0) - line.held_back_by(
            _CHILDREN
        )
        for name in types:
            room = max(0.0, self._gate.room(line, name))
            if name in self._isolated:
                isolated += room
                free -= line.startable_of(name)
            else:
                in_loop += room
        return in_loop + max(0.0, min(isolated, free))

    def _children_for(self, job: Job) -> Slots | None:
        """Return the places in child processes if the job needs one, else None."""
        return self._children if job.type.isolation == _PROCESS else None


class _Places:
    """`Tokens` for the jobs that child processes can run."""

    renewed_s = math.inf

    def __init__(self, pool: ChildPool) -> None:
        self._pool = pool

    @property
    def count(self) -> int:
        return self._pool.capacity

    def ask(self, *, enough: bool, needs: int | None = None) -> None:
        """Do nothing: the pool replaces its children by itself."""


def _to_be_called(hold: Hold) -> Job | None:
    """Return the job if its handler will be called, and so is subject to limits and children.

    A job that is parked or deferred without a call waits for nothing and takes nothing, and its
    outcome says nothing about its dependencies.
    """
    return hold.run.job if hold.run.foregone is None else None


def _is_retryable(job: Job, outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and job.type.retry.should_retry(outcome.error)


def _bounded(
    app: App, gate: Gate, isolated: frozenset[str]
) -> Mapping[str, tuple[str, ...] | None]:
    """Return the bounded queue groups with their types; None for types if one has no own bound."""
    types: defaultdict[str, list[str]] = defaultdict(list)
    for name, job in app.types.items():
        for group in job.runs_from:
            types[group].append(name)
    bounded: dict[str, tuple[str, ...] | None] = {}
    for group, names in types.items():
        if all(name in isolated or gate.bounds(group, name) for name in names):
            bounded[group] = tuple(names)
        elif gate.bounds(group):
            bounded[group] = None
    return bounded
