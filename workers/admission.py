"""Why a received message may not start, though a slot is free; and what of a queue to ask for."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from jobs.app import App
from jobs.delivery import Job
from jobs.execution import Verdict
from jobs.job import JobType
from jobs.limits import Limits
from jobs.outcome import Failed, Outcome
from jobs.settlement import RetryAfter
from jobs.topology import QueueSpec
from workers.choosing import Obstacle
from workers.groups import Groups
from workers.holding import Hold
from workers.isolation import ChildPool
from workers.limiting import Gate

_PROCESS = "process"

_JITTER = 0.2
"""How much longer than a limit lasts what it sends back stays away, at most and in proportion."""


class Admission:
    """Lets messages start as limits, child processes, probation and FIFO groups allow.

    Args:
        app: its types tell which queues need child processes.
        gate: the limits and breakers.
        children: the child processes, if any type needs them.
        rng: spreads the return of what a limit sends back.
    """

    def __init__(
        self, app: App, gate: Gate, children: ChildPool | None, *, rng: random.Random
    ) -> None:
        self._gate = gate
        self._children = children
        self._rng = rng
        self._groups = Groups()
        self._isolated = _isolated_groups(app.types.values())
        self._in_children = 0
        """Jobs that have, or are about to get, a child process."""
        self._on_probation: Hold | None = None
        """The suspect that runs, or has run and is not settled: were the process to die of the next
        one meanwhile, it would seem to have died with it."""

    def take(self, hold: Hold) -> None:
        """A message has been received."""
        self._groups.take(hold)

    def left(self, hold: Hold, *, gone: bool) -> list[Hold]:
        """A message is no longer held; returns those of its FIFO group that have to go back too.

        Args:
            hold: which.
            gone: it has left its queue, done or parked.
        """
        if self._on_probation is hold:
            self._on_probation = None
        return self._groups.left(hold, gone=gone)

    def obstacle(self, hold: Hold) -> Obstacle | None:
        """What keeps it from starting, other than the want of a slot."""
        if not hold.ready:
            return Obstacle.RECALL
        if self._groups.is_behind(hold):
            return Obstacle.ORDER
        if (job := hold.run.job) is not None and self._is_held_back(job):
            return Obstacle.LIMIT
        return None

    def acceptable(self, queue: QueueSpec) -> float:
        """How many messages of a queue could start soon if there were slots enough: as many as its
        limits let, and of isolated types as far as child processes are free."""
        acceptable = self._gate.acceptable(queue)
        if self._children is not None and queue.group in self._isolated:
            return min(acceptable, self._free_children)
        return acceptable

    def back_in_s(self, hold: Hold) -> int:
        """How long a message that goes back unstarted should stay away: about as long as the limit
        lasts that keeps it from starting, at most its visibility timeout; else not at all."""
        if self.obstacle(hold) is not Obstacle.LIMIT or (job := hold.run.job) is None:
            return 0
        if (block := self._gate.block(job)) is None:
            return 0
        away_s = block.retry_in_s * self._rng.uniform(1, 1 + _JITTER)
        return min(math.ceil(away_s), hold.delivery.queue.visibility_s)

    def occupy(self, hold: Hold) -> None:
        """Take what a job needs to run, at once, so that the next choice reckons with it."""
        if (job := hold.run.job) is None:
            return
        hold.ticket = self._gate.start(job)
        if job.attempt.suspect:
            self._on_probation = hold
        if self._is_isolated(job):
            self._in_children += 1

    def vacate(self, hold: Hold, outcome: Outcome) -> None:
        """Give it back."""
        if (job := hold.run.job) is None:
            return
        self._gate.end(hold.ticket, outcome, retryable=_is_retryable(job, outcome))
        if self._is_isolated(job):
            self._in_children -= 1

    async def retried(self, hold: Hold, verdict: Verdict) -> Verdict:
        """What becomes of a retry, if it is one, by the retry budgets."""
        if not isinstance(verdict.action, RetryAfter) or (job := hold.run.job) is None:
            return verdict
        action = await self._gate.retry(job, verdict.outcome, verdict.action)
        return verdict if action == verdict.action else replace(verdict, action=action)

    def hurry(self) -> None:
        """Wait for retry budgets no longer than a moment: the worker ends."""
        self._gate.hurry()

    def _is_held_back(self, job: Job) -> bool:
        if self._on_probation is not None and job.attempt.suspect:
            return True
        if self._is_isolated(job) and self._free_children < 1:
            return True
        return self._gate.block(job) is not None

    def _is_isolated(self, job: Job) -> bool:
        return self._children is not None and job.type.isolation == _PROCESS

    @property
    def _free_children(self) -> int:
        return self._children.capacity - self._in_children if self._children is not None else 0


def guarded(app: App, queues: Iterable[QueueSpec]) -> frozenset[str]:
    """The physical names of the queues whose messages may meet an obstacle that lasts."""
    none = Limits()
    groups = {
        queue
        for job in app.types.values()
        for queue in job.runs_from
        if job.isolation == _PROCESS
        or any(level.limits != none for level in (app, app.queues[job.queue], job))
    }
    return frozenset(spec.name for spec in queues if spec.fifo or spec.group in groups)


def _is_retryable(job: Job, outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and job.type.retry.should_retry(outcome.error)


def _isolated_groups(types: Iterable[JobType[Any, Any]]) -> frozenset[str]:
    """The queue groups all of whose messages run in child processes."""
    types = tuple(types)
    mixed = {queue for job in types if job.isolation != _PROCESS for queue in job.runs_from}
    return frozenset(queue for job in types for queue in job.runs_from) - mixed
