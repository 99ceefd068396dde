"""DynamoDB in memory, as far as `jobs.core.ports.table` needs it, on a test's own clock."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import replace

from headgate.jobs.aws.dynamo.attributes import (
    Attributes,
    check_keys,
    decode,
    encode_all,
    encode_next,
    lives,
    size_of,
)
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports.table import Item, Key, Page, Table
from headgate.jobs.errors import ItemUnreadable, TableMissing
from headgate.jobs.testing.memory.table_faults import TableAction, TableFaults, Unprocessed

_PAGE_BYTES = 2**20
"""The most that one request reads.
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Query.html"""


class MemoryTable:
    """A table in memory: an `AsyncTable` with DynamoDB's limits, in any number of loops, and by
    ``sync`` a synchronous one.

    Items that have expired by ``clock`` are gone. ``faults`` makes calls fail or slow, and leaves
    items unprocessed; while ``missing`` is true there is no such table; ``calls`` lists the calls.

    >>> table = MemoryTable(SystemClock())
    >>> await table.put([Item(pk="job#1", sk="done")])
    []
    """

    def __init__(self, clock: Clock, *, name: str = "table") -> None:
        self.name = name
        self.faults = TableFaults()
        self.missing = False
        self.calls: list[TableAction] = []
        self._store = _Store(clock)

    async def put(self, items: Sequence[Item]) -> list[Item]:
        """Write up to 25 items; return those that a fault left out."""
        if not items:
            return []
        encoded = encode_all(items)
        async with self._call("put") as fault:
            return self._store.put(items, encoded, fault)

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """Return the live items of a partition, in order."""
        async with self._call("query"):
            return self._store.query(pk, prefix)

    async def page(self, pk: str, *, after: str = "", limit: int = 1_000) -> Page:
        """Return the next items of a partition, up to a number or a MiB."""
        async with self._call("page"):
            return self._store.page(pk, after, limit)

    async def get(self, pk: str, sk: str) -> Item | None:
        """Return an item if it is live, or None."""
        async with self._call("get"):
            return self._store.get(pk, sk)

    async def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        """Return the last items of a list, the last one first."""
        async with self._call("lines"):
            return self._store.lines(name, after, before)[:limit]

    async def scan(self, path: Sequence[str], value: str, *, after: str = "") -> Page:
        """Return those of the next MiB's items whose data has a text at a path."""
        async with self._call("scan"):
            return self._store.scan(path, value, after)

    async def delete(self, keys: Sequence[Key]) -> list[Key]:
        """Delete up to 25 items."""
        if not keys:
            return []
        check_keys(keys)
        async with self._call("delete"):
            self._store.delete(keys)
            return []

    async def replace(self, item: Item) -> Item | None:
        """Write an item if it is the next version; otherwise return the one in the table."""
        encoded = encode_next(item)
        async with self._call("replace"):
            return self._store.replace(item, encoded)

    @property
    def sync(self) -> Table:
        """The same table for synchronous code, from any thread."""
        return _Table(self._store, self._call_now)

    @asynccontextmanager
    async def _call(self, action: TableAction) -> AsyncIterator[Unprocessed | None]:
        self.calls.append(action)
        # A call over a network always suspends; one that never did would hide races from tests.
        await asyncio.sleep(0)
        self._check_there()
        async with self.faults.async_around(action) as fault:
            yield fault

    @contextmanager
    def _call_now(self, action: TableAction) -> Iterator[Unprocessed | None]:
        self.calls.append(action)
        self._check_there()
        with self.faults.around(action) as fault:
            yield fault

    def _check_there(self) -> None:
        if self.missing:
            raise TableMissing(self.name)


class _Table:
    """`MemoryTable` as a `jobs.core.ports.table.Table`."""

    def __init__(
        self,
        store: _Store,
        call: Callable[[TableAction], AbstractContextManager[Unprocessed | None]],
    ) -> None:
        self._store = store
        self._call = call

    def put(self, items: Sequence[Item]) -> list[Item]:
        if not items:
            return []
        encoded = encode_all(items)
        with self._call("put") as fault:
            return self._store.put(items, encoded, fault)

    def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        with self._call("query"):
            return self._store.query(pk, prefix)

    def page(self, pk: str, *, after: str = "", limit: int = 1_000) -> Page:
        with self._call("page"):
            return self._store.page(pk, after, limit)

    def get(self, pk: str, sk: str) -> Item | None:
        with self._call("get"):
            return self._store.get(pk, sk)

    def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        with self._call("lines"):
            return self._store.lines(name, after, before)[:limit]

    def scan(self, path: Sequence[str], value: str, *, after: str = "") -> Page:
        with self._call("scan"):
            return self._store.scan(path, value, after)

    def delete(self, keys: Sequence[Key]) -> list[Key]:
        if not keys:
            return []
        check_keys(keys)
        with self._call("delete"):
            self._store.delete(keys)
            return []

    def replace(self, item: Item) -> Item | None:
        encoded = encode_next(item)
        with self._call("replace"):
            return self._store.replace(item, encoded)


class _Store:
    """The content of the table; safe to share between threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Encoded as in DynamoDB, so that no two callers ever share a value that one may change.
        self._partitions: defaultdict[str, dict[str, Attributes]] = defaultdict(dict)

    def places(self) -> list[Key]:
        """Return the keys of all items, expired ones too."""
        with self._lock:
            return [(pk, sk) for pk, items in self._partitions.items() for sk in items]

    def put(
        self, items: Sequence[Item], encoded: Sequence[Attributes], fault: Unprocessed | None
    ) -> list[Item]:
        left = fault.among(items) if fault else []
        with self._lock:
            for item, attributes in zip(items, encoded, strict=True):
                if item not in left:
                    self._partitions[item.pk][item.sk] = attributes
        return left

    def query(self, pk: str, prefix: str) -> list[Item]:
        with self._lock:
            places = self._places(pk, prefix)
            return [*self._legible(pk, places)]

    def page(self, pk: str, after: str, limit: int) -> Page:
        with self._lock:
            places = [sk for sk in self._places(pk) if sk.encode() > after.encode()]
            room = _PAGE_BYTES
            for count, sk in enumerate(places):
                room -= size_of(self._partitions[pk][sk])
                if count == limit or room < 0:
                    return Page(items=[*self._legible(pk, places[:count])], after=places[count - 1])
            return Page(items=[*self._legible(pk, places)])

    def get(self, pk: str, sk: str) -> Item | None:
        with self._lock:
            return self._standing(pk, sk)

    def lines(self, name: str, after: str, before: str) -> list[Item]:
        wanted = {"S": name}
        with self._lock:
            standing = [
                item
                for pk, items in self._partitions.items()
                for item in self._legible(
                    pk, [sk for sk, stored in items.items() if stored.get("list") == wanted]
                )
            ]
        between = [
            (item.line.place, item)
            for item in standing
            if item.line and item.line.place > after and (not before or item.line.place < before)
        ]
        between.sort(key=lambda pair: (pair[0], pair[1].pk, pair[1].sk), reverse=True)
        return [replace(item, data={}, version=0) for _, item in between]

    def scan(self, path: Sequence[str], value: str, after: str) -> Page:
        found, room, last = list[Item](), _PAGE_BYTES, after
        places = {json.dumps(key): key for key in self.places()}
        with self._lock:
            for place in sorted(each for each in places if each > after):
                pk, sk = places[place]
                room -= size_of(self._partitions[pk].get(sk, {}))
                if room < 0:
                    return Page(items=found, after=last)
                found += (each for each in self._legible(pk, [sk]) if _at(each, path) == value)
                last = place
        return Page(items=found)

    def delete(self, keys: Sequence[Key]) -> None:
        with self._lock:
            for pk, sk in keys:
                self._partitions[pk].pop(sk, None)

    def replace(self, item: Item, encoded: Attributes) -> Item | None:
        with self._lock:
            standing = self._standing(item.pk, item.sk)
            if not _is_next(item, standing):
                return standing or Item(pk=item.pk, sk=item.sk)
            self._partitions[item.pk][item.sk] = encoded
            return None

    def _places(self, pk: str, prefix: str = "") -> list[str]:
        found = (sk for sk in self._partitions.get(pk, ()) if sk.startswith(prefix))
        return sorted(found, key=str.encode)

    def _legible(self, pk: str, places: Iterable[str]) -> Iterator[Item]:
        """Yield the live items at some places, without those that can't be read."""
        for sk in places:
            with suppress(ItemUnreadable):
                if (item := self._standing(pk, sk)) is not None:
                    yield item

    def _standing(self, pk: str, sk: str) -> Item | None:
        attributes = self._partitions.get(pk, {}).get(sk)
        item = decode(attributes) if attributes else None
        return item if item and lives(item, self._clock.now()) else None


def _at(item: Item, path: Sequence[str]) -> object:
    """Return what an item's data has at a path; None if it has nothing there."""
    value: object = item.data
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _is_next(item: Item, standing: Item | None) -> bool:
    if standing is None or item.version == 1:  # nothing is created over an item, put or replaced
        return standing is None and item.version == 1
    return standing.version == item.version - 1
