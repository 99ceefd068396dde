"""A client's own table: opened by its first call, once, and closed with the client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

import headgate.jobs.aws.dynamo.blocking_table
import headgate.jobs.aws.dynamo.table
from headgate import App, AsyncClient, Client
from headgate.jobs.client.own_table import OwnBlockingTable, OwnTable
from headgate.jobs.core.ports import Item, Key
from headgate.jobs.testing import MemorySqs, MemoryTable, VirtualClock

ITEM = Item(pk="p", sk="s", data={"n": 1}, version=1)


class Opened:
    """Stands for both tables of `jobs.aws`; says which were made, and what was done to them."""

    made: ClassVar[list[str]] = []
    closed: ClassVar[list[str]] = []

    def __init__(self, name: str) -> None:
        self.name = name
        self.table = MemoryTable(VirtualClock(), name=name)
        Opened.made.append(name)

    def put(self, items: Sequence[Item]) -> list[Item]:
        return self.table.blocking.put(items)

    def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        return self.table.blocking.query(pk, prefix=prefix)

    def get(self, pk: str, sk: str) -> Item | None:
        return self.table.blocking.get(pk, sk)

    def lines(self, name: str, **bounds: Any) -> list[Item]:
        return self.table.blocking.lines(name, **bounds)

    def delete(self, keys: Sequence[Key]) -> list[Key]:
        return self.table.blocking.delete(keys)

    def replace(self, item: Item) -> Item | None:
        return self.table.blocking.replace(item)

    def close(self) -> None:
        Opened.closed.append(self.name)


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
    monkeypatch.setattr(headgate.jobs.aws.dynamo.blocking_table, "SyncDynamoTable", Opened)
    monkeypatch.setattr(headgate.jobs.aws.dynamo.table, "DynamoTable", AsyncOpened)
    return Opened


def test_a_plain_client_opens_the_apps_table_at_its_first_call_once(opened: type[Opened]) -> None:
    table = OwnBlockingTable(App("shop", stage="test"))
    table.close()
    assert opened.made == opened.closed == []
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(lambda _: table.query("p"), range(50))] == [[]] * 50
    assert opened.made == ["shop-test-records"]
    assert table.replace(ITEM) is None
    assert table.put([]) == []
    assert table.query("p", prefix="s") == [table.get("p", "s")] == [ITEM]
    assert table.lines("l") == []
    assert table.delete([("p", "s")]) == []
    table.close()
    assert opened.closed == ["shop-test-records"]


async def test_an_async_client_opens_the_apps_table_at_its_first_call_once(
    opened: type[Opened],
) -> None:
    table = OwnTable(App("shop", stage="test"))
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
        client.handle(job_id).status()
    async with AsyncClient(app, transport=sqs) as async_client:
        await async_client.handle(job_id).status()
    assert opened.made == opened.closed == ["shop-records"] * 2
    with Client(app, transport=sqs.blocking, table=Opened("given")) as client:
        client.handle(job_id).status()
    assert "given" not in opened.closed
