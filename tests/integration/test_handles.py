"""Handles and cancellation on a real server, opened by the clients themselves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Client, JobState, Priority
from headgate.jobs.aws.dynamo.table import AsyncDynamoTable
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import JobCancelled
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker
from tests.support.backends import async_over
from tests.support.environment import REGION, with_test_credentials
from tests.support.story import Story

GENEROUS_S = 60

_SETTINGS = WorkerSettings(receive_wait=timedelta(seconds=1))


class Note(BaseModel):
    text: str


class Receipt(BaseModel):
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """An app whose one job runs until it is cancelled."""

    app: App
    send: JobType[Note, Receipt]
    started: asyncio.Event


@pytest.fixture
async def shop(ministack: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shop:
    with_test_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack)
    app = App("shop", stage=f"h{uuid4().hex[:8]}", records="outcomes")
    queue = app.queue("mail", priorities=[Priority.NORMAL])
    started = asyncio.Event()

    @queue.job("send")
    async def send(_note: Note) -> Receipt:
        started.set()
        await asyncio.sleep(GENEROUS_S * 2)
        return Receipt(number=1)

    await provision(app.topology, endpoint_url=ministack, region=REGION)
    return Shop(app=app, send=send, started=started)


async def test_a_running_job_is_cancelled_and_its_submitter_hears_of_it(shop: Shop) -> None:
    async with (
        AsyncClient(shop.app) as client,
        AsyncSqsTransport() as transport,
        AsyncDynamoTable(shop.app.topology.table_name) as table,
    ):
        worker = Worker(shop.app, async_over(transport, table=table), _SETTINGS)
        running = asyncio.create_task(worker.run())
        job = await client.submit(shop.send, Note(text="one"))
        await asyncio.wait_for(shop.started.wait(), GENEROUS_S)
        await job.cancel("a mistake")
        with pytest.raises(JobCancelled, match="a mistake"):
            await job.result(timeout=GENEROUS_S)
        worker.stop()
        report = await running
    assert report.clean


async def test_a_synchronous_client_reads_through_its_own_table(shop: Shop) -> None:
    with Client(shop.app) as client:
        job = await asyncio.to_thread(client.submit, shop.send, Note(text="one"))
        assert await asyncio.to_thread(job.state) is JobState.WAITING
        story = Story(job.id, start=datetime.now(UTC)).run(1, "completed", result={"number": 7})
        async with AsyncDynamoTable(shop.app.topology.table_name) as table:
            assert await table.put(story.items) == []
        assert await asyncio.to_thread(job.result, 5) == Receipt(number=7)
        await asyncio.to_thread(job.cancel, "too late")
        history = await asyncio.to_thread(job.history)
    assert (history.state, history.cancel_reason) == (JobState.COMPLETED, "")
