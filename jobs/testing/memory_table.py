"""DynamoDB in memory, as far as `jobs.ports.Table` needs it, on a clock that the test owns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from jobs.aws.attributes import Attributes, decode, encode_all, encode_next, lives
from jobs.clock import Clock
from jobs.errors import TableMissing
from jobs.ports import Item
from jobs.testing.table_faults import TableAction, TableFaults, Unprocessed


class MemoryTable:
    """A table in memory: a `jobs.ports.Table` with DynamoDB's limits, in any number of loops.

    What has expired by ``clock`` is gone. ``faults`` makes calls fail or slow, and leaves items
    unprocessed; while ``missing`` is true there is no such table; ``calls`` lists what was called.

    >>> table = MemoryTable(SystemClock())
    >>> await table.put([Item(pk="job#1", sk="done")])
    []
    """

    def __init__(self, clock: Clock, *, name: str = "table") -> None:
        self.name = name
        self.faults = TableFaults()
        self.missing = False
        self.calls: list[TableAction] = []
        self._clock = clock
        # As DynamoDB would hold them: so no two callers ever share a value that one may change.
        self._items: dict[tuple[str, str], Attributes] = {}

    async def put(self, items: Sequence[Item]) -> list[Item]:
        """Write up to 25 items; those that a fault left out are returned."""
        if not items:
            return []
        encoded = encode_all(items)
        async with self._call("put") as fault:
            left = fault.among(items) if fault else []
            for item, attributes in zip(items, encoded, strict=True):
                if item not in left:
                    self._items[item.pk, item.sk] = attributes
            return left

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """The items of a partition that live, in order."""
        async with self._call("query"):
            places = sorted(sk for of, sk in self._items if of == pk and sk.startswith(prefix))
            found = [self._standing(pk, sk) for sk in places]
            return [item for item in found if item is not None]

    async def get(self, pk: str, sk: str) -> Item | None:
        """One item, if it lives."""
        async with self._call("get"):
            return self._standing(pk, sk)

    async def replace(self, item: Item) -> Item | None:
        """Write one if it is next; else what stands there."""
        encoded = encode_next(item)
        async with self._call("replace"):
            standing = self._standing(item.pk, item.sk)
            if not _is_next(item, standing):
                return standing or Item(pk=item.pk, sk=item.sk)
            self._items[item.pk, item.sk] = encoded
            return None

    def _standing(self, pk: str, sk: str) -> Item | None:
        attributes = self._items.get((pk, sk))
        item = decode(attributes) if attributes else None
        return item if item and lives(item, self._clock.now()) else None

    @asynccontextmanager
    async def _call(self, action: TableAction) -> AsyncIterator[Unprocessed | None]:
        self.calls.append(action)
        # A call over a network always suspends; one that never did would hide races from tests.
        await asyncio.sleep(0)
        if self.missing:
            raise TableMissing(self.name)
        async with self.faults.around(action) as fault:
            yield fault


def _is_next(item: Item, standing: Item | None) -> bool:
    if standing is None or item.version == 1:  # nothing is created over an item, put or replaced
        return standing is None and item.version == 1
    return standing.version == item.version - 1
