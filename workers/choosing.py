"""What starts next: strict priority among the messages that have been received.

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from jobs.topology import QueueSpec
from workers.holding import Hold


class Waiting:
    """Received messages that no slot was free for, a line per queue.

    Within a queue they keep the order in which SQS gave them. Between queues of one priority the
    message that has waited longest here comes first.
    """

    def __init__(self, queues: Iterable[QueueSpec]) -> None:
        ordered = sorted(queues, key=lambda spec: spec.priority.rank)
        self._lines: dict[str, deque[Hold]] = {spec.name: deque() for spec in ordered}
        self._ranks = {spec.name: spec.priority.rank for spec in ordered}

    def __len__(self) -> int:
        return sum(len(line) for line in self._lines.values())

    def put(self, hold: Hold) -> None:
        """Add a message at the end of its queue's line."""
        self._lines[hold.delivery.queue.name].append(hold)

    def next(self, may_start: Callable[[Hold], bool]) -> Hold | None:
        """Take out what has to start first of what may start, or None."""
        best: deque[Hold] | None = None
        best_at = 0
        for name, line in self._lines.items():
            if best is not None and self._ranks[name] > best[best_at].delivery.queue.priority.rank:
                break  # lines are in the order of their rank
            for at, hold in enumerate(line):
                if not may_start(hold):
                    continue
                if best is None or hold.delivery.received_at < best[best_at].delivery.received_at:
                    best, best_at = line, at
                break
        if best is None:
            return None
        hold = best[best_at]
        del best[best_at]
        return hold

    def of(self, queue: QueueSpec) -> int:
        """How many wait in this queue's line."""
        return len(self._lines[queue.name])

    def up_to(self, rank: int) -> int:
        """How many wait that would start before, or with, a new one of that rank."""
        return sum(len(line) for name, line in self._lines.items() if self._ranks[name] <= rank)

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
