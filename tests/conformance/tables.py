"""The tables that the conformance suite runs over, with their gaps and connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import uuid4

import pytest

from headgate.jobs.aws.dynamo.table import AsyncDynamoTable, DynamoTable
from headgate.jobs.aws.provision import create_table
from headgate.jobs.core.ports.table import AsyncTable, Item, Key, Page, Table
from headgate.jobs.testing import MemoryTable, VirtualClock
from tests.support.environment import with_test_credentials
from tests.support.servers import ServerName

_NAME = "conformance"
_provisioned: set[str] = set()  # servers that have the table; they live as long as this process

# Far ahead, so that no server deletes what expires by the test's clock.
START = datetime(2100, 1, 1, tzinfo=UTC)


class TableFeature(StrEnum):
    """A part of DynamoDB's behaviour that some server lacks; tests that expose the gap need it."""

    CONCURRENT_WRITERS = "concurrent-writers"
    FULL_SIZE = "full-size"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUnderTest:
    """A table, with a partition that no other test uses."""

    table: AsyncTable
    missing: Callable[[], AbstractAsyncContextManager[AsyncTable]]
    """Opens another table, which does not exist."""
    clock: VirtualClock
    """The clock by which items expire."""
    pk: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCandidate:
    """A table that the whole suite runs over, like `tests.conformance.servers.Candidate`."""

    name: str
    connect: Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[TableUnderTest]]
    gaps: Mapping[TableFeature, str] = field(default_factory=dict)
    unsteady: Mapping[TableFeature, str] = field(default_factory=dict)


class _InThreads:
    """An asynchronous view of a `Table`: each call runs in a thread."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def put(self, items: Sequence[Item]) -> list[Item]:
        return await asyncio.to_thread(self._table.put, items)

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        return await asyncio.to_thread(self._table.query, pk, prefix=prefix)

    async def page(self, pk: str, *, after: str = "", limit: int = 1_000) -> Page:
        return await asyncio.to_thread(self._table.page, pk, after=after, limit=limit)

    async def get(self, pk: str, sk: str) -> Item | None:
        return await asyncio.to_thread(self._table.get, pk, sk)

    async def lines(self, name: str, **bounds: Any) -> list[Item]:
        return await asyncio.to_thread(self._table.lines, name, **bounds)

    async def scan(self, path: Sequence[str], value: str, *, after: str = "") -> Page:
        return await asyncio.to_thread(self._table.scan, path, value, after=after)

    async def delete(self, keys: Sequence[Key]) -> list[Key]:
        return await asyncio.to_thread(self._table.delete, keys)

    async def replace(self, item: Item) -> Item | None:
        return await asyncio.to_thread(self._table.replace, item)


@asynccontextmanager
async def _memory(request: pytest.FixtureRequest) -> AsyncIterator[TableUnderTest]:
    del request
    clock = VirtualClock(START)
    missing = MemoryTable(clock, name="nowhere")
    missing.missing = True
    yield TableUnderTest(
        table=MemoryTable(clock),
        missing=lambda: nullcontext(missing),
        clock=clock,
        pk=_partition(),
    )


@asynccontextmanager
async def _memory_in_threads(request: pytest.FixtureRequest) -> AsyncIterator[TableUnderTest]:
    del request
    clock = VirtualClock(START)
    missing = MemoryTable(clock, name="nowhere")
    missing.missing = True
    yield TableUnderTest(
        table=_InThreads(MemoryTable(clock).sync),
        missing=lambda: nullcontext(_InThreads(missing.sync)),
        clock=clock,
        pk=_partition(),
    )


def _connect_to(
    name: ServerName, *, lean: bool = True
) -> Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[TableUnderTest]]:
    """Return a factory of connections, one per test, to the session's server fixture ``name``."""

    @asynccontextmanager
    async def connect(request: pytest.FixtureRequest) -> AsyncIterator[TableUnderTest]:
        endpoint_url = await _server(name, request)
        clock = VirtualClock(START)
        async with AsyncDynamoTable(
            _NAME, endpoint_url=endpoint_url, clock=clock, lean=lean
        ) as table:
            yield TableUnderTest(
                table=table,
                missing=lambda: AsyncDynamoTable("nowhere", endpoint_url=endpoint_url, lean=lean),
                clock=clock,
                pk=_partition(),
            )

    return connect


def _connect_in_threads_to(
    name: ServerName, *, lean: bool = True
) -> Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[TableUnderTest]]:
    """Return the same as `_connect_to`, for synchronous code."""

    @asynccontextmanager
    async def connect(request: pytest.FixtureRequest) -> AsyncIterator[TableUnderTest]:
        endpoint_url = await _server(name, request)
        clock = VirtualClock(START)

        @asynccontextmanager
        async def missing() -> AsyncIterator[AsyncTable]:
            with DynamoTable("nowhere", endpoint_url=endpoint_url, lean=lean) as table:
                yield _InThreads(table)

        with DynamoTable(_NAME, endpoint_url=endpoint_url, clock=clock, lean=lean) as table:
            yield TableUnderTest(
                table=_InThreads(table), missing=missing, clock=clock, pk=_partition()
            )

    return connect


async def _server(name: ServerName, request: pytest.FixtureRequest) -> str:
    """Return the endpoint of a server that has the table."""
    endpoint_url: str = request.getfixturevalue(name)
    with_test_credentials(
        request.getfixturevalue("monkeypatch"), request.getfixturevalue("tmp_path")
    )
    if endpoint_url not in _provisioned:
        await create_table(_NAME, endpoint_url=endpoint_url)
        _provisioned.add(endpoint_url)
    return endpoint_url


def _partition() -> str:
    return f"job#{uuid4().hex}"


MOTO: Mapping[TableFeature, str] = {
    TableFeature.FULL_SIZE: "moto takes 405,000 bytes at most",
}

MOTO_UNSTEADY: Mapping[TableFeature, str] = {
    TableFeature.CONCURRENT_WRITERS: "moto checks a condition, then writes: two writers at once"
    " may both be told that they won (3 rounds of 40 with ten writers)",
}

TABLES: tuple[TableCandidate, ...] = (
    TableCandidate(name="memory", connect=_memory),
    TableCandidate(name="moto", connect=_connect_to("moto"), gaps=MOTO, unsteady=MOTO_UNSTEADY),
    TableCandidate(name="ministack", connect=_connect_to("ministack")),
    TableCandidate(name="dynamodb", connect=_connect_to("dynamodb")),
    TableCandidate(name="memory-synchronous", connect=_memory_in_threads),
    TableCandidate(
        name="moto-synchronous",
        connect=_connect_in_threads_to("moto"),
        gaps=MOTO,
        unsteady=MOTO_UNSTEADY,
    ),
    TableCandidate(name="ministack-synchronous", connect=_connect_in_threads_to("ministack")),
    TableCandidate(name="dynamodb-synchronous", connect=_connect_in_threads_to("dynamodb")),
    TableCandidate(name="dynamodb-aiobotocore", connect=_connect_to("dynamodb", lean=False)),
    TableCandidate(name="dynamodb-boto3", connect=_connect_in_threads_to("dynamodb", lean=False)),
)
