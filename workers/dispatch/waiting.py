"""The waiting messages, and the next to start: guaranteed shares first, then strict priority.

A choice does not look at what a limit holds back until that limit may let a message start, and then
only at the first of its messages: so its cost does not grow with the number of waiting messages.

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.workers.dispatch.line import Line
from headgate.workers.dispatch.shares import Shares
from headgate.workers.held import Hold
from headgate.workers.limits.guards import Block

BlockOf = Callable[[Hold], Block | None]
"""Returns the limit, breaker, busy children or other suspect that holds a message back, if any."""


def no_block(_hold: Hold) -> None:
    """Return None: nothing holds any message back."""


class Waiting:
    """Received messages that have not been started, a line per queue.

    Within a queue messages keep the order in which SQS sent them, except those that had to wait for
    more than a slot: they come first once they may start. Between queues of one priority the
    message that has waited longest here comes first.

    A message that turns out unable to start is set aside, and is not counted among those that wait
    for a slot. It is checked again after `ease`.

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
        self._blocked: defaultdict[str, dict[str, Line]] = defaultdict(dict)
        """By limit, the lines with messages that it holds back."""
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
            line.put(hold)
            self._startable[line.queue.priority.rank] += 1
            self._track(line)

    def lead(self, hold: Hold) -> None:
        """Move a message to the end of its queue's line, now that it is the first of its group."""
        if hold in self._line_of(hold).behind:
            self.remove(hold)
            self.put(hold)

    def read(self, hold: Hold) -> None:
        """Note that a message's records and payload have been read, so that it may start."""
        line = self._line_of(hold)
        if line.read(hold):
            self._track(line)

    def ease(self, limit: str | None = None) -> None:
        """Check again, at the next choice, what a limit holds back; or what all limits do."""
        for name in (limit,) if limit is not None else tuple(self._blocked):
            for line in self._blocked.get(name, {}).values():
                line.ease(name)
                self._track(line)

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
        line, limit = self._line_of(hold), hold.limit
        was_aside = line.is_aside(hold)
        if not line.remove(hold):
            return False
        if limit and limit not in line.blocked:
            self._forget(limit, line)
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
        if line.is_live == (name in lines):
            return
        if line.is_live:
            lines[name] = line
        else:
            del lines[name]
        self._shares.has_work(name, has_work=line.is_live)

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
            if not line.is_live:
                continue  # the check of another line has shown that its limit still holds
            if best is not None and line.age >= _received(best):
                break
            hold = self._first(line, has_turn)
            if hold is not None and (best is None or _received(hold) < _received(best)):
                best = hold
        return best

    def _first(self, line: Line, may_start: Callable[[QueueSpec], bool]) -> Hold | None:
        """Return the first message of a line that may start, or None."""
        if not line.is_live or not may_start(line.queue):
            return None
        return self._first_eased(line) or self._first_ready(line)

    def _first_eased(self, line: Line) -> Hold | None:
        """Return the first message set aside that its limit no longer holds back, or None.

        One message of each limit is checked: what holds it back holds back those after it, and
        those of other queues.
        """
        while line.eased:
            limit = next(iter(line.eased))
            hold = next(iter(line.blocked[limit]))
            if (block := self._block(hold)) is None:
                return hold
            if block.limit == limit:
                self._no_longer_eased(limit)
            else:
                self._set_aside(line, hold, block)
        return None

    def _first_ready(self, line: Line) -> Hold | None:
        """Return the first message that waits only for a slot; set aside those before it."""
        while line.ready:
            hold = line.ready[0]
            if (block := self._block(hold)) is None:
                return hold
            self._set_aside(line, hold, block)
        return None

    def _set_aside(self, line: Line, hold: Hold, block: Block) -> None:
        self.remove(hold)
        line.set_aside(hold, block.limit)
        self._blocked[block.limit][line.queue.name] = line
        self.aside += 1
        self._news.append((hold, block))

    def _no_longer_eased(self, limit: str) -> None:
        for line in self._blocked[limit].values():
            line.holds(limit)
            self._track(line)

    def _forget(self, limit: str, line: Line) -> None:
        """Note that a limit holds back no message of a line any more."""
        lines = self._blocked[limit]
        del lines[line.queue.name]
        if not lines:
            del self._blocked[limit]


def _age(line: Line) -> float:
    return line.age


def _received(hold: Hold) -> float:
    return hold.delivery.received_at
