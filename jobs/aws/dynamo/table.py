"""`jobs.core.ports.AsyncTable` and `Table` on DynamoDB; the calls of both are written once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headgate.jobs.aws.connections.connection import (
    Connection,
    ImmediateClient,
    async_aws_client,
    aws_client,
)
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.aws.dynamo import wire
from headgate.jobs.aws.dynamo.attributes import Attributes
from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports import Item, Key
from headgate.jobs.errors import ConfigurationError

if TYPE_CHECKING:
    from aiobotocore.session import AioSession
    from boto3.session import Session
    from botocore.config import Config


class _Calls:
    """The calls of a table, through a client whose calls are awaited."""

    def __init__(
        self, name: str, client: Callable[[], Awaitable[Any]], clock: Clock | None
    ) -> None:
        self.name = name
        self._client = client
        self._clock = clock or SystemClock()

    async def put(self, items: Sequence[Item]) -> list[Item]:
        """Put up to 25 items (BatchWriteItem); return those that DynamoDB left unprocessed.

        Raises:
            TransportError: also when an item is too large or can't be stored; the message says
                which, and nothing was written.
        """
        if not items:
            return []
        request = wire.put_request(self.name, items)
        client = await self._client()
        with naming("dynamodb:BatchWriteItem", self.name):
            answer = await client.batch_write_item(**request)
            return wire.unprocessed(self.name, items, answer)

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """Query a partition, strongly consistent, with a request for every MiB that it reads."""
        request = wire.query_request(self.name, pk, prefix)
        now, found = self._clock.now(), list[Item]()
        client = await self._client()
        with naming("dynamodb:Query", self.name):
            while True:
                page = await client.query(**request)
                found += wire.read_items(page, now)
                if not wire.turn_page(request, page):
                    return found

    async def get(self, pk: str, sk: str) -> Item | None:
        """Return an item or None (GetItem, strongly consistent)."""
        client = await self._client()
        with naming("dynamodb:GetItem", self.name):
            answer = await client.get_item(**wire.get_request(self.name, pk, sk))
            return wire.read_item(answer.get("Item"), self._clock.now())

    async def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        """Query the index, with a request for every MiB that it reads."""
        request = wire.lines_request(self.name, name, after, before)
        now, found = self._clock.now(), list[Item]()
        client = await self._client()
        with naming("dynamodb:Query", self.name):
            while True:
                # Two more than needed: the bounds themselves are left out.
                page = await client.query(**request, Limit=limit - len(found) + 2)
                found += wire.read_lines(page, now, after, before)
                if len(found) >= limit or not wire.turn_page(request, page):
                    return found[:limit]

    async def delete(self, keys: Sequence[Key]) -> list[Key]:
        """Delete up to 25 items (BatchWriteItem); return the keys left unprocessed."""
        if not keys:
            return []
        request = wire.delete_request(self.name, keys)
        client = await self._client()
        with naming("dynamodb:BatchWriteItem", self.name):
            answer = await client.batch_write_item(**request)
            return wire.undeleted(self.name, answer)

    async def replace(self, item: Item) -> Item | None:
        """Put an item if the table holds its previous version; a refusal costs no extra read.

        This is a conditional PutItem. A retry of a request whose answer was lost is recognized: the
        write carries a name of its own, so None still means that this call wrote the item.

        After a `TransportError` it is not known whether the item was written. Call again with the
        same item: if it had been, the call is refused with the item that it wrote itself. So let
        ``data`` name the writer, and take a returned item that names you, at this version, as
        written.

        Versions can't be compared across an expiry, after which they count from 1 again. The holder
        of an item must let go of it when it expires, and not replace it from then on.

        Raises:
            TransportError: also when the item is too large or can't be stored, or its version is 0.
        """
        now = self._clock.now()
        written = wire.written_once(item)
        client = await self._client()
        with naming("dynamodb:PutItem", self.name):
            try:
                await client.put_item(**wire.replace_request(self.name, written, item.version, now))
            except client.exceptions.ConditionalCheckFailedException as refusal:
                found: Attributes = refusal.response.get("Item", {})
            else:
                return None
            return wire.read_refusal(item, written, found, now)


class AsyncDynamoTable(_Calls):
    """One DynamoDB table for an event loop: `jobs.core.ports.AsyncTable`.

    ::

        async with AsyncDynamoTable(app.topology.table_name) as table:
            await table.put([Item(pk="job#1", sk="done")])

    It opens with its first call, so whoever has it and never asks pays nothing. It gives up early:
    1 s for a connection, 2 s for an answer, two tries per call. It calls only
    GetItem, Query, PutItem and BatchWriteItem.

    An item's ``expires_at`` is kept in whole seconds, rounded up; an item that has expired by
    ``clock`` is gone for every method, though DynamoDB may delete it days later.

    Args:
        name: The table's physical name.
        endpoint_url: None for the one in ``AWS_ENDPOINT_URL_DYNAMODB``, ``AWS_ENDPOINT_URL`` or the
            profile, else AWS's own.
        region: None for ``AWS_REGION``, ``AWS_DEFAULT_REGION`` or the profile's.
        max_pool_connections: Maximum number of requests under way; others wait for a connection.
        clock: Determines which items have expired.
        session: The user's own aiobotocore session; None makes one.
        config: The user's own botocore settings, which win over these.
    """

    def __init__(
        self,
        name: str,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        max_pool_connections: int = 20,
        clock: Clock | None = None,
        session: AioSession | None = None,
        config: Config | None = None,
    ) -> None:
        super().__init__(name, self._opened, clock)
        self._connection = replace(
            _connection(endpoint_url, region, max_pool_connections), session=session, config=config
        )
        self._lifecycle = asyncio.Lock()
        self._usable = False
        self._open: Any = None
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def start(self) -> None:
        """Let calls be made; the first opens the connections. Idempotent."""
        self._usable = True

    async def stop(self) -> None:
        """Close the connections. Idempotent, and safe before `start`."""
        async with self._lifecycle:
            self._usable, self._open = False, None
            await self._closing.aclose()

    async def _opened(self) -> Any:
        if self._open is None:
            async with self._lifecycle:
                await self._start_client()
        return self._open

    async def _start_client(self) -> None:
        if not self._usable:
            raise ConfigurationError(
                "the table is not open: make this call within the `async with` of its client"
            )
        if self._open is None:  # no other call has opened it meanwhile
            self._open = await self._closing.enter_async_context(
                async_aws_client("dynamodb", self._connection)
            )


class DynamoTable:
    """One DynamoDB table for synchronous code, on boto3. Safe to share between threads.

    ::

        with DynamoTable(app.topology.table_name) as table:
            table.put([Item(pk="job#1", sk="done")])

    It opens with its first call, so a process may still fork after making one. Otherwise it is like
    `AsyncDynamoTable`, and so are its arguments, with a session of boto3.
    """

    def __init__(
        self,
        name: str,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        max_pool_connections: int = 20,
        clock: Clock | None = None,
        session: Session | None = None,
        config: Config | None = None,
    ) -> None:
        self.name = name
        self._calls = _Calls(name, self._opened, clock)
        self._connection = replace(
            _connection(endpoint_url, region, max_pool_connections), session=session, config=config
        )
        self._opening = threading.Lock()
        self._client: ImmediateClient | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Idempotent; a later call opens them again."""
        with self._opening:
            if self._client is not None:
                client, self._client = self._client, None
                client.close()

    def put(self, items: Sequence[Item]) -> list[Item]:
        """Put up to 25 items (BatchWriteItem); return those that DynamoDB left unprocessed."""
        return drive(self._calls.put(items))

    def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """Query a partition, strongly consistent, with a request for every MiB that it reads."""
        return drive(self._calls.query(pk, prefix=prefix))

    def get(self, pk: str, sk: str) -> Item | None:
        """Return an item or None (GetItem, strongly consistent)."""
        return drive(self._calls.get(pk, sk))

    def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        """Query the index, with a request for every MiB that it reads."""
        return drive(self._calls.lines(name, after=after, before=before, limit=limit))

    def delete(self, keys: Sequence[Key]) -> list[Key]:
        """Delete up to 25 items (BatchWriteItem); return the keys left unprocessed."""
        return drive(self._calls.delete(keys))

    def replace(self, item: Item) -> Item | None:
        """Put an item if the table holds its previous version; see `AsyncDynamoTable.replace`."""
        return drive(self._calls.replace(item))

    async def _opened(self) -> ImmediateClient:
        with self._opening:
            if self._client is None:
                self._client = ImmediateClient(aws_client("dynamodb", self._connection))
            return self._client


def _connection(endpoint_url: str | None, region: str | None, pool: int) -> Connection:
    return Connection(
        endpoint_url=endpoint_url,
        region=region,
        connect_timeout_s=wire.CONNECT_TIMEOUT_S,
        read_timeout_s=wire.READ_TIMEOUT_S,
        attempts=wire.ATTEMPTS,
        pool=pool,
    )
