"""A table in memory."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.clock import Clock
from jobs.errors import TableMissing
from jobs.ports import Item


class MemoryTable:
    """`jobs.ports.Table` in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._items: dict[tuple[str, str], Item] = {}
        self.missing = False
        self.calls: list[str] = []

    async def put(self, items: Sequence[Item]) -> list[Item]:
        """Write."""
        self._called("put")
        for item in items:
            self._items[item.pk, item.sk] = item
        return []

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """Read."""
        self._called("query")
        return [
            item
            for key, item in sorted(self._items.items())
            if key[0] == pk and key[1].startswith(prefix) and self._lives(item)
        ]

    async def get(self, pk: str, sk: str) -> Item | None:
        """Read one."""
        self._called("get")
        item = self._items.get((pk, sk))
        return item if item is not None and self._lives(item) else None

    async def replace(self, item: Item) -> Item | None:
        """Write one if it is next."""
        self._called("replace")
        found = self._items.get((item.pk, item.sk))
        standing = found if found is not None and self._lives(found) else None
        if (standing.version if standing else 0) != item.version - 1:
            return standing or Item(pk=item.pk, sk=item.sk)
        self._items[item.pk, item.sk] = item
        return None

    def _lives(self, item: Item) -> bool:
        return item.expires_at is None or item.expires_at > self._clock.now()

    def _called(self, action: str) -> None:
        self.calls.append(action)
        if self.missing:
            raise TableMissing("table")
