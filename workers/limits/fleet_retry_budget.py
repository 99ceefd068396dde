"""A retry budget of the fleet: windows of the wall clock, whose places are counted in the table.

    pk  limit#NAME   sk  windows#BLOCK   data  {"taken": {WINDOW: COUNT}}

A worker counts a retry there before it schedules it, on the condition that no other worker has
counted one meanwhile. So a window never exceeds its places, whichever workers start, stop, die or
stall; a place that was taken is never given back. All retries that a worker has to place while a
request is under way share the next request. No requests are made while nothing fails.

While the table can't be reached retries wait, up to `PATIENCE_S` after the first failed request.
After that each worker enforces the limit alone, and counts the retries that it scheduled so with
the first request that succeeds.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.naming import LIMIT
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.settling.settlement import BudgetAnswer, Exhausted
from headgate.jobs.values.stored import mapping, whole
from headgate.workers.limits.retry_budget import Book

PATIENCE_S = 10.0
"""Time for which retries wait for a table that doesn't answer."""

_WINDOW = re.compile(r"[0-9]{1,15}")

_MOST_TAKEN = 10**9

_BLOCK = 64
"""Number of windows counted in one item: few enough for one write unit of DynamoDB."""

_TRY_S, _HURRIED_S = 1.0, 0.3
"""Timeout of one request, and of one while the worker stops."""

_PAUSE_S = 0.02
"""Base of the pause before a third try; it doubles each time, up to `_LONGEST_PAUSE_S`."""

_LONGEST_PAUSE_S = 1.0

_AWAY_S = 5.0
"""Seconds between requests to a table that is unreachable."""

_LATELY_S = 60.0
"""Time for which a failed request shows that the table is away, if no retry makes another."""

_FORGOTTEN = timedelta(hours=1)
"""Time after its last window at which an item expires."""


@dataclass(slots=True, eq=False)
class _Wish:
    """A retry that wants a place."""

    due: float
    until: float
    """Latest time for it; if equal to its due time, the retry can't be put off."""
    answer: BudgetAnswer | None = None


class FleetBudget:
    """A `workers.limits.retry_budget.Budget` of all workers together.

    Args:
        table: the table in which places are counted.
        name: the limit's name.
        limit: the number of places in one window.
        per_s: the length of a window.
        clock: tells the time.
        rng: adds jitter to postponed retries, and to the pauses between tries.
        tell: called with the reason why places can't be counted, once per outage of the table.
    """

    def __init__(
        self,
        table: AsyncTable,
        name: str,
        limit: int,
        per_s: float,
        *,
        clock: Clock,
        rng: random.Random,
        tell: Callable[[str], None],
    ) -> None:
        self._table = table
        self._name = name
        self._per_s = per_s
        self._clock = clock
        self._rng = rng
        self._tell = tell
        self._book = Book(limit, per_s, rng=rng)
        self._known: dict[int, Item] = {}
        """By block, the item as last known."""
        self._uncounted: Counter[int] = Counter()
        """By window, the retries that this worker has scheduled without the table."""
        self._wishes: dict[_Wish, None] = {}
        self._serving = asyncio.Lock()
        self._hurried = asyncio.Event()
        self._away_since: float | None = None
        self._failed_at = float("-inf")
        """Time of the last failed request."""
        self._error = ""
        """Its error."""
        self._ask_at = float("-inf")
        """While the table is unreachable, the time of the next request."""
        self._tries = 0

    async def take(self, delay_s: int, *, longest_s: float) -> BudgetAnswer:
        """Wait for a place; see `workers.limits.retry_budget.Budget.take`."""
        now = self._now()
        wish = _Wish(now + delay_s, now + max(delay_s, longest_s))
        self._wishes[wish] = None
        try:
            async with self._serving:  # the first caller asks for all
                while wish.answer is None:
                    await self._serve()
        finally:
            self._wishes.pop(wish, None)
        return wish.answer

    def left(self) -> int:
        """Return the places left in the present window, as far as this worker knows."""
        return self._book.left(self._now())

    @property
    def fault(self) -> str:
        """See `workers.limits.retry_budget.Budget.fault`."""
        is_away = self._away_since is not None
        is_late = self._clock.monotonic() - self._failed_at > _LATELY_S
        return self._error if is_away and not is_late else ""

    def hurry(self) -> None:
        """Wait only briefly for the table from now on."""
        self._hurried.set()

    async def _serve(self) -> None:
        """Settle as many wishes as one request can."""
        self._forget()
        chosen = self._choose()
        if not chosen:
            return
        if self._away_since is not None and self._clock.monotonic() < self._ask_at:
            self._go_alone(chosen)
            return
        block = next(iter(chosen.values())) // _BLOCK
        counted = {wish: window for wish, window in chosen.items() if window // _BLOCK == block}
        try:
            is_counted = await self._count(block, Counter(counted.values()))
        except (TransportError, TimeoutError) as error:
            await self._unanswered(error, chosen)
            return
        self._away_since = None
        if is_counted:
            self._tries = 0
            self._grant(counted)
        else:
            await self._pause()

    def _choose(self) -> dict[_Wish, int]:
        """Choose a window for each wish, as far as is known; give up those without one."""
        chosen: dict[_Wish, int] = {}
        mine: Counter[int] = Counter()
        soonest = self._now() + _TRY_S  # it must not be over when it is counted
        for wish in [*self._wishes]:
            first = self._book.window(max(wish.due, soonest))
            last = max(first, self._book.window(wish.until))
            window = self._book.first_with_room(first, last, mine)
            if window is None and wish.until <= wish.due:
                self._settle(wish, Exhausted())
                continue
            chosen[wish] = last if window is None else window
            mine[chosen[wish]] += 1
        return chosen

    async def _count(self, block: int, counts: Mapping[int, int]) -> bool:
        """Count places of a block's windows as taken; return False if another worker was first."""
        known = self._known.get(block) or Item(
            pk=f"{LIMIT}{self._name}", sk=f"windows#{block:012}", data={"taken": {}}
        )
        alone = {window: n for window, n in self._uncounted.items() if window // _BLOCK == block}
        taken = Counter(_taken(known))
        taken.update(counts)
        taken.update(alone)
        item = Item(
            pk=known.pk,
            sk=known.sk,
            data={"taken": {str(window): count for window, count in sorted(taken.items())}},
            version=known.version + 1,
            expires_at=self._end_of(block) + _FORGOTTEN,
        )
        async with asyncio.timeout(_HURRIED_S if self._hurried.is_set() else _TRY_S):
            standing = await self._table.replace(item)
        if standing is None:
            self._uncounted.subtract(alone)
            self._uncounted = +self._uncounted
        self._known[block] = known = standing or item
        self._book.learn(
            {window: count + self._uncounted[window] for window, count in _taken(known).items()}
        )
        return standing is None

    async def _unanswered(self, error: Exception, chosen: Mapping[_Wish, int]) -> None:
        now = self._failed_at = self._clock.monotonic()
        self._error = str(error) or "the table doesn't answer"
        if self._away_since is None:
            self._away_since = now
            self._ask_at = float("-inf")
            self._tell(self._error)
        if self._hurried.is_set() or now - self._away_since >= PATIENCE_S:
            self._ask_at = now + _AWAY_S
            self._go_alone(chosen)
        else:
            await self._pause()

    def _go_alone(self, chosen: Mapping[_Wish, int]) -> None:
        for window in chosen.values():
            self._uncounted[window] += 1
            self._book.add(window)
        self._grant(chosen)

    def _grant(self, chosen: Mapping[_Wish, int]) -> None:
        now = self._now()
        for wish, window in chosen.items():
            self._settle(wish, self._book.place(window, wish.due, now))

    def _settle(self, wish: _Wish, answer: BudgetAnswer) -> None:
        wish.answer = answer
        self._wishes.pop(wish, None)

    async def _pause(self) -> None:
        """Let other workers go first, except after the first failure, which shows their counts."""
        if self._tries:
            pause_s = min(_LONGEST_PAUSE_S, _PAUSE_S * 2 ** min(self._tries, 10))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rng.random() * pause_s):
                    await self._hurried.wait()
        self._tries += 1

    def _forget(self) -> None:
        now = self._now()
        self._book.forget(now)
        current = math.floor(now / self._per_s)
        for block in [block for block in self._known if (block + 1) * _BLOCK <= current]:
            del self._known[block]
        for window in [window for window in self._uncounted if window < current]:
            del self._uncounted[window]

    def _end_of(self, block: int) -> datetime:
        return datetime.fromtimestamp((block + 1) * _BLOCK * self._per_s, UTC)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _taken(item: Item) -> dict[int, int]:
    """Return the counts by window; entries that no worker can have written are left out."""
    found = mapping(item.data.get("taken")) or {}
    return {
        int(window): count
        for window, count in found.items()
        if _WINDOW.fullmatch(window) and whole(count, most=_MOST_TAKEN) is not None
    }
