"""The waiting messages, and the next to start: guaranteed shares first, then strict priority.

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.workers.dispatch.shares import Shares
from headgate.workers.held import Hold
from headgate.workers.limits.guards import Block

BlockOf = Callable[[Hold], Block | None]
"""Returns the limit, breaker, busy children or other suspect that holds a message back, if any."""


def no_block(_hold: Hold) -> None:
    """Return None: nothing holds any message back."""


class Line:
    """The waiting messages of one queue: for a slot, for a limit, or behind their FIFO group."""

    def __init__(self, queue: QueueSpec) -> None:
        self.queue = queue
        self.ready: deque[Hold] = deque()
        """Messages that, as far as is known, wait for a slot or for their records to be read."""
        self.blocked: dict[str, deque[Hold]] = {}
        """By limit, the messages that it held back when they were last checked."""
        self.behind: dict[Hold, None] = {}
        """Messages that may not start before others of their FIFO group."""

    def __iter__(self) -> Iterator[Hold]:
        """Yield the waiting messages, the first of each FIFO group before those behind it."""
        yield from self.ready
        for holds in self.blocked.values():
            yield from holds
        yield from self.behind

    @property
    def startable(self) -> int:
        """The number of messages that wait only for a slot."""
        return len(self.ready)

    @property
    def held_back(self) -> int:
        """The number of messages that limits hold back."""
        return sum(map(len, self.blocked.values()))

    def startable_of(self, job_type: str) -> int:
        """Return the number of jobs of a type that wait only for a slot."""
        return sum(_type(hold) == job_type for hold in self.ready)

    def held_back_by(self, limit: str) -> int:
        """Return the number of messages that a limit holds back."""
        return len(self.blocked.get(limit, ()))

    def set_aside(self, hold: Hold, limit: str) -> None:
        """Let a message that has been removed wait for a limit."""
        hold.limit = limit
        self.blocked.setdefault(limit, deque()).append(hold)

    def is_aside(self, hold: Hold) -> bool:
        """Return True if a message waits for more than a slot."""
        return bool(hold.limit) or hold in self.behind

    def remove(self, hold: Hold) -> bool:
        """Remove a message; return False if it did not wait."""
        if hold.limit:
            self._unblock(hold)
        elif hold in self.behind:
            del self.behind[hold]
        elif hold in self.ready:
            self.ready.remove(hold)
        else:
            return False
        return True

    def _unblock(self, hold: Hold) -> None:
        holds = self.blocked[hold.limit]
        holds.remove(hold)
        if not holds:
            del self.blocked[hold.limit]
        hold.limit = ""


class Waiting:
    """Received messages that have not been started, a line per queue.

    Within a queue messages keep the order in which SQS sent them, except those that had to wait for
    more than a slot: they come first once they may start. Between queues of one priority the
    message that has waited longest here comes first.

    A message that turns out unable to start is set aside, and is not counted among those that wait
    for a slot.

    Args:
        queues: the queues whose messages may come.
        shares: determines which queues are owed a start.
        block: returns what holds a message back, other than a missing slot and its FIFO group.
    """

    def __init__(
        self, queues: Iterable[QueueSpec], shares: Shares, *, block: BlockOf = no_block
    ) -> None:
        ordered = sorted(queues, key=lambda spec: spec.priority.rank)
        self._lines = {spec.name: Line(spec) for spec in ordered}
        self._shares = shares
        self._block = block
        self._startable = [0 for _ in Priority]
        self._live: list[dict[str, Line]] = [{} for _ in Priority]
        """By rank, the lines with messages that may be able to start."""
        self.aside = 0
        """Number of messages that can't start, whatever slots are free."""
        self._news: list[tuple[Hold, Block]] = []

    def __len__(self) -> int:
        return sum(self._startable) + self.aside

    def put(self, hold: Hold, *, behind: bool = False) -> None:
        """Add a message at the end of its queue's line, or ``behind`` others of its FIFO group."""
        line = self._line_of(hold)
        if behind:
            line.behind[hold] = None
            self.aside += 1
        else:
            line.ready.append(hold)
            self._startable[line.queue.priority.rank] += 1
            self._track(line)

    def lead(self, hold: Hold) -> None:
        """Move a message to the end of its queue's line, now that it is the first of its group."""
        if hold in self._line_of(hold).behind:
            self.remove(hold)
            self.put(hold)

    def next(
        self, has_slot: Callable[[QueueSpec], bool], has_turn: Callable[[QueueSpec], bool]
    ) -> Hold | None:
        """Pop the next startable message, or None.

        Args:
            has_slot: returns True if a job of that queue would find a free slot.
            has_turn: returns True if a slot would be left to it once higher priorities have taken
                theirs for the messages that they are about to receive.
        """
        hold = self._next_owed(has_slot) or self._next_by_priority(has_turn)
        if hold is not None:
            self.remove(hold)
        return hold

    def news(self) -> list[tuple[Hold, Block]]:
        """Return the messages set aside for a limit since the last call, with their blocks."""
        if not self._news:
            return self._news
        news, self._news = self._news, []
        return [(hold, block) for hold, block in news if hold.limit == block.limit]

    @property
    def queues(self) -> int:
        """The number of queues whose messages may come."""
        return len(self._lines)

    def line(self, name: str) -> Line:
        """Return the line of a queue, by its physical name."""
        return self._lines[name]

    def lines(self) -> Iterable[Line]:
        """Return the lines of all queues, in the order of their priority."""
        return self._lines.values()

    def startable(self, name: str) -> int:
        """Return the number of messages of a queue that wait only for a slot."""
        return self._lines[name].startable

    def up_to(self, rank: int) -> int:
        """Return the number of messages waiting for a slot with that rank or a more urgent one."""
        return sum(self._startable[: rank + 1])

    def remove(self, hold: Hold) -> bool:
        """Remove a message; return False if it did not wait."""
        line = self._line_of(hold)
        was_aside = line.is_aside(hold)
        if not line.remove(hold):
            return False
        if was_aside:
            self.aside -= 1
        else:
            self._startable[line.queue.priority.rank] -= 1
        self._track(line)
        return True

    def take_if(self, condition: Callable[[Hold], bool]) -> list[Hold]:
        """Remove and return the messages that meet the condition."""
        taken = [hold for line in self._lines.values() for hold in line if condition(hold)]
        for hold in taken:
            self.remove(hold)
        return taken

    def take_all(self) -> list[Hold]:
        """Remove and return all messages."""
        return self.take_if(lambda _hold: True)

    def _line_of(self, hold: Hold) -> Line:
        return self._lines[hold.delivery.queue.name]

    def _track(self, line: Line) -> None:
        """Track whether messages of a line may be able to start."""
        name, lines = line.queue.name, self._live[line.queue.priority.rank]
        is_live = bool(line.ready or line.blocked)
        if is_live == (name in lines):
            return
        if is_live:
            lines[name] = line
        else:
            del lines[name]
        self._shares.has_work(name, has_work=is_live)

    def _next_owed(self, has_slot: Callable[[QueueSpec], bool]) -> Hold | None:
        for name in self._shares.owed():
            if (hold := self._first(self._lines[name], has_slot)) is not None:
                return hold
            self._shares.passed_over(name)
        return None

    def _next_by_priority(self, has_turn: Callable[[QueueSpec], bool]) -> Hold | None:
        for lines in self._live:
            if lines and (hold := self._oldest(lines.values(), has_turn)) is not None:
                return hold
        return None

    def _oldest(
        self, lines: Collection[Line], has_turn: Callable[[QueueSpec], bool]
    ) -> Hold | None:
        """Return the longest-waiting startable message of one priority's lines, or None."""
        if not has_turn(next(iter(lines)).queue):
            return None
        best: Hold | None = None
        for line in sorted(lines, key=_age):
            if best is not None and _age(line) >= _received(best):
                break
            hold = self._first(line, has_turn)
            if hold is not None and (best is None or _received(hold) < _received(best)):
                best = hold
        return best

    def _first(self, line: Line, may_start: Callable[[QueueSpec], bool]) -> Hold | None:
        """Return the first message of a line that may start, or None."""
        if not (line.ready or line.blocked) or not may_start(line.queue):
            return None
        return self._first_unblocked(line) or self._first_ready(line)

    def _first_unblocked(self, line: Line) -> Hold | None:
        """Return the first message set aside that its limit no longer holds back, or None.

        One message of each limit is checked: what holds it back holds back those after it.
        """
        for limit in tuple(line.blocked):
            while holds := line.blocked.get(limit):
                hold = holds[0]
                if (block := self._block(hold)) is None:
                    return hold
                if block.limit == limit:
                    break
                self._set_aside(line, hold, block)
        return None

    def _first_ready(self, line: Line) -> Hold | None:
        """Return the first message that waits only for a slot; set aside those that do not."""
        unread = 0
        while unread < len(line.ready):
            hold = line.ready[unread]
            if not hold.ready:
                unread += 1
            elif (block := self._block(hold)) is None:
                return hold
            else:
                self._set_aside(line, hold, block)
        return None

    def _set_aside(self, line: Line, hold: Hold, block: Block) -> None:
        self.remove(hold)
        line.set_aside(hold, block.limit)
        self._track(line)
        self.aside += 1
        self._news.append((hold, block))


def _age(line: Line) -> float:
    """Return the time of receipt of the oldest message among those that may come first."""
    if not line.blocked:
        return _received(line.ready[0])
    return min(_received(holds[0]) for holds in (line.ready, *line.blocked.values()) if holds)


def _received(hold: Hold) -> float:
    return hold.delivery.received_at


def _type(hold: Hold) -> str:
    return "" if (job := hold.run.job) is None else job.type.name
