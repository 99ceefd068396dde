"""What starts next: guaranteed shares first, then strict priority, of what has been received.

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from enum import Enum, auto

from jobs.topology import QueueSpec
from workers.holding import Hold
from workers.shares import Shares


class Obstacle(Enum):
    """What keeps a message from starting, other than the want of a slot."""

    RECALL = auto()
    """Records are still being asked what happened to its job; that takes a moment."""
    ORDER = auto()
    """An earlier one of its FIFO group. Other groups of its queue are not affected, and no other
    worker could start it either."""
    LIMIT = auto()
    """A limit, a breaker, busy child processes or another suspect. What else its queue has would
    probably meet the same."""


ObstacleOf = Callable[[Hold], Obstacle | None]


def no_obstacle(_hold: Hold) -> None:
    """Nothing keeps any message from starting."""


class Waiting:
    """Received messages that have not been started, a line per queue.

    Within a queue they keep the order in which SQS gave them. Between queues of one priority the
    message that has waited longest here comes first.

    Args:
        queues: whose messages may come.
        shares: which queues are owed a start.
        obstacle: what keeps one from starting, other than the want of a slot.
        guarded: the physical names of the queues whose messages may meet an obstacle that lasts.
    """

    def __init__(
        self,
        queues: Iterable[QueueSpec],
        shares: Shares,
        *,
        obstacle: ObstacleOf = no_obstacle,
        guarded: Collection[str] = (),
    ) -> None:
        ordered = sorted(queues, key=lambda spec: spec.priority.rank)
        self._lines: dict[str, deque[Hold]] = {spec.name: deque() for spec in ordered}
        self._ranks = {spec.name: spec.priority.rank for spec in ordered}
        self._shares = shares
        self._obstacle = obstacle
        self._guarded = frozenset(guarded)

    def __len__(self) -> int:
        return sum(len(line) for line in self._lines.values())

    def put(self, hold: Hold) -> None:
        """Add a message at the end of its queue's line."""
        self._lines[hold.delivery.queue.name].append(hold)

    def next(
        self, has_slot: Callable[[QueueSpec], bool], has_turn: Callable[[QueueSpec], bool]
    ) -> Hold | None:
        """Take out what has to start first of what may start, or None.

        Args:
            has_slot: whether a job of that queue would find a free slot.
            has_turn: whether one would be left to it by what higher priorities are about to bring.
        """
        return self._next_owed(has_slot) or self._next_by_priority(has_turn)

    def startable(self, name: str) -> int:
        """How many of that queue wait for a slot alone."""
        line = self._lines[name]
        if not line or name not in self._guarded:
            return len(line)
        return sum(self._obstacle(hold) in (None, Obstacle.RECALL) for hold in line)

    def buffered(self, name: str) -> int:
        """How many of that queue wait for something that more receives would have to wait for too:
        those behind others of their FIFO group are left out."""
        line = self._lines[name]
        if not line or name not in self._guarded:
            return len(line)
        return sum(self._obstacle(hold) is not Obstacle.ORDER for hold in line)

    def up_to(self, rank: int) -> int:
        """How many wait that would start before, or with, a new one of that rank."""
        return sum(self.startable(name) for name in self._lines if self._ranks[name] <= rank)

    def remove(self, hold: Hold) -> bool:
        """Take one out; returns whether it waited."""
        line = self._lines[hold.delivery.queue.name]
        if hold not in line:
            return False
        line.remove(hold)
        return True

    def take_if(self, condition: Callable[[Hold], bool]) -> list[Hold]:
        """Take out whatever meets the condition."""
        taken = [hold for line in self._lines.values() for hold in line if condition(hold)]
        for hold in taken:
            self._lines[hold.delivery.queue.name].remove(hold)
        return taken

    def take_all(self) -> list[Hold]:
        """Take out everything."""
        taken = [hold for line in self._lines.values() for hold in line]
        for line in self._lines.values():
            line.clear()
        return taken

    def _next_owed(self, has_slot: Callable[[QueueSpec], bool]) -> Hold | None:
        for name in self._shares.owed():
            line = self._lines[name]
            if (at := self._first(line, has_slot)) is not None:
                return _taken(line, at)
            self._shares.passed_over(name)
        return None

    def _next_by_priority(self, has_turn: Callable[[QueueSpec], bool]) -> Hold | None:
        best: deque[Hold] | None = None
        best_at = 0
        for name, line in self._lines.items():
            if best is not None and self._ranks[name] > best[best_at].delivery.queue.priority.rank:
                break  # lines are in the order of their rank
            if (at := self._first(line, has_turn)) is not None and (
                best is None or line[at].delivery.received_at < best[best_at].delivery.received_at
            ):
                best, best_at = line, at
        return None if best is None else _taken(best, best_at)

    def _first(self, line: deque[Hold], may_start: Callable[[QueueSpec], bool]) -> int | None:
        """The place in a line of the first message that may start."""
        if not line or not may_start(line[0].delivery.queue):
            return None
        for at, hold in enumerate(line):
            if self._obstacle(hold) is None:
                return at
        return None


def _taken(line: deque[Hold], at: int) -> Hold:
    hold = line[at]
    del line[at]
    return hold
