"""Guaranteed shares: the queue that is owed the next start, whatever waits elsewhere.

Each start credits every queue that may have work with that queue's share; a queue whose credit has
reached 1 is owed a start, which costs 1. Starts by strict priority use up the credit there is, and
never lead to debt: having received more than its share before costs a queue nothing later. So of
any N consecutive starts during which a queue has work that could start, it gets at least its share
of N less two or three, and the remaining starts go by strict priority.

The guarantee is a fraction of the *starts*, until a queue holds its share of the *slots*, rounded
up, plus one, since one is always about to end: a twentieth of all starts would fill every slot if
these jobs took an hour and the others a second. A queue without work, or without work that may
start, earns no more once it is owed one start.

A queue's credit is computed on demand, from the starts since the last computation, and the next
queue to be owed a start is known in advance. So a start costs the same however many queues exist.

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass

from headgate.jobs.core.topology import QueueSpec

MOST_SHARED = 0.95
"""Upper bound on the sum of all shares, so that strict priority keeps some starts."""

_MOST_ENTRIES = 8
"""Entries per queue in the heap of queues that will be owed a start, including stale ones."""


@dataclass(slots=True)
class _Account:
    name: str
    share: float
    credit: float = 0.0
    """Its credit after `at` starts."""
    at: int = 0
    busy: int = 0
    """Number of slots that its jobs hold."""
    most: float = math.inf
    """Number of slots from which on it is owed no more starts."""
    idle: bool = False
    """True while a receive waits at its queue, which is therefore empty."""
    has_work: bool = False
    """True while a message waits in this worker that may be able to start."""
    due: float = math.inf
    """Number of starts in all after which it is owed one; infinite while it could take none."""

    @property
    def is_able(self) -> bool:
        """True while slots and messages would let it take a start that it is owed."""
        return self.has_work and not self.idle and self.busy < self.most

    def credit_after(self, starts: int) -> float:
        """Return its credit after a total number of starts."""
        if self.idle:
            return 0.0
        credit = self.credit + self.share * (starts - self.at)
        return credit if self.is_able else max(self.credit, min(1.0, credit))


class Shares:
    """The credit of each queue that has a share.

    Every queue has an account of its own: the shares of one priority in several groups add up.
    If their sum exceeds `MOST_SHARED`, they are scaled down to it in proportion.

    Args:
        queues: the queues that this worker works on.
        slots: the number of jobs that it runs at once; None leaves shares unbounded by slots.
    """

    def __init__(self, queues: Iterable[QueueSpec], *, slots: int | None = None) -> None:
        shares = {spec.name: spec.lane.share for spec in queues}
        scale = min(1.0, MOST_SHARED / (sum(shares.values()) or 1.0))
        self._starts = 0
        """Number of starts so far, of all queues."""
        self._due: list[tuple[float, str]] = []
        """A heap of the queues that could take a start, by the time at which they are owed one.
        Stale entries are left until they are popped, or there are too many."""
        self._owed: dict[str, _Account] = {}
        """The queues that are owed a start, and could take it."""
        self._accounts = {
            name: _Account(
                name,
                share * scale,
                most=math.inf if slots is None else math.ceil(share * scale * slots) + 1,
            )
            for name, share in shares.items()
            if share > 0
        }

    def of(self, name: str) -> float:
        """Return the fraction of all starts guaranteed to a queue, by its physical name."""
        account = self._accounts.get(name)
        return account.share if account is not None else 0.0

    def started(self, name: str) -> None:
        """Note that a job of that queue has taken a slot."""
        own = self._accounts.get(name)
        credit = 0.0 if own is None else own.credit_after(self._starts)
        self._starts += 1
        if own is not None:
            own.busy += 1
            earned = 0.0 if own.idle else own.share
            self._set(own, max(0.0, credit + earned - 1))

    def finished(self, name: str) -> None:
        """Note that a job of that queue has freed its slot."""
        if (own := self._accounts.get(name)) is None:
            return
        credit = own.credit_after(self._starts)
        had_its_slots = own.busy >= own.most
        own.busy -= 1
        if had_its_slots:
            self._set(own, credit)

    def owed(self) -> list[str]:
        """Return the queues with work that are owed a start, highest credit first."""
        while self._due and self._due[0][0] <= self._starts:
            due, name = heapq.heappop(self._due)
            if self._accounts[name].due == due:
                self._owed[name] = self._accounts[name]
        if len(self._owed) < 2:
            return list(self._owed)
        return sorted(self._owed, key=self._credit, reverse=True)

    def passed_over(self, name: str) -> None:
        """Note that a queue was owed a start but had no startable message; cap its credit at 1."""
        self._set(self._accounts[name], 1.0)

    def turns(self, name: str, starts: float) -> float:
        """Return how many of the next ``starts`` that queue is owed, including a fraction."""
        if (account := self._accounts.get(name)) is None:
            return 0.0
        owed = account.credit_after(self._starts) + max(0.0, starts) * account.share
        return min(owed, max(0, account.most - account.busy))

    def has_work(self, name: str, *, has_work: bool) -> None:
        """Note whether messages of that queue wait here that may be able to start."""
        if (account := self._accounts.get(name)) is not None:
            credit = account.credit_after(self._starts)
            account.has_work = has_work
            self._set(account, credit)

    def is_dry(self, name: str) -> None:
        """Note that a queue is empty: it is owed nothing until it may have work again."""
        if (account := self._accounts.get(name)) is not None:
            account.idle = True
            self._set(account, 0.0)

    def may_have_work(self, name: str) -> None:
        """Note that a queue may have work again."""
        account = self._accounts.get(name)
        if account is not None and account.idle:
            account.idle = False
            self._set(account, 0.0)

    def _credit(self, name: str) -> float:
        return self._accounts[name].credit_after(self._starts)

    def _set(self, account: _Account, credit: float) -> None:
        """Set a queue's credit, and compute when it will be owed a start."""
        account.credit, account.at, account.due = credit, self._starts, math.inf
        self._owed.pop(account.name, None)
        if account.is_able:
            account.due = self._starts + max(0.0, 1 - credit) / account.share
            heapq.heappush(self._due, (account.due, account.name))
            if len(self._due) > _MOST_ENTRIES * len(self._accounts):
                self._drop_stale()

    def _drop_stale(self) -> None:
        """Drop stale entries from the heap: without starts they would never be popped."""
        able = [account for account in self._accounts.values() if account.is_able]
        self._due = [(account.due, account.name) for account in able]
        heapq.heapify(self._due)
