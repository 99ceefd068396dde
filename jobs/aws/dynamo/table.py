"""The ports of `jobs.core.ports.table` on DynamoDB; the calls of both are written once."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Self, Unpack

from botocore.exceptions import ClientError

from headgate.jobs.aws.connections.clients import AnyClients, AsyncClients, Clients, OnDemand
from headgate.jobs.aws.connections.connection import Access, Connection
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.aws.dynamo import wire
from headgate.jobs.aws.lean.caller import Caller
from headgate.jobs.aws.lean.opening import open_caller
from headgate.jobs.aws.lean.services import DYNAMODB
from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.immediate import driven
from headgate.jobs.core.ports.table import Item, Key, Page


class _Calls(OnDemand[Caller]):
    """The calls of a table, through a caller of DynamoDB."""

    def __init__(
        self,
        name: str,
        clients: AnyClients,
        opening: Callable[[AsyncExitStack], Awaitable[Caller]],
        clock: Clock | None,
    ) -> None:
        super().__init__(clients, opening)
        self.name = name
        self._clock = clock or SystemClock()

    async def put(self, items: Sequence[Item]) -> list[Item]:
        """Put up to 25 items (BatchWriteItem); return those that DynamoDB left unprocessed.

        A single one goes out by PutItem: a role may be allowed that alone, since BatchWriteItem
        is the permission to delete as well.

        Raises:
            TransportError: also when an item is too large or can't be stored; the message says
                which, and nothing was written.
        """
        if not items:
            return []
        if len(items) == 1:
            return await self._put_one(items[0])
        request = wire.put_request(self.name, items)
        caller = await self.opened()
        with naming("dynamodb:BatchWriteItem", self.name):
            answer = await caller.call("BatchWriteItem", request)
            return wire.unprocessed(self.name, items, answer)

    async def _put_one(self, item: Item) -> list[Item]:
        request = wire.put_one_request(self.name, item)
        caller = await self.opened()
        with naming("dynamodb:PutItem", self.name):
            await caller.call("PutItem", request)
        return []

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """Query a partition, strongly consistent, with a request for every MiB that it reads."""
        request = wire.query_request(self.name, pk, prefix)
        now, found = self._clock.now(), list[Item]()
        caller = await self.opened()
        with naming("dynamodb:Query", self.name):
            while True:
                page = await caller.call("Query", request)
                found += wire.read_items(page, now)
                if not wire.turn_page(request, page):
                    return found

    async def page(self, pk: str, *, after: str = "", limit: int = 1_000) -> Page:
        """Query a partition, strongly consistent, with one request, which reads at most a MiB."""
        request = wire.page_request(self.name, pk, after, limit)
        caller = await self.opened()
        with naming("dynamodb:Query", self.name):
            return wire.read_page(await caller.call("Query", request), self._clock.now())

    async def get(self, pk: str, sk: str) -> Item | None:
        """Return an item or None (GetItem, strongly consistent)."""
        caller = await self.opened()
        with naming("dynamodb:GetItem", self.name):
            answer = await caller.call("GetItem", wire.get_request(self.name, pk, sk))
            return wire.read_item(answer.get("Item"), self._clock.now())

    async def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        """Query the index, with a request for every MiB that it reads."""
        request = wire.lines_request(self.name, name, after, before)
        now, found = self._clock.now(), list[Item]()
        caller = await self.opened()
        with naming("dynamodb:Query", self.name):
            while True:
                # Two more than needed: the bounds themselves are left out.
                page = await caller.call("Query", {**request, "Limit": limit - len(found) + 2})
                found += wire.read_lines(page, now, after, before)
                if len(found) >= limit or not wire.turn_page(request, page):
                    return found[:limit]

    async def scan(self, path: Sequence[str], value: str, *, after: str = "") -> Page:
        """Scan the table, strongly consistent, with one request, which reads at most a MiB."""
        request = wire.scan_request(self.name, path, value, after)
        caller = await self.opened()
        with naming("dynamodb:Scan", self.name):
            return wire.read_scanned(await caller.call("Scan", request), self._clock.now())

    async def delete(self, keys: Sequence[Key]) -> list[Key]:
        """Delete up to 25 items (BatchWriteItem); return the keys left unprocessed."""
        if not keys:
            return []
        request = wire.delete_request(self.name, keys)
        caller = await self.opened()
        with naming("dynamodb:BatchWriteItem", self.name):
            answer = await caller.call("BatchWriteItem", request)
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
        caller = await self.opened()
        with naming("dynamodb:PutItem", self.name):
            request = wire.replace_request(self.name, written, item.version, now)
            try:
                await caller.call("PutItem", request)
            except ClientError as refusal:
                answer: Any = refusal.response
                if answer["Error"]["Code"] != "ConditionalCheckFailedException":
                    raise
            else:
                return None
            return wire.read_refusal(item, written, answer.get("Item", {}), now)


class AsyncDynamoTable(_Calls):
    """One DynamoDB table for an event loop: `jobs.core.ports.table.AsyncTable`.

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
        clock: Determines which items have expired.
        lean: False for aiobotocore making every call; otherwise see `jobs.aws.lean`.
        access: As in `Connection`; the session is one of aiobotocore.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock | None = None,
        lean: bool = True,
        **access: Unpack[Access],
    ) -> None:
        connection = _connection(access)
        opening = partial(_open_async, connection, lean)
        super().__init__(name, AsyncClients(connection), opening, clock)


class DynamoTable:
    """One DynamoDB table for synchronous code: `jobs.core.ports.table.Table`.

    ::

        with DynamoTable(app.topology.table_name) as table:
            table.put([Item(pk="job#1", sk="done")])

    Safe to share between threads. It opens with its first call, and again with one after `close`.
    For forking it is like `jobs.aws.sqs.transport.SqsTransport`; otherwise like `AsyncDynamoTable`.

    Args:
        name: The table's physical name.
        clock: Determines which items have expired.
        lean: False for boto3 making every call; otherwise see `jobs.aws.lean`.
        access: As in `Connection`; the session is one of boto3.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock | None = None,
        lean: bool = True,
        **access: Unpack[Access],
    ) -> None:
        self.name = name
        connection = _connection(access)
        calls = _Calls(name, Clients(connection), partial(_open, connection, lean), clock)
        self.put, self.query, self.get = driven(calls.put), driven(calls.query), driven(calls.get)
        self.page, self.lines = driven(calls.page), driven(calls.lines)
        self.scan, self.delete = driven(calls.scan), driven(calls.delete)
        self.replace, self.close = driven(calls.replace), driven(calls.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


async def _open_async(connection: Connection, lean: bool, stack: AsyncExitStack) -> Caller:
    from headgate.jobs.aws.lean.async_opening import open_async_callers

    [caller] = await open_async_callers(
        DYNAMODB, connection, closing=stack, lean=lean, clock=SystemClock()
    )
    return caller


async def _open(connection: Connection, lean: bool, stack: AsyncExitStack) -> Caller:
    return open_caller(
        DYNAMODB, connection, stack, lean=lean, clock=SystemClock(), sleep=time.sleep
    )


def _connection(access: Access) -> Connection:
    return Connection(
        connect_timeout_s=wire.CONNECT_TIMEOUT_S,
        read_timeout_s=wire.READ_TIMEOUT_S,
        attempts=wire.ATTEMPTS,
        pool=20,
        **access,
    )
