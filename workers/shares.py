"""Guaranteed shares: which queue is owed the next start, whatever waits elsewhere.

Each start credits every queue that may have work with that queue's share; a queue whose credit has
reached 1 is owed a start, which takes 1 off. Starts by strict priority take off what there is, and
never lead to debt: that a queue got more than its share before costs it nothing later. So of any
N starts in a row during which a queue has work that could start, it gets at least its share of N
less two or three, and whatever is left goes by strict priority.

What is guaranteed is a part of the *starts*, until a queue holds its share of the *slots*, rounded
up, and one more, since one is always about to end: a twentieth of all starts would fill every slot
if these jobs took an hour and the others a second. A queue without work, or without work that may
start, hoards at most one start.

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from jobs.topology import QueueSpec

MOST_SHARED = 0.95
"""What all shares together may come to, so that something is left to strict priority."""


@dataclass(slots=True)
class _Account:
    name: str
    share: float
    credit: float = 0.0
    busy: int = 0
    """Slots that its jobs hold."""
    most: float = math.inf
    """Slots that it may hold and still be owed starts."""
    idle: bool = False
    """A receive waits at its queue, so there is nothing."""

    @property
    def is_owed(self) -> bool:
        return self.credit >= 1 and self.busy < self.most


class Shares:
    """The credit of each queue that has a share.

    Every queue has an account of its own: the shares of one priority in several groups add up.
    Where all of them come to more than `MOST_SHARED`, they are scaled down to it in proportion.

    Args:
        queues: those that this worker works on.
        slots: jobs that it runs at once; without it no share is bounded by slots.
    """

    def __init__(self, queues: Iterable[QueueSpec], *, slots: int | None = None) -> None:
        shares = {spec.name: spec.lane.share for spec in queues}
        scale = min(1.0, MOST_SHARED / (sum(shares.values()) or 1.0))
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
        """The part of all starts that a queue is guaranteed, by its physical name."""
        account = self._accounts.get(name)
        return account.share if account is not None else 0.0

    def started(self, name: str) -> None:
        """A job of that queue has taken a slot."""
        for account in self._accounts.values():
            if not account.idle:
                account.credit += account.share
        if (own := self._accounts.get(name)) is not None:
            own.credit = max(0.0, own.credit - 1)
            own.busy += 1

    def finished(self, name: str) -> None:
        """Its slot has come free."""
        if (own := self._accounts.get(name)) is not None:
            own.busy -= 1

    def owed(self) -> Iterator[str]:
        """The queues that are owed a start, the one with the most credit first."""
        owed = [account for account in self._accounts.values() if account.credit >= 1]
        if len(owed) > 1:
            owed.sort(key=attrgetter("credit"), reverse=True)
        for account in owed:
            if account.is_owed:
                yield account.name
            else:
                account.credit = 1.0

    def is_owed(self, name: str) -> bool:
        """Whether that queue is owed a start."""
        account = self._accounts.get(name)
        return account is not None and account.is_owed

    def passed_over(self, name: str) -> None:
        """It was owed a start and had nothing that could: it does not hoard more than one."""
        self._accounts[name].credit = 1.0

    def turns(self, name: str, starts: float) -> float:
        """How many of the next starts that queue is owed, in whole and in part."""
        if (account := self._accounts.get(name)) is None:
            return 0.0
        owed = account.credit + max(0.0, starts) * account.share
        return min(owed, max(0, account.most - account.busy))

    def is_dry(self, name: str) -> None:
        """That queue is known to be empty: it is owed nothing until it may have work again."""
        if (account := self._accounts.get(name)) is not None:
            account.idle, account.credit = True, 0.0

    def may_have_work(self, name: str) -> None:
        """That queue may have work again, for all that is known."""
        if (account := self._accounts.get(name)) is not None:
            account.idle = False
