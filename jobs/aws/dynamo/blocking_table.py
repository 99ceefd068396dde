"""`jobs.core.ports.BlockingTable` on DynamoDB."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from headgate.jobs.aws.connection import Connection, blocking_client
from headgate.jobs.aws.dynamo import wire
from headgate.jobs.aws.faults import naming
from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.ports import Item, Key


class SyncDynamoTable:
    """One DynamoDB table for plain code, on boto3. Safe to share by threads.

    ::

        with SyncDynamoTable(app.topology.table_name) as table:
            table.put([Item(pk="job#1", sk="done")])

    It opens with its first call, so a process may still fork after making one. In all else it is
    as `jobs.aws.dynamo.table.DynamoTable`, and so are its arguments.
    """

    def __init__(
        self,
        name: str,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        max_pool_connections: int = 20,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self._connection = Connection(
            endpoint_url=endpoint_url,
            region=region,
            connect_timeout_s=wire.CONNECT_TIMEOUT_S,
            read_timeout_s=wire.READ_TIMEOUT_S,
            attempts=wire.ATTEMPTS,
            pool=max_pool_connections,
        )
        self._clock = clock or SystemClock()
        self._opening = threading.Lock()
        self._client: Any = None  # boto3 makes its classes when it runs

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
        """BatchWriteItem: up to 25 items; those that DynamoDB left unprocessed are returned."""
        if not items:
            return []
        request = wire.put_request(self.name, items)
        client = self._opened()
        with naming("dynamodb:BatchWriteItem", self.name):
            answer = client.batch_write_item(**request)
            return wire.unprocessed(self.name, items, answer)

    def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        """Query, strongly consistent; a request for every MiB that it reads."""
        request = wire.query_request(self.name, pk, prefix)
        now, found = self._clock.now(), list[Item]()
        client = self._opened()
        with naming("dynamodb:Query", self.name):
            while True:
                page = client.query(**request)
                found += wire.read_items(page, now)
                if not wire.turn_page(request, page):
                    return found

    def get(self, pk: str, sk: str) -> Item | None:
        """GetItem, strongly consistent."""
        client = self._opened()
        with naming("dynamodb:GetItem", self.name):
            answer = client.get_item(**wire.get_request(self.name, pk, sk))
            return wire.read_item(answer.get("Item"), self._clock.now())

    def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        """Query on the index; see `jobs.aws.dynamo.table.DynamoTable.lines`."""
        request = wire.lines_request(self.name, name, after, before)
        now, found = self._clock.now(), list[Item]()
        client = self._opened()
        with naming("dynamodb:Query", self.name):
            while True:
                page = client.query(**request, Limit=limit - len(found) + 2)
                found += wire.read_lines(page, now, after, before)
                if len(found) >= limit or not wire.turn_page(request, page):
                    return found[:limit]

    def delete(self, keys: Sequence[Key]) -> list[Key]:
        """BatchWriteItem: up to 25; those that DynamoDB left unprocessed are returned."""
        if not keys:
            return []
        request = wire.delete_request(self.name, keys)
        client = self._opened()
        with naming("dynamodb:BatchWriteItem", self.name):
            answer = client.batch_write_item(**request)
            return wire.undeleted(self.name, answer)

    def replace(self, item: Item) -> Item | None:
        """PutItem on a condition; see `jobs.aws.dynamo.table.DynamoTable.replace`."""
        now = self._clock.now()
        written = wire.written_once(item)
        client = self._opened()
        with naming("dynamodb:PutItem", self.name):
            try:
                client.put_item(**wire.replace_request(self.name, written, item.version, now))
            except client.exceptions.ConditionalCheckFailedException as refusal:
                found = refusal.response.get("Item", {})
            else:
                return None
            return wire.read_refusal(item, written, found, now)

    def _opened(self) -> Any:
        with self._opening:
            if self._client is None:
                self._client = blocking_client("dynamodb", self._connection)
            return self._client
