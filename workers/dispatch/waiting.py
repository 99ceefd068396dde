"""What starts next: guaranteed shares first, then strict priority, of what has been received.

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
"""Which limit, breaker, busy child processes or other suspect holds a message back, if any."""


def no_block(_hold: Hold) -> None:
    """Nothing holds any message back."""


class Line:
    """What waits of one queue: for a slot, for a limit, or behind others of its FIFO group."""

    def __init__(self, queue: QueueSpec) -> None:
        self.queue = queue
        self.ready: deque[Hold] = deque()
        """What waits for a slot, as far as is known, or for its records to be read."""
        self.blocked: dict[str, deque[Hold]] = {}
        """By limit, what that held back when it was last looked at."""
        self.behind: dict[Hold, None] = {}
        """What may not start before others of its FIFO group."""

    def __iter__(self) -> Iterator[Hold]:
        """What waits, the first of each FIFO group before those behind it."""
        yield from self.ready
        for holds in self.blocked.values():
            yield from holds
        yield from self.behind

    @property
    def startable(self) -> int:
        """How many wait for a slot alone."""
        return len(self.ready)

    @property
    def held_back(self) -> int:
        """How many its limits hold back."""
        return sum(map(len, self.blocked.values()))

    def startable_of(self, job_type: str) -> int:
        """How many jobs of that type wait for a slot alone."""
        return sum(_type(hold) == job_type for hold in self.ready)

    def held_back_by(self, limit: str) -> int:
        """How many that limit holds back."""
        return len(self.blocked.get(limit, ()))

    def set_aside(self, hold: Hold, limit: str) -> None:
        """Have a message, which has been taken out, wait for a limit."""
        hold.limit = limit
        self.blocked.setdefault(limit, deque()).append(hold)

    def is_aside(self, hold: Hold) -> bool:
        """Whether it waits for more than a slot."""
        return bool(hold.limit) or hold in self.behind

    def remove(self, hold: Hold) -> bool:
        """Take one out; returns whether it waited."""
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

    Within a queue they keep the order in which SQS gave them, but for those that had to wait for
    more than a slot: they come first once they may start. Between queues of one priority the
    message that has waited longest here comes first.

    What can't start is set aside when that is found out, and takes no part in any count of what
    waits for a slot.

    Args:
        queues: whose messages may come.
        shares: which queues are owed a start.
        block: what holds one back, other than the want of a slot and its FIFO group.
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
        """By rank, the lines of which something may be able to start."""
        self.aside = 0
        """How many can't start, whatever slots are free."""
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
        """Take out what has to start first of what may start, or None.

        Args:
            has_slot: whether a job of that queue would find a free slot.
            has_turn: whether one would be left to it by what higher priorities are about to bring.
        """
        hold = self._next_owed(has_slot) or self._next_by_priority(has_turn)
        if hold is not None:
            self.remove(hold)
        return hold

    def news(self) -> list[tuple[Hold, Block]]:
        """What has been set aside for a limit since this was last asked."""
        if not self._news:
            return self._news
        news, self._news = self._news, []
        return [(hold, block) for hold, block in news if hold.limit == block.limit]

    @property
    def queues(self) -> int:
        """Queues whose messages may come."""
        return len(self._lines)

    def line(self, name: str) -> Line:
        """What waits of that queue."""
        return self._lines[name]

    def lines(self) -> Iterable[Line]:
        """What waits, by queue, in the order of their priority."""
        return self._lines.values()

    def startable(self, name: str) -> int:
        """How many of that queue wait for a slot alone."""
        return self._lines[name].startable

    def up_to(self, rank: int) -> int:
        """How many wait for a slot that would start before, or with, a new one of that rank."""
        return sum(self._startable[: rank + 1])

    def remove(self, hold: Hold) -> bool:
        """Take one out; returns whether it waited."""
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
        """Take out whatever meets the condition."""
        taken = [hold for line in self._lines.values() for hold in line if condition(hold)]
        for hold in taken:
            self.remove(hold)
        return taken

    def take_all(self) -> list[Hold]:
        """Take out everything."""
        return self.take_if(lambda _hold: True)

    def _line_of(self, hold: Hold) -> Line:
        return self._lines[hold.delivery.queue.name]

    def _track(self, line: Line) -> None:
        """Keep in mind whether something of a line may be able to start."""
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
        """Of lines of one priority, the first message that may start and has waited longest."""
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
        """The first message of a line that may start."""
        if not (line.ready or line.blocked) or not may_start(line.queue):
            return None
        return self._first_unblocked(line) or self._first_ready(line)

    def _first_unblocked(self, line: Line) -> Hold | None:
        """The first of those set aside that its limit holds back no more.

        One of each limit is looked at: what holds that back holds back those after it.
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
        """The first of those that wait for a slot; what turns out not to is set aside."""
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
    """The time of receipt of the oldest of those messages of which one starts first."""
    if not line.blocked:
        return _received(line.ready[0])
    return min(_received(holds[0]) for holds in (line.ready, *line.blocked.values()) if holds)


def _received(hold: Hold) -> float:
    return hold.delivery.received_at


def _type(hold: Hold) -> str:
    return "" if (job := hold.run.job) is None else job.type.name
