"""Schedules that fire by themselves, through a function that runs the bridge, on a local AWS.

`LocalAws` adds the features that MiniStack lacks for that (docs/emulators.md).
"""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import boto3
import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Events, JobContext, Priority, RetryLater, Schedule
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.scheduler import AsyncEventBridgeScheduler
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport, SqsTransport
from headgate.jobs.core.events import JobDeferred
from headgate.jobs.core.ports.transport import QueueDepth, ReceivedMessage
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.delayed_job import (
    DelayedJob,
    delay_name,
    retry_name,
    schedule_of,
)
from headgate.jobs.schedules.routes import FILE, Routes
from headgate.jobs.submission.prepare import Submission, prepare
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker
from tests.support.backends import async_over
from tests.support.environment import REGION, with_test_credentials
from tests.support.journal import GENEROUS_S

ROOT = Path(__file__).parents[2]


class Note(BaseModel):
    text: str = ""


@dataclass
class Deployed:
    """An app with its queues, its group of schedules and its bridge."""

    app: App
    note: JobType[Note, None]
    sqs: AsyncSqsTransport
    scheduler: AsyncEventBridgeScheduler
    client: AsyncClient
    endpoint_url: str

    @property
    def queue(self) -> str:
        return self.app.topology.queue("jobs", Priority.NORMAL).name

    async def received(self) -> ReceivedMessage:
        """Return the next message of the queue, however long it takes to come."""
        async with asyncio.timeout(GENEROUS_S):
            while not (found := await self.sqs.receive(self.queue, limit=1, wait_s=5)):
                pass
        return found[0]

    def prepared(self, delay: timedelta) -> Submission:
        now = datetime.now(UTC)
        return prepare(
            self.app,
            self.app.topology,
            self.note,
            Note(text="<aws.scheduler.scheduled-time>"),
            {"delay": delay, "tenant": "org-1"},
            now=now,
            job_id=new_job_id(now),
        )


@pytest.fixture
async def deployed(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Deployed]:
    with_test_credentials(monkeypatch, tmp_path)
    app = App(f"t{uuid4().hex[:12]}")
    note: JobType[Note, None] = app.define("note", Note)
    await provision(app.topology, endpoint_url=server)
    async with AsyncExitStack() as stack:
        sqs = await stack.enter_async_context(AsyncSqsTransport(endpoint_url=server))
        scheduler = await stack.enter_async_context(AsyncEventBridgeScheduler(endpoint_url=server))
        client = AsyncClient(app, backend=async_over(sqs, scheduler=scheduler))
        await asyncio.to_thread(_deploy, app, server, stack)
        yield Deployed(app, note, sqs, scheduler, client, server)


def _deploy(app: App, endpoint_url: str, stack: AsyncExitStack) -> None:
    """Create the CDK stack's resources for schedules; deleted at the end, on a shared server."""
    scheduler = boto3.client("scheduler", endpoint_url=endpoint_url, region_name=REGION)
    functions = boto3.client("lambda", endpoint_url=endpoint_url, region_name=REGION)
    stack.callback(scheduler.close)
    stack.callback(functions.close)
    stack.callback(scheduler.delete_schedule_group, Name=app.topology.schedule_group)
    functions.create_function(
        FunctionName=app.topology.bridge_name,
        Runtime="python3.12",
        Role="arn:aws:iam::000000000000:role/function",
        Handler="headgate.lambdas.bridge.handler",
        Code={"ZipFile": _bundle(app)},
        Timeout=30,
        Environment={"Variables": {"AWS_ENDPOINT_URL": endpoint_url}},
    )
    stack.callback(functions.delete_function, FunctionName=app.topology.bridge_name)


def _bundle(app: App) -> bytes:
    """Return the bridge's code, with the app's routes; the server has its dependencies."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as bundle:
        for path in sorted((ROOT / "headgate").glob("*.py")):
            bundle.write(path, path.relative_to(ROOT))
        for package in ("jobs", "lambdas"):
            for path in sorted((ROOT / package).rglob("*.py")):
                bundle.write(path, "headgate" / path.relative_to(ROOT))
        bundle.writestr(f"headgate/lambdas/{FILE}", Routes.of(app).to_text())
    return file.getvalue()


@pytest.mark.parametrize("timezone", ["UTC", "Asia/Kathmandu"])
async def test_a_one_time_schedule_fires_by_itself_and_the_bridge_sends_its_job(
    deployed: Deployed, timezone: str
) -> None:
    submission = deployed.prepared(timedelta(hours=1))
    job = submission.delayed().model_copy(update={"delayed_until": datetime.now(UTC)})
    now = datetime.now(UTC)
    held = schedule_of(job, deployed.app.topology, delay_name(submission.id), now)
    soon = now.astimezone(ZoneInfo(timezone)) + timedelta(seconds=3)
    schedule = replace(held, expression=f"at({soon:%Y-%m-%dT%H:%M:%S})", timezone=timezone)
    assert await deployed.scheduler.create(schedule, token=submission.id)

    message = await deployed.received()

    envelope = parse(message.body)
    assert envelope == submission.envelope
    assert message.attributes == submission.message.attributes
    assert message.group == "org-1"
    assert await deployed.scheduler.get(schedule.group, schedule.name) is None


async def test_a_delayed_submission_is_held_by_a_schedule_that_the_bridge_understands(
    deployed: Deployed,
) -> None:
    handle = await deployed.client.submit(deployed.note, Note(text="a"), delay=timedelta(days=3))
    group = deployed.app.topology.schedule_group
    held = await deployed.scheduler.get(group, delay_name(handle.id))
    assert held is not None
    job = DelayedJob.model_validate(json.loads(held.input))

    await asyncio.to_thread(_send, job, deployed, job.delayed_until)

    assert str(parse((await deployed.received()).body).id) == handle.id


async def test_a_cancelled_delay_leaves_no_schedule(deployed: Deployed) -> None:
    handle = await deployed.client.submit(deployed.note, Note(), delay=timedelta(days=3))
    assert await deployed.client.schedules.cancel_delayed(handle.id)
    assert not await deployed.client.schedules.cancel_delayed(handle.id)
    assert await deployed.scheduler.names(deployed.app.topology.schedule_group, prefix="d") == []


async def test_a_recurring_schedule_fires_by_itself_and_the_bridge_submits_its_job(
    deployed: Deployed,
) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)  # scheduled times are in whole seconds
    await deployed.client.schedules.create(
        "hourly",
        deployed.note,
        Note(text="a"),
        schedule=Schedule.rate(timedelta(hours=1)),
        tenant="org-1",
    )

    envelope = parse((await deployed.received()).body)

    assert envelope.source == "schedule:hourly"
    assert envelope.payload == {"text": "a"}
    assert envelope.tenant is not None
    assert before < _made_at(envelope.id) <= datetime.now(UTC)  # the due time


async def test_a_schedule_runs_on_request(deployed: Deployed) -> None:
    later = Schedule.at(datetime.now(UTC) + timedelta(hours=1))
    await deployed.client.schedules.create("once", deployed.note, Note(text="a"), schedule=later)
    handle = await deployed.client.schedules.run_now("once")
    assert str(parse((await deployed.received()).body).id) == handle.id


def _made_at(job_id: UUID) -> datetime:
    """Return the time in a UUIDv7, which has 48 bits of milliseconds."""
    return datetime.fromtimestamp((job_id.int >> 80) / 1000, UTC)


def _due_now(job: DelayedJob) -> DelayedJob:
    """Return the same job as two days later: before that no worker runs it."""
    body = json.loads(job.body) | {"not_before": datetime.now(UTC).isoformat()}
    return job.model_copy(update={"body": json.dumps(body)})


def _send(job: DelayedJob, deployed: Deployed, now: datetime) -> None:
    with SqsTransport(endpoint_url=deployed.endpoint_url) as sqs:
        Bridge(sqs, None, lambda: now, routes=Routes.of(deployed.app)).submit(job)


async def test_a_long_wait_handed_to_a_schedule_ends_when_it_is_due(
    deployed: Deployed,
) -> None:
    attempts: list[int] = []
    done = asyncio.Event()

    @deployed.note.handler
    async def handle(_note: Note, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) == 1:
            raise RetryLater(after=timedelta(days=2))
        done.set()

    handed_over = asyncio.Event()
    events = Events(lambda event: handed_over.set() if isinstance(event, JobDeferred) else None)
    worker = Worker(
        deployed.app,
        async_over(deployed.sqs, scheduler=deployed.scheduler),
        WorkerSettings(receive_wait=timedelta(seconds=1)),
        events=events,
    )
    handle_of_job = await deployed.client.submit(deployed.note, Note())
    run = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(GENEROUS_S):
            await handed_over.wait()
            depth = await deployed.sqs.depth(deployed.queue)
            assert depth == QueueDepth(visible=0, in_flight=0, delayed=0)
            group = deployed.app.topology.schedule_group
            held = await deployed.scheduler.get(group, retry_name(handle_of_job.id))
            assert held is not None
            job = DelayedJob.model_validate(json.loads(held.input))
            assert parse(job.body).not_before == job.delayed_until
            await asyncio.to_thread(_send, _due_now(job), deployed, job.delayed_until)
            await done.wait()
    finally:
        worker.stop()
        await run
    assert attempts == [1, 1]
