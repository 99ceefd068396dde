"""Unique submissions through the real clients, on a real DynamoDB and SQS."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Client, Priority, Unique
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from tests.support.environment import with_test_credentials


class Sync(BaseModel):
    shop: str = "a"


@pytest.fixture
def app(ministack: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> App:
    with_test_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack)
    app = App("unique", stage=f"t{uuid4().hex[:12]}")
    app.define("sync", Sync, unique=Unique(within=timedelta(hours=1)))
    asyncio.run(provision(app.topology, endpoint_url=ministack))
    return app


def test_both_clients_see_each_other_s_submissions(app: App) -> None:
    sync = app.find_type("sync")

    async def submit_async() -> list[bool]:
        async with AsyncClient(app) as client:
            handles = await client.submit_many(sync, [Sync(), Sync(shop="b"), Sync(shop="b")])
            assert handles[0].id == first.id
            return [handle.is_duplicate for handle in handles]

    with Client(app) as client:
        first = client.submit(sync, Sync())
        assert client.submit(sync, Sync()).id == first.id
        assert asyncio.run(submit_async()) == [True, False, True]
        assert client.submit(sync, Sync(shop="b")).is_duplicate
    assert asyncio.run(_visible(app)) == 2


def test_twenty_threads_with_one_client_each_send_one_job(app: App) -> None:
    sync = app.find_type("sync")

    def submit() -> tuple[str, bool]:
        with Client(app) as client:
            handle = client.submit(sync, Sync())
            return handle.id, handle.is_duplicate

    async def all_at_once() -> list[tuple[str, bool]]:
        return await asyncio.gather(*(asyncio.to_thread(submit) for _ in range(20)))

    told = asyncio.run(all_at_once())
    assert len({job_id for job_id, _ in told}) == 1
    assert sum(not is_duplicate for _, is_duplicate in told) == 1
    assert asyncio.run(_visible(app)) == 1


async def _visible(app: App) -> int:
    async with AsyncSqsTransport() as sqs:
        return (await sqs.depth(app.topology.queue("jobs", Priority.NORMAL).name)).visible
