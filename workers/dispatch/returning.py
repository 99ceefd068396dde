"""The choice of messages that go back unstarted for other workers, and of their time away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from headgate.jobs.core.clock import Clock
from headgate.jobs.execution.delivery import Job
from headgate.workers.dispatch.admission import Admission
from headgate.workers.dispatch.line import Line
from headgate.workers.dispatch.patience import MOMENT_S, Patience, Waiter
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.held import Hold
from headgate.workers.limits.guards import Block


@dataclass(frozen=True, slots=True)
class Return:
    """A message that has been removed from the waiting ones, to go back."""

    hold: Hold
    away_s: int


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of a first look at messages that a limit holds back."""

    returns: list[Return]
    surplus: list[Hold]
    """Messages that are held a moment longer although enough are held for their limit."""


class Returns:
    """Removes the messages that have to go back from the waiting ones.

    Args:
        waiting: the waiting messages.
        admission: determines what holds a message back.
        patience: decides how long a message is held, and stays away.
        clock: tells the time.
        is_recorded: True if records tell a job's attempts from its deliveries.
    """

    def __init__(
        self,
        waiting: Waiting,
        admission: Admission,
        patience: Patience,
        clock: Clock,
        *,
        is_recorded: Callable[[Job], bool],
    ) -> None:
        self._waiting = waiting
        self._admission = admission
        self._patience = patience
        self._clock = clock
        self._is_recorded = is_recorded

    def at_once(self) -> Findings:
        """Remove messages newly found to be held back that are not worth holding."""
        findings = Findings([], [])
        for hold, block in self._waiting.news():
            waiter, line = self._waiter(hold, block), self._waiting.line(hold.delivery.queue.name)
            too_much = line.held_back > self._patience.most_of_queue(waiter)
            if too_much or self._patience.lasts(waiter):
                findings.returns.append(self._taken(hold, waiter, too_much=too_much))
            elif line.held_back_by(block.limit) > self._patience.most_of_limit(waiter):
                findings.surplus.append(hold)
        return findings

    def overdue(self) -> list[Return]:
        """Remove messages that have been held for their full time."""
        surplus = [hold for line in self._waiting.lines() for hold in self._surplus(line)]
        returns = [self._taken(hold, self._looked_at(hold), too_much=True) for hold in surplus]
        overdue = self._waiting.take_if(self._is_overdue)
        return returns + [self._taken(hold, self._looked_at(hold)) for hold in overdue]

    def _surplus(self, line: Line) -> Iterator[Hold]:
        """Yield messages that have exceeded the places of their limit for a moment."""
        latest = self._clock.monotonic() - MOMENT_S
        for holds in line.blocked.values():
            most = self._patience.most_of_limit(self._looked_at(next(iter(holds))))
            for hold in islice(holds, most, None):
                if hold.since < latest:
                    yield hold

    def _taken(self, hold: Hold, waiter: Waiter, *, too_much: bool = False) -> Return:
        self._waiting.remove(hold)
        return Return(hold, self._patience.away_s(waiter, too_much=too_much))

    def _looked_at(self, hold: Hold) -> Waiter:
        return self._waiter(hold, self._admission.block(hold))

    def _is_overdue(self, hold: Hold) -> bool:
        if hold.lost:
            return True
        if hold in self._waiting.line(hold.delivery.queue.name).behind:
            return False  # no other worker could start it either
        waited_s = self._clock.monotonic() - hold.since
        return waited_s > self._patience.held_s(self._looked_at(hold))

    def _waiter(self, hold: Hold, block: Block | None) -> Waiter:
        receives, job = hold.delivery.message.receive_count, hold.run.job
        is_costly = job is None or not job.attempt.known or not self._is_recorded(job)
        return Waiter(
            receives=receives,
            returns=receives - 1 if job is None or is_costly else _returns(job, receives),
            is_known=hold.ready,
            limit_s=None if block is None else block.retry_in_s,
            places=0 if block is None else block.places,
            startable_soon=0.0 if block is None else self._admission.startable_soon(block.limit),
            is_costly=is_costly,
        )


def _returns(job: Job, receives: int) -> int:
    """Return the number of earlier deliveries that made no attempt."""
    attempts = job.attempt.number - 1 - job.envelope.attempts_used
    return max(0, receives - 1 - attempts)
