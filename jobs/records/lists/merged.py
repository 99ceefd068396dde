"""Several lists of the table's index, read as one from their ends.

Each list is read a few entries at a time, as they are needed, so that the newest entries cost the
same however long the lists are.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence

from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.ports.table import AsyncTable, Item

_AT_ONCE = 16
"""Maximum number of lists that are read at the same time."""


class _Part:
    """One list, as far as it has been read; ordered by its next entry, the newest first, and at
    one place by its rank, the highest first."""

    def __init__(self, name: str, rank: int, before: str, chunk: int) -> None:
        self.name = name
        self.rank = rank
        self.before = before
        self.chunk = chunk
        self.items: deque[Item] = deque()
        self.ended = False

    @property
    def place(self) -> str:
        line = self.items[0].line
        return line.place if line is not None else ""

    def __lt__(self, other: _Part) -> bool:
        return (self.place, self.rank) > (other.place, other.rank)


class MergedLists:
    """The entries of several lists, the newest first; at one place that of the last list first.

    Args:
        table: holds the lists.
        names: the lists.
        concurrency: reads several of them at once.
        after, before: only entries whose places lie between these; empty is no bound.
        chunk: the number of entries that the first request reads of each list, up to 1,000.
        largest: the number that a request reads at most, since each reads twice as many of its list
            as the one before; None reads ``chunk`` each time.
    """

    def __init__(
        self,
        table: AsyncTable,
        names: Sequence[str],
        concurrency: Parallelism,
        *,
        after: str = "",
        before: str = "",
        chunk: int,
        largest: int | None = None,
    ) -> None:
        self._table = table
        self._concurrency = concurrency
        self._after = after
        self._largest = largest or chunk
        self._parts = [_Part(name, rank, before, chunk) for rank, name in enumerate(names)]
        self._heap: list[_Part] | None = None

    async def next(self) -> Item | None:
        """Return the next entry's item; None at the end.

        Raises:
            TransportError: the table could not be reached.
        """
        heap = await self._opened()
        if not heap:
            return None
        part = heap[0]
        item = part.items.popleft()
        if not part.items and not part.ended:
            await self._fill(part)
        if part.items:
            heapq.heapreplace(heap, part)
        else:
            heapq.heappop(heap)
        return item

    async def peek(self) -> str:
        """Return the place of the next entry; empty at the end. Raises as `next`."""
        heap = await self._opened()
        return heap[0].place if heap else ""

    async def _opened(self) -> list[_Part]:
        if self._heap is None:
            await self._concurrency.each(self._fill, self._parts, at_once=_AT_ONCE)
            self._heap = [part for part in self._parts if part.items]
            heapq.heapify(self._heap)
        return self._heap

    async def _fill(self, part: _Part) -> None:
        found = await self._table.lines(
            part.name, after=self._after, before=part.before, limit=part.chunk
        )
        listed = [item for item in found if item.line is not None]
        part.items.extend(listed)
        part.ended = len(found) < part.chunk
        part.chunk = min(2 * part.chunk, self._largest)
        if listed and (line := listed[-1].line) is not None:
            part.before = line.place
