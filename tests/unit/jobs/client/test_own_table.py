"""A client's own table: opened by its first call, once, and closed with the client."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

import headgate.jobs.aws.dynamo.table
from headgate import App, AsyncClient, Client
from headgate.jobs.aws.connection import Connection
from headgate.jobs.aws.dynamo.table import DynamoTable
from headgate.jobs.client.own_table import AsyncOwnTable
from headgate.jobs.core.ports import Item
from headgate.jobs.testing import MemorySqs, MemoryTable, VirtualClock

ITEM = Item(pk="p", sk="s", data={"n": 1}, version=1)


class Opened:
    """Stands for a boto3 client; records the names of opened tables, and their closing."""

    made: ClassVar[list[str]] = []
    closed: ClassVar[list[str]] = []
    exceptions = meta = None

    def __init__(self, service: str, _connection: Connection) -> None:
        Opened.made.append(service)

    def query(self, **request: Any) -> dict[str, Any]:
        assert request["TableName"].startswith("shop-")
        return {"Items": []}

    def close(self) -> None:
        Opened.closed.append("dynamodb")


class AsyncOpened(MemoryTable):
    def __init__(self, name: str) -> None:
        super().__init__(VirtualClock(), name=name)
        Opened.made.append(name)

    async def start(self) -> None:
        await asyncio.sleep(0)

    async def stop(self) -> None:
        Opened.closed.append(self.name)


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> type[Opened]:
    monkeypatch.setattr(Opened, "made", [])
    monkeypatch.setattr(Opened, "closed", [])
    monkeypatch.setattr(headgate.jobs.aws.dynamo.table, "blocking_client", Opened)
    monkeypatch.setattr(headgate.jobs.aws.dynamo.table, "AsyncDynamoTable", AsyncOpened)
    return Opened


def test_a_synchronous_table_opens_at_its_first_call_once_and_again_after_a_close(
    opened: type[Opened],
) -> None:
    table = DynamoTable("shop-test-records")
    table.close()
    assert opened.made == opened.closed == []
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(lambda _: table.query("p"), range(50))] == [[]] * 50
    assert opened.made == ["dynamodb"]
    table.close()
    assert opened.closed == ["dynamodb"]
    assert table.query("p") == []
    assert opened.made == ["dynamodb"] * 2


async def test_an_async_client_opens_the_apps_table_at_its_first_call_once(
    opened: type[Opened],
) -> None:
    table = AsyncOwnTable(App("shop", stage="test"))
    assert opened.made == []
    await asyncio.gather(*(table.query("p") for _ in range(50)))
    assert opened.made == ["shop-test-records"]
    assert await table.replace(ITEM) is None
    assert await table.put([]) == []
    assert await table.query("p", prefix="s") == [await table.get("p", "s")] == [ITEM]
    assert await table.lines("l") == []
    assert await table.delete([("p", "s")]) == []
    await table.close()
    assert opened.closed == ["shop-test-records"]


async def test_clients_close_the_table_that_they_opened_and_no_other(opened: type[Opened]) -> None:
    app = App("shop", records="outcomes")
    sqs = MemorySqs(VirtualClock())
    job_id = "0196a2b4-0000-7000-8000-000000000001"
    with Client(app, transport=sqs.blocking) as client:
        client.handle(job_id).state()
    async with AsyncClient(app, transport=sqs) as async_client:
        await async_client.handle(job_id).state()
    assert opened.made == opened.closed == ["dynamodb", "shop-records"]
    given = MemoryTable(VirtualClock())
    with Client(app, transport=sqs.blocking, table=given.blocking) as client:
        client.handle(job_id).state()
    assert given.calls == ["query"]
    assert opened.made == ["dynamodb", "shop-records"]
