"""A function behind event source mappings, on a server that implements Lambda."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Priority
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.core.ports.transport import QueueDepth
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.queue import Queue
from tests.support.backends import async_over
from tests.support.environment import REGION, with_test_credentials
from tests.support.journal import GENEROUS_S, until, whole_lines
from tests.support.source_bundle import source_bundle

_EMPTY = QueueDepth(visible=0, in_flight=0, delayed=0)

_FUNCTION = """
import os
from pathlib import Path

from headgate import App, Backoff, DoNotRetry, JobContext, Priority, Retry
from headgate.lambdas.consume import consumer
from pydantic import BaseModel

app = App(os.environ["APP"])
retry = Retry(max_attempts=5, backoff=Backoff.fixed(1))
mail = app.queue("mail", priorities=[Priority.NORMAL], retry=retry)
books = app.queue("books", priorities=[Priority.NORMAL], retry=retry, fifo=True)


class Note(BaseModel):
    text: str
    group: str = "a"


async def handle(note: Note, ctx: JobContext) -> None:
    if note.text == "dead":
        raise DoNotRetry("no such address")
    if note.text == "flaky" and ctx.attempt == 1:
        raise ConnectionError("try again")
    with Path(os.environ["JOURNAL"]).open("a") as journal:
        print(note.group, note.text, os.getpid(), file=journal)


@mail.job("send")
async def send(note: Note, ctx: JobContext) -> None:
    await handle(note, ctx)


@books.job("post", group_by=lambda note: note.group)
async def post(note: Note, ctx: JobContext) -> None:
    await handle(note, ctx)


handler = consumer(app)
"""


class Note(BaseModel):
    text: str
    group: str = "a"


@dataclass
class Deployed:
    """A function with its queues."""

    app: App
    mail: Queue
    books: Queue
    sqs: AsyncSqsTransport
    journal: Path

    def spec(self, group: str) -> QueueSpec:
        return self.app.topology.queue(group, Priority.NORMAL)

    async def submit(self, job: JobType[Note, Any], *notes: Note) -> None:
        async with AsyncClient(self.app, backend=async_over(self.sqs)) as client:
            await client.submit_many(job, notes)

    async def drained(self, group: str) -> None:
        """Wait until the group's queue is empty."""
        async with asyncio.timeout(GENEROUS_S):
            while await self.sqs.depth(self.spec(group).name) != _EMPTY:  # noqa: ASYNC110 - the server sets no event of ours
                await asyncio.sleep(0.05)

    def ran(self) -> list[tuple[str, str, str]]:
        """Return group, text and process of completed jobs, in order."""
        found = []
        for line in whole_lines(self.journal):
            group, text, process = line.split()
            found.append((group, text, process))
        return found


@pytest.fixture
async def deployed(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Deployed]:
    with_test_credentials(monkeypatch, tmp_path)
    app = App(f"t{uuid4().hex[:12]}")
    mail = app.queue("mail", priorities=[Priority.NORMAL])
    books = app.queue("books", priorities=[Priority.NORMAL], fifo=True)
    journal = tmp_path / "journal"
    await provision(app.topology, endpoint_url=server)
    async with AsyncExitStack() as stack:
        sqs = await stack.enter_async_context(AsyncSqsTransport(endpoint_url=server))
        variables = {"APP": app.name, "JOURNAL": str(journal), "AWS_ENDPOINT_URL": server}
        await asyncio.to_thread(_deploy, app, server, variables, stack)
        yield Deployed(app, mail, books, sqs, journal)


def _deploy(app: App, endpoint_url: str, variables: dict[str, str], stack: AsyncExitStack) -> None:
    """Create the function and a mapping per queue; delete them at the end on the shared server."""
    aws = boto3.client("lambda", endpoint_url=endpoint_url, region_name=REGION)
    stack.callback(aws.close)
    aws.create_function(
        FunctionName=app.name,
        Runtime="python3.12",
        Role="arn:aws:iam::000000000000:role/function",
        Handler="function.handler",
        Code={"ZipFile": source_bundle(function=_FUNCTION)},
        Timeout=30,
        Environment={"Variables": variables},
    )
    stack.callback(aws.delete_function, FunctionName=app.name)
    for spec in app.topology.queues:
        mapping = aws.create_event_source_mapping(
            FunctionName=app.name,
            EventSourceArn=f"arn:aws:sqs:{REGION}:000000000000:{spec.name}",
            FunctionResponseTypes=["ReportBatchItemFailures"],
        )
        stack.callback(aws.delete_event_source_mapping, UUID=mapping["UUID"])


async def test_jobs_are_run_retried_and_parked_and_the_queue_is_empty_after_that(
    deployed: Deployed,
) -> None:
    job = deployed.mail.define("send", Note)
    texts = ["flaky", "dead", *map(str, range(23))]
    await deployed.submit(job, *(Note(text=text) for text in texts))
    await until(lambda: len(deployed.ran()) == 24)
    await deployed.drained("mail")
    assert sorted(text for _, text, _ in deployed.ran()) == sorted({*texts} - {"dead"})
    [letter] = await deployed.sqs.receive(deployed.spec("mail").dlq_name, limit=10, wait_s=1)
    assert letter.attributes["Reason"] == "do-not-retry"
    assert letter.attributes["JobType"] == "send"


async def test_a_group_keeps_its_order_over_a_retry(deployed: Deployed) -> None:
    job = deployed.books.define("post", Note, group_by=lambda note: note.group)
    texts = ["0", "flaky", "2", "3"]
    notes = [Note(text=text, group=group) for text in texts for group in ("a", "b")]
    await deployed.submit(job, *notes)
    await until(lambda: len(deployed.ran()) >= len(notes))
    await deployed.drained("books")
    for group in ("a", "b"):
        assert [text for own, text, _ in deployed.ran() if own == group] == texts
