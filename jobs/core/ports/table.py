"""The table of an app: items, their lists, and the ports that read and write them.

`jobs.aws.dynamo.table` implements it on DynamoDB, `jobs.testing.memory.table` in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Protocol

from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ListLine:
    """An item's entry in one of the table's lists, a sparse index without most of the items."""

    list: str
    """The name of the list; not empty."""
    place: str
    """Its sort key in the list; not empty. Starts with a time, as lists are read from the end."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """The item's fields that the list includes, as JSON values; others require reading the item."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of the table."""

    pk: str
    """The partition key; not empty."""
    sk: str
    """The sort key; not empty. Items of a partition are read in this order."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """JSON values: strings, numbers, booleans, None, lists and maps of them."""
    version: int = 0
    """The version of an item written by `AsyncTable.replace`, from 1; 0 for one that was put."""
    expires_at: datetime | None = None
    """The time from which the table may delete the item; aware. Reads leave out expired items."""
    line: ListLine | None = None


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of what was asked for; ``after`` is where the next begins, empty at the end."""

    items: Sequence[Item]
    after: str = ""


Key = tuple[str, str]
"""An item's ``pk`` and ``sk``."""


MAX_PUT = 25
"""Maximum number of items that are written or deleted in one request.
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html"""


class AsyncTable(Protocol):
    """One DynamoDB table, keyed by ``pk`` and ``sk``. Any method may raise a `TransportError`."""

    async def put(self, items: Sequence[Item]) -> list[Item]:
        """Write up to 25 items with distinct keys, replacing any that exist.

        Returns those that were not written; the caller tries them again.
        """

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """Return a partition's items whose ``sk`` has the prefix, in order, strongly consistent."""

    async def page(self, pk: str, *, after: str = "", limit: int = 1_000) -> Page:
        """As `query`, but at most ``limit`` items and a MiB, from ``after`` an earlier page on."""

    async def get(self, pk: str, sk: str) -> Item | None:
        """Return one item, strongly consistent; None if there is none."""

    async def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        """Return a list's items from the end, last one first; eventually consistent.

        Args:
            name: the name of the list.
            after, before: only lines whose place lies between these; empty is no bound.
            limit: the maximum number of items, up to 1,000.

        Returns:
            items with their key and line, and without their data.
        """

    async def scan(self, path: Sequence[str], value: str, *, after: str = "") -> Page:
        """Return those items of the table's next MiB whose data has a text at a path, in any order.

        Costs the whole MiB, whatever is found; for what no key and no list finds.
        """

    async def delete(self, keys: Sequence[Key]) -> list[Key]:
        """Delete up to 25 items, existing or not, and return the keys still to delete."""

    async def replace(self, item: Item) -> Item | None:
        """Write an item if the stored one is of the version just before its own.

        ``version`` 1 thus creates an item, and is refused if one exists that has not expired.

        Returns:
            None if it was written, else the stored item. An item of version 0 without data means
            that none is stored.
        """


class Table(Protocol):
    """`AsyncTable` for synchronous code: the same calls and guarantees, from any thread."""

    def put(self, items: Sequence[Item]) -> list[Item]: ...

    def query(self, pk: str, *, prefix: str = "") -> list[Item]: ...

    def page(self, pk: str, *, after: str = "", limit: int = 1_000) -> Page: ...

    def get(self, pk: str, sk: str) -> Item | None: ...

    def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]: ...

    def scan(self, path: Sequence[str], value: str, *, after: str = "") -> Page: ...

    def delete(self, keys: Sequence[Key]) -> list[Key]: ...

    def replace(self, item: Item) -> Item | None: ...
