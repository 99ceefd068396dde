"""Guaranteed shares: the queues that are owed the next start, whatever waits elsewhere.

Queues of one priority with equal shares are peers: they share one account, and among them the
oldest message starts first, so that the messages of a receive start, and are deleted, together.
Peers with work are served alike, since each gets its turn to receive. So each gets its share.

Each start credits every account that may have work with its share; an account whose credit has
reached 1 is owed a start, which costs 1. Starts by strict priority use up the credit there is, and
never lead to debt: having received more than its share before costs an account nothing later. So of
any N consecutive starts during which an account has work that could start, it gets at least its
share of N less two or three, and the remaining starts go by strict priority.

The guarantee is a fraction of the *starts*, until the peers hold their share of the *slots*,
rounded up, plus one, since one is always about to end: a twentieth of all starts would fill every
slot if these jobs took an hour and the others a second. From then on only those peers are owed
starts that hold less than their own share of the slots, so that one with long jobs starves no
other. An account without work, or without work that may start, earns no more once it is owed one
start.

An account's credit is computed on demand, from the starts since the last computation, and the next
account to be owed a start is known in advance. So a start costs the same however many queues exist.

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.jobs.core.topology import QueueSpec

MOST_SHARED = 0.95
"""Upper bound on the sum of all shares, so that strict priority keeps some starts."""

_MOST_ENTRIES = 8
"""Entries per account in the heap of those that will be owed a start, including stale ones."""

_MEMORY = 100
"""Number of starts over which an account's finished jobs are averaged."""

Peers = tuple[int, float]
"""Queues of one priority with equal shares: the priority's rank, and the share of each."""


def peers_of(queue: QueueSpec) -> Peers:
    """Return the peers to which a queue belongs."""
    return queue.priority.rank, queue.lane.share


@dataclass(slots=True)
class _Account:
    peers: Peers
    share: float = 0.0
    """Share of all its queues together."""
    most: float = math.inf
    """Number of slots from which on only queues that hold less than their own are owed starts."""
    most_each: float = math.inf
    """Share of the slots of each queue."""
    credit: float = 0.0
    """Its credit after `at` starts."""
    at: int = 0
    busy: dict[str, int] = field(default_factory=dict)
    """By queue, the number of slots that its jobs hold."""
    busy_in_all: int = 0
    idle: set[str] = field(default_factory=set)
    """Queues at which a receive waits, and which are therefore empty."""
    working: dict[str, None] = field(default_factory=dict)
    """Queues of which messages wait in this worker that may be able to start."""
    lean: dict[str, None] = field(default_factory=dict)
    """Those of them that hold less than their share of the slots."""
    due: float = math.inf
    """Number of starts in all after which it is owed one; infinite while it could take none."""
    ended: float = 0.0
    """Number of its jobs that have ended per start of any, averaged, after `ended_at` starts."""
    ended_at: int = 0

    has_slots: bool = True
    """True while its queues hold less than their share of the slots."""
    is_able: bool = False
    """True while slots and messages would let it take a start that it is owed."""
    is_dry: bool = False
    """True while all its queues are empty, and none of their messages wait here."""

    @property
    def standing(self) -> tuple[bool, bool]:
        """The facts besides its starts that its credit depends on."""
        return self.is_able, self.is_dry

    def credit_after(self, starts: int, *, was_able: bool | None = None) -> float:
        """Return its credit after a total number of starts.

        Args:
            starts: the number of starts, of all queues.
            was_able: what `is_able` was during them; None if it still is.
        """
        if self.is_dry:
            return 0.0
        credit = self.credit + self.share * (starts - self.at)
        was_able = self.is_able if was_able is None else was_able
        return credit if was_able else max(self.credit, min(1.0, credit))

    def ended_per_start(self, starts: int) -> float:
        """Return how many of its jobs have lately ended for each start of any job."""
        return self.ended * math.exp((self.ended_at - starts) / _MEMORY)

    def weigh(self, queue: str) -> None:
        """Work out what depends on the slots and messages of its queues, of which one changed."""
        if queue in self.working and self.busy[queue] < self.most_each:
            self.lean[queue] = None
        else:
            self.lean.pop(queue, None)
        self.has_slots = self.busy_in_all < self.most
        self.is_able = bool(self.working if self.has_slots else self.lean)
        self.is_dry = not self.working and len(self.idle) == len(self.busy)


class Shares:
    """The credit of the queues that have shares.

    If the sum of all shares exceeds `MOST_SHARED`, they are scaled down to it in proportion.

    Args:
        queues: the queues that this worker works on.
        slots: the number of jobs that it runs at once; None leaves shares unbounded by slots.
    """

    def __init__(self, queues: Iterable[QueueSpec], *, slots: int | None = None) -> None:
        shared = [spec for spec in queues if spec.lane.share > 0]
        scale = min(1.0, MOST_SHARED / (sum(spec.lane.share for spec in shared) or 1.0))
        self._starts = 0
        """Number of starts so far, of all queues."""
        self._due: list[tuple[float, Peers]] = []
        """A heap of the accounts that could take a start, by the time at which they are owed one.
        Stale entries are left until they are popped, or there are too many."""
        self._owed: dict[Peers, _Account] = {}
        """The accounts that are owed a start, and could take it."""
        self._accounts: dict[Peers, _Account] = {}
        self._account_of: dict[str, _Account] = {}
        """The same, by the name of each queue."""
        for spec in shared:
            self._open(spec, spec.lane.share * scale, slots)
        self._most_due = _MOST_ENTRIES * len(self._accounts)

    def of(self, name: str) -> float:
        """Return the fraction of all starts guaranteed to a queue, by its physical name."""
        account = self._account_of.get(name)
        return account.share / len(account.busy) if account is not None else 0.0

    def started(self, name: str) -> None:
        """Note that a job of that queue has taken a slot."""
        own = self._account_of.get(name)
        credit = 0.0 if own is None else own.credit_after(self._starts)
        self._starts += 1
        if own is not None:
            own.busy[name] += 1
            own.busy_in_all += 1
            own.weigh(name)
            earned = 0.0 if own.is_dry else own.share
            self._set(own, max(0.0, credit + earned - 1))

    def finished(self, name: str) -> None:
        """Note that a job of that queue has freed its slot."""
        if (own := self._account_of.get(name)) is None:
            return
        was_able = own.is_able
        own.busy[name] -= 1
        own.busy_in_all -= 1
        own.ended = own.ended_per_start(self._starts) + 1 / _MEMORY
        own.ended_at = self._starts
        own.weigh(name)
        if own.is_able != was_able:  # a job's end leaves no queue dry
            self._set(own, own.credit_after(self._starts, was_able=was_able))

    def owed(self) -> list[Peers]:
        """Return the peers with work that are owed a start, highest credit first."""
        while self._due and self._due[0][0] <= self._starts:
            due, peers = heapq.heappop(self._due)
            if self._accounts[peers].due == due:
                self._owed[peers] = self._accounts[peers]
        if len(self._owed) < 2:
            return list(self._owed)
        return sorted(self._owed, key=self._credit, reverse=True)

    def only(self, peers: Peers) -> str | None:
        """Return the one queue of peers that are owed a start that may take it; None for any."""
        account = self._accounts[peers]
        return None if account.has_slots else next(iter(account.lean), None)

    def passed_over(self, peers: Peers) -> None:
        """Note that peers were owed a start but had no startable message; cap their credit at 1."""
        self._set(self._accounts[peers], 1.0)

    def earned(self, name: str, starts: float) -> float:
        """Return the part of the next ``starts`` of a queue's peers, whatever slots they hold."""
        if (account := self._account_of.get(name)) is None:
            return 0.0
        return account.credit_after(self._starts) + max(0.0, starts) * account.share

    def turns(self, name: str, starts: float) -> float:
        """Return how many of the next ``starts`` a queue's peers are owed, including a fraction.

        If they hold their share of the slots, the number for the queue alone.
        """
        if (account := self._account_of.get(name)) is None:
            return 0.0
        owed = self.earned(name, starts)
        if account.has_slots:
            ending = max(0.0, starts) * account.ended_per_start(self._starts)
            return min(owed, account.most - account.busy_in_all + ending)
        return min(owed, max(0, math.ceil(account.most_each) - account.busy[name]))

    def has_slots(self, name: str) -> bool:
        """Return True while a queue's peers hold less than their share of the slots."""
        account = self._account_of.get(name)
        return account is not None and account.has_slots

    def has_work(self, name: str, *, has_work: bool) -> None:
        """Note whether messages of that queue wait here that may be able to start."""
        if (account := self._account_of.get(name)) is None:
            return
        credit, before = account.credit_after(self._starts), account.standing
        if has_work:
            account.working[name] = None
        else:
            account.working.pop(name, None)
        account.weigh(name)
        if account.standing != before:
            self._set(account, credit)

    def is_dry(self, name: str) -> None:
        """Note that a queue is empty; peers that all are, are owed nothing until one is not."""
        if (account := self._account_of.get(name)) is not None:
            account.idle.add(name)
            account.weigh(name)
            if account.is_dry:
                self._set(account, 0.0)

    def may_have_work(self, name: str) -> None:
        """Note that a queue may have work again."""
        account = self._account_of.get(name)
        if account is not None and name in account.idle:
            was_dry = account.is_dry
            account.idle.remove(name)
            account.weigh(name)
            if was_dry:
                self._set(account, 0.0)

    def _open(self, spec: QueueSpec, share: float, slots: int | None) -> None:
        """Add a queue to the account of its peers."""
        peers = peers_of(spec)
        account = self._accounts.setdefault(peers, _Account(peers))
        self._account_of[spec.name] = account
        account.busy[spec.name] = 0
        account.share += share
        if slots is not None:
            account.most = math.ceil(account.share * slots) + 1
            account.most_each = share * slots

    def _credit(self, peers: Peers) -> float:
        return self._accounts[peers].credit_after(self._starts)

    def _set(self, account: _Account, credit: float) -> None:
        """Set an account's credit, and compute when it will be owed a start."""
        account.credit, account.at, account.due = credit, self._starts, math.inf
        self._owed.pop(account.peers, None)
        if account.is_able and not account.is_dry:
            account.due = self._starts + max(0.0, 1 - credit) / account.share
            heapq.heappush(self._due, (account.due, account.peers))
            if len(self._due) > self._most_due:
                self._drop_stale()

    def _drop_stale(self) -> None:
        """Drop stale entries from the heap: without starts they would never be popped."""
        due = [account for account in self._accounts.values() if account.due < math.inf]
        self._due = [(account.due, account.peers) for account in due]
        heapq.heapify(self._due)
