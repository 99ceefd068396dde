"""The app's own table, opened by the first call that needs it.

So a client that only submits needs no permission besides ``sqs:SendMessage``, and opens no
connection that it doesn't use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from headgate.jobs.core.ports import Item, Key, Table
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import ConfigurationError

if TYPE_CHECKING:
    from headgate.jobs.aws.dynamo.table import AsyncDynamoTable


class OwnTable:
    """A `jobs.core.ports.Table` over one that a function opens on first use."""

    def __init__(self, opened: Callable[[], Awaitable[Table]]) -> None:
        self._opened = opened

    async def put(self, items: Sequence[Item]) -> list[Item]:
        """`Table.put`."""
        return await (await self._opened()).put(items)

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """`Table.query`."""
        return await (await self._opened()).query(pk, prefix=prefix)

    async def get(self, pk: str, sk: str) -> Item | None:
        """`Table.get`."""
        return await (await self._opened()).get(pk, sk)

    async def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        """`Table.lines`."""
        table = await self._opened()
        return await table.lines(name, after=after, before=before, limit=limit)

    async def delete(self, keys: Sequence[Key]) -> list[Key]:
        """`Table.delete`."""
        return await (await self._opened()).delete(keys)

    async def replace(self, item: Item) -> Item | None:
        """`Table.replace`."""
        return await (await self._opened()).replace(item)


class AsyncOwnTable(OwnTable):
    """A `jobs.core.ports.Table` on aiobotocore, with the standard AWS settings."""

    def __init__(self, app: App) -> None:
        super().__init__(self._open)
        self._app = app
        self._table: AsyncDynamoTable | None = None
        self._closed = False

    async def close(self) -> None:
        """Close the table for good, if it was opened. Idempotent."""
        self._closed = True
        if self._table is not None:
            await self._table.stop()

    async def _open(self) -> AsyncDynamoTable:
        if self._closed:
            raise ConfigurationError(
                "the client that this job was asked of is closed: ask within its `async with`"
            )
        if self._table is None:
            from headgate.jobs.aws.dynamo.table import AsyncDynamoTable

            self._table = AsyncDynamoTable(self._app.topology.table_name)
        await self._table.start()  # idempotent; waits for a call that is opening it
        return self._table
