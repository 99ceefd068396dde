"""The waiting messages of one queue."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator

from headgate.jobs.core.topology import QueueSpec
from headgate.workers.dispatch.shares import peers_of
from headgate.workers.held import Hold


class Line:
    """The waiting messages of one queue: for a slot, for a limit, or for other messages."""

    def __init__(self, queue: QueueSpec, *, jobs_a_slot: int = 1) -> None:
        self.queue = queue
        self.jobs_a_slot = jobs_a_slot
        """Number of its messages that surely fit into one slot."""
        self.rank = queue.priority.rank
        self.peers = peers_of(queue)
        self.ready: deque[Hold] = deque()
        """Messages that, as far as is known, wait only for a slot."""
        self.unread: dict[Hold, str] = {}
        """Messages that wait for their records or payload to be read, with their types so far."""
        self.blocked: dict[str, OrderedDict[Hold, None]] = {}
        """By limit, the messages that it held back when they were last checked."""
        self.eased: dict[str, None] = {}
        """Limits to check again, of whose messages the oldest of all peers waits here."""
        self.behind: dict[Hold, None] = {}
        """Messages that may not start before others of their FIFO group, or wait for others to
        join their batch."""
        self.held_back = 0
        """Number of messages that limits hold back."""
        self.is_live = False
        """True while messages may be able to start, as `Shares` has been told."""
        self.entries = 0
        """Number of entries in the heap of its peers; see `workers.dispatch.waiting`."""
        self._types: defaultdict[str, int] = defaultdict(int)
        """By type, the number of messages that wait only for a slot or for being read."""

    def __iter__(self) -> Iterator[Hold]:
        """Yield the waiting messages, the first of each FIFO group before those behind it."""
        yield from self.ready
        yield from self.unread
        for holds in self.blocked.values():
            yield from holds
        yield from self.behind

    @property
    def startable(self) -> int:
        """The number of messages that wait only for a slot, or for being read."""
        return len(self.ready) + len(self.unread)

    def startable_of(self, job_type: str) -> int:
        """Return the number of jobs of a type that wait only for a slot, or for being read."""
        return self._types[job_type]

    def held_back_by(self, limit: str) -> int:
        """Return the number of messages that a limit holds back."""
        return len(self.blocked.get(limit, ()))

    def put(self, hold: Hold) -> None:
        """Add a message at the end."""
        self._types[job_type := _type(hold)] += 1
        if hold.ready:
            self.ready.append(hold)
        else:
            self.unread[hold] = job_type

    def read(self, hold: Hold) -> bool:
        """Let a message that has been read wait for a slot alone, where it would have waited.

        Returns:
            False if it did not wait for being read.
        """
        if hold not in self.unread:
            return False
        self._types[self.unread.pop(hold)] -= 1
        self._types[_type(hold)] += 1
        later = sum(_order(other) > _order(hold) for other in self.ready)
        self.ready.insert(len(self.ready) - later, hold)
        return True

    def set_aside(self, hold: Hold, limit: str) -> None:
        """Let a message that has been removed wait for a limit."""
        hold.limit = limit
        self.blocked.setdefault(limit, OrderedDict())[hold] = None
        self.held_back += 1

    def remove(self, hold: Hold) -> bool:
        """Remove a message; return False if it did not wait."""
        if hold.limit:
            self._unblock(hold)
        elif hold in self.behind:
            del self.behind[hold]
        else:
            return self._remove_startable(hold)
        return True

    def _remove_startable(self, hold: Hold) -> bool:
        if hold in self.unread:
            self._types[self.unread.pop(hold)] -= 1
            return True
        try:
            self.ready.remove(hold)
        except ValueError:
            return False
        self._types[_type(hold)] -= 1
        return True

    def _unblock(self, hold: Hold) -> None:
        holds = self.blocked[hold.limit]
        del holds[hold]
        if not holds:
            del self.blocked[hold.limit]
        hold.limit = ""
        self.held_back -= 1


def _order(hold: Hold) -> tuple[float, int]:
    """Return what sorts messages in the order in which SQS sent them."""
    return hold.delivery.received_at, hold.number


def _type(hold: Hold) -> str:
    return "" if (job := hold.run.job) is None else job.type.name
