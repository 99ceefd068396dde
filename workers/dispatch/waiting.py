"""The waiting messages, and the next to start: guaranteed shares first, then strict priority.

No choice looks at more than a few messages, however many wait, in however many queues. Those that
a limit holds back are checked when it may let one start, and only the oldest of them.

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable

from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.workers.dispatch.line import Line
from headgate.workers.dispatch.shares import Peers, Shares
from headgate.workers.held import Hold
from headgate.workers.limits.guards import Block

BlockOf = Callable[[Hold], Block | None]
"""Returns the limit, breaker, busy children or other suspect that holds a message back, if any."""


def no_block(_hold: Hold) -> None:
    """Return None: nothing holds any message back."""


def one_job(_queue: QueueSpec) -> int:
    """Return 1: each message takes a slot."""
    return 1


class _Lines:
    """The lines of peers: queues of one priority with equal shares."""

    def __init__(self, queue: QueueSpec) -> None:
        self.queue = queue
        """One of the queues."""
        self.startable = 0
        """Number of messages that wait only for a slot, or for being read."""
        self.blocked: dict[str, OrderedDict[Hold, None]] = {}
        """By limit, the messages that it holds back, in all these lines."""
        self.eased: dict[str, Line] = {}
        """Limits to check again, each with the line of the oldest message that it holds back."""
        self._by_age: list[tuple[float, int, Line]] = []
        """A heap of the lines with messages that wait only for a slot, by the time of receipt of
        the first. That time may be out of date, and is then too early."""
        self._order = itertools.count()

    def enter(self, line: Line) -> None:
        """Put a line in order of the age of its first message."""
        line.entries += 1
        age = line.ready[0].delivery.received_at
        heapq.heappush(self._by_age, (age, next(self._order), line))

    def oldest(self, check: Callable[[Line], Hold | None]) -> Hold | None:
        """Return the longest-waiting message that may start.

        Args:
            check: returns the first message of a line if it may start, and sets it aside otherwise.
        """
        while self._by_age:
            age, _, line = self._by_age[0]
            is_current = line.ready and line.ready[0].delivery.received_at <= age
            if is_current and (hold := check(line)) is not None:
                return hold
            heapq.heappop(self._by_age)
            line.entries -= 1
            if line.ready and not line.entries:
                self.enter(line)
        return None


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
        jobs_a_slot: returns the number of a queue's messages that surely fit into one slot.
    """

    def __init__(
        self,
        queues: Iterable[QueueSpec],
        shares: Shares,
        *,
        block: BlockOf = no_block,
        jobs_a_slot: Callable[[QueueSpec], int] = one_job,
    ) -> None:
        ordered = sorted(queues, key=lambda spec: spec.priority.rank)
        self._lines = {spec.name: Line(spec, jobs_a_slot=jobs_a_slot(spec)) for spec in ordered}
        self._shares = shares
        self._block = block
        self._startable = [0 for _ in Priority]
        """By rank, the number of messages that wait only for a slot, or for being read."""
        self._peers: dict[Peers, _Lines] = {}
        by_rank = defaultdict[int, list[_Lines]](list)
        for line in self._lines.values():
            if line.peers not in self._peers:
                self._peers[line.peers] = lines = _Lines(line.queue)
                by_rank[line.rank].append(lines)
        self._by_rank = [*by_rank.values()]
        """The lines of each priority that has any, the most urgent one first."""
        self.aside = 0
        """Number of messages that can't start, whatever slots are free."""
        self._news: list[tuple[Hold, Block]] = []

    def __len__(self) -> int:
        return sum(self._startable) + self.aside

    def put(self, hold: Hold, *, behind: bool = False) -> None:
        """Add a message at the end of its queue's line.

        With ``behind`` it waits for others of its FIFO group, or of its batch, until `lead`.
        """
        line = self._line_of(hold)
        if behind:
            line.behind[hold] = None
            self.aside += 1
        else:
            line.put(hold)
            self._count(line, 1)
            self._track(line)

    def lead(self, hold: Hold) -> None:
        """Move a message to the end of its queue's line, now that it waits for no other."""
        if hold in self._line_of(hold).behind:
            self.remove(hold)
            self.put(hold)

    def read(self, hold: Hold) -> None:
        """Note that a message's records and payload have been read, so that it may start."""
        line = self._line_of(hold)
        if line.read(hold):
            self._peers[line.peers].enter(line)  # it may be older than all others of its line
            self._track(line)

    def ease(self, limit: str | None = None) -> None:
        """Check again, at the next choice, what a limit holds back; or what all limits do."""
        for lines in self._peers.values():
            for name in (limit,) if limit is not None else tuple(lines.blocked):
                if name in lines.blocked:
                    self._ease(lines, name)

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

    def startable_of(self, peers: Peers) -> int:
        """Return the same for all queues of peers."""
        return self._peers[peers].startable

    def of_rank(self, rank: int) -> int:
        """Return the number of messages waiting for a slot with that rank."""
        return self._startable[rank]

    def up_to(self, rank: int) -> int:
        """Return the number of messages waiting for a slot with that rank or a more urgent one."""
        return sum(self._startable[: rank + 1])

    def remove(self, hold: Hold) -> bool:
        """Remove a message; return False if it did not wait."""
        line, limit = self._line_of(hold), hold.limit
        was_aside = bool(limit) or hold in line.behind
        if not line.remove(hold):
            return False
        if limit:
            self._unblock(self._peers[line.peers], hold, limit)
        if was_aside:
            self.aside -= 1
        else:
            self._count(line, -1)
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

    def _count(self, line: Line, change: int) -> None:
        self._startable[line.rank] += change
        self._peers[line.peers].startable += change

    def _track(self, line: Line) -> None:
        """Track whether messages of a line may be able to start."""
        if line.ready and not line.entries:
            self._peers[line.peers].enter(line)
        is_live = bool(line.ready or line.eased)
        if is_live != line.is_live:
            line.is_live = is_live
            self._shares.has_work(line.queue.name, has_work=is_live)

    def _next_owed(self, has_slot: Callable[[QueueSpec], bool]) -> Hold | None:
        for peers in self._shares.owed():
            lines = self._peers[peers]
            if has_slot(lines.queue):
                hold = self._first_of(lines, self._shares.only(peers))
                if hold is not None:
                    return hold
            self._shares.passed_over(peers)
        return None

    def _next_by_priority(self, has_turn: Callable[[QueueSpec], bool]) -> Hold | None:
        for of_rank in self._by_rank:
            if not has_turn(of_rank[0].queue):
                continue
            first: Hold | None = None
            for lines in of_rank:
                hold = self._first_of(lines)
                if hold is not None and (first is None or hold.is_older_than(first)):
                    first = hold
            if first is not None:
                return first
        return None

    def _first_of(self, lines: _Lines, only: str | None = None) -> Hold | None:
        """Return the next message of peers that may start, or of only one of the queues."""
        if only is None:
            eased = self._first_eased(lines, lines.eased) if lines.eased else None
            return eased or lines.oldest(self._check)
        line = self._lines[only]
        return self._first_eased(lines, line.eased) or self._first_ready(line)

    def _first_eased(self, lines: _Lines, eased: dict[str, Line] | dict[str, None]) -> Hold | None:
        """Return the first message set aside that its limit no longer holds back, or None.

        One message of each limit is checked: what holds it back holds back those after it.
        """
        while eased:
            limit = next(iter(eased))
            hold = next(iter(lines.blocked[limit]))
            if (block := self._block(hold)) is None:
                return hold
            if block.limit == limit:
                self._no_longer_eased(lines, limit)
            else:
                self._set_aside(self._line_of(hold), hold, block)
        return None

    def _first_ready(self, line: Line) -> Hold | None:
        """Return the first message that waits only for a slot; set aside all before it."""
        while line.ready:
            if (hold := self._check(line)) is not None:
                return hold
        return None

    def _check(self, line: Line) -> Hold | None:
        """Return the first message that waits only for a slot; set it aside if it does not."""
        hold = line.ready[0]
        if (block := self._block(hold)) is None:
            return hold
        self._set_aside(line, hold, block)
        return None

    def _set_aside(self, line: Line, hold: Hold, block: Block) -> None:
        self.remove(hold)
        line.set_aside(hold, block.limit)
        blocked = self._peers[line.peers].blocked
        blocked.setdefault(block.limit, OrderedDict())[hold] = None
        self.aside += 1
        self._news.append((hold, block))

    def _unblock(self, lines: _Lines, hold: Hold, limit: str) -> None:
        """Remove a message from those that a limit holds back; the next may start as it might."""
        holds, is_eased = lines.blocked[limit], limit in lines.eased
        del holds[hold]
        self._no_longer_eased(lines, limit)
        if not holds:
            del lines.blocked[limit]
        elif is_eased:
            self._ease(lines, limit)

    def _ease(self, lines: _Lines, limit: str) -> None:
        self._no_longer_eased(lines, limit)
        line = self._line_of(next(iter(lines.blocked[limit])))
        lines.eased[limit] = line
        line.eased[limit] = None
        self._track(line)

    def _no_longer_eased(self, lines: _Lines, limit: str) -> None:
        if (line := lines.eased.pop(limit, None)) is not None:
            del line.eased[limit]
            self._track(line)
