"""Roles are granted everything that the code really calls.

All calls below go through a proxy that reads the permission and the resource off each request;
`tests.support.iam` then decides about each of them by the synthesized template.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import aws_cdk as cdk
import boto3
import pytest
from aws_cdk import aws_iam as iam
from pydantic import BaseModel

from headgate import (
    App,
    AsyncClient,
    Client,
    Concurrency,
    DeadLetterFilter,
    DoNotRetry,
    Event,
    Events,
    JobContext,
    Priority,
    Replay,
    RetryLater,
    Schedule,
    Unique,
)
from headgate.infra.job_system import JobSystem
from headgate.jobs.aws.dynamo.table import AsyncDynamoTable, DynamoTable
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.s3 import AsyncS3Store, S3Store
from headgate.jobs.aws.scheduler import AsyncEventBridgeScheduler
from headgate.jobs.aws.secrets import SecretsManager
from headgate.jobs.aws.sns import SnsPublisher
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport, SqsTransport
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.naming import CHILDREN, JOB
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import QUARANTINE_RETENTION
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.deployment.sweep_plan import sweep_plan
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.delayed_job import delay_name
from headgate.jobs.schedules.firing import schedule_input
from headgate.jobs.schedules.inputs import read_input
from headgate.jobs.schedules.routes import Routes
from headgate.lambdas.sweep import handler
from headgate.lambdas.sweep.memory import SweepMemory
from headgate.lambdas.sweep.sweeper import Sweeper, Swept
from headgate.workers.configuration import WorkerSettings
from headgate.workers.observability.queue_depths import QueueDepths
from headgate.workers.worker import Worker
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING
from tests.infra.templates import template_of
from tests.infra.test_stack import FIRED
from tests.support.backends import async_over
from tests.support.calls import PASS_ROLE, Call, calls_of
from tests.support.cloudformation import arn_of, resolve
from tests.support.environment import REGION, with_test_credentials
from tests.support.iam import Policies
from tests.support.journal import GENEROUS_S
from tests.support.proxy import Proxy

LARGE = "y" * 400_000
FAR = timedelta(days=3)
TASKS = "ecs-tasks.amazonaws.com"
ROLES = ("Submitter", "Unique", "Follower", "Worker", "Viewer", "Operator", "Eraser")


class Note(BaseModel):
    text: str = ""
    children: int = 0


@dataclass(frozen=True)
class Declared:
    """An app with a type for every call that a worker can make."""

    app: App
    echo: JobType[Note, str]
    failing: JobType[Note, None]
    later: JobType[Note, None]


def declare(stage: str) -> Declared:
    app = App("needs", stage=stage)
    echo = app.define(
        "echo", Note, returns=str, once=True, schedule=Schedule.rate(timedelta(hours=1))
    )
    limit = Concurrency(5, scope="fleet")
    failing: JobType[Note, None] = app.define(
        "failing", Note, concurrency=limit, alert_at_once=True, replay=Replay()
    )
    later: JobType[Note, None] = app.define("later", Note)

    @echo.handler
    async def _(note: Note, ctx: JobContext) -> str:
        await ctx.progress(50, "half")
        for _ in range(note.children):
            await ctx.submit(echo, Note())
        return note.text

    @failing.handler
    async def _(_note: Note) -> None:
        raise DoNotRetry("it can't be done")

    @later.handler
    async def _(_note: Note) -> None:
        raise RetryLater(after=timedelta(days=1))

    return Declared(app, echo, failing, later)


@dataclass
class Watched:
    """A stage of the app on a local AWS, behind a proxy that reads the calls."""

    declared: Declared
    policies: Policies
    roles: dict[str, str]
    topic: str
    calls: list[Call] = field(default_factory=list)

    def take(self) -> set[Call]:
        """Return the calls since the last time."""
        taken, self.calls[:] = set(self.calls), []
        return taken

    def refused(self, role: str, calls: set[Call]) -> set[Call]:
        """Return those of the calls that a role may not make."""
        return {
            call
            for call in calls
            if not self.policies.allows(
                self.roles[role], call.action, call.resource, **_context_of(call)
            )
        }


def _context_of(call: Call) -> dict[str, str | tuple[str, ...]]:
    if call.action == PASS_ROLE:
        return {"iam__PassedToService": "scheduler.amazonaws.com"}
    if call.if_none_match:
        return {"s3__if-none-match": call.if_none_match}
    return {"dynamodb__LeadingKeys": call.rows} if call.rows else {}


def policies_of(app: App) -> tuple[Policies, dict[str, str], str]:
    """Return the policies of a template with a role per grant, the ARNs, and the topic's name."""
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
    system = JobSystem(stack, "Jobs", app=app, deployment=ELSEWHERE)
    tasks = iam.ServicePrincipal(TASKS)
    made = {name: iam.Role(stack, name, assumed_by=tasks, role_name=name) for name in ROLES}
    system.grant_submit(made["Submitter"])
    system.grant_submit(made["Unique"], unique=True)
    system.grant_follow(made["Follower"])
    system.grant_work(made["Worker"])
    system.grant_view(made["Viewer"])
    system.grant_operate(made["Operator"])
    system.grant_operate(made["Eraser"], erase=True)
    template = resolve(template_of(stack))
    roles = {name: arn_of("AWS::IAM::Role", name) for name in ROLES}
    for logical_id in template.of_type("AWS::IAM::Role"):
        for function in ("Bridge", "Sweep"):
            if logical_id.startswith(f"Jobs{function}Role"):
                roles[function] = arn_of("AWS::IAM::Role", logical_id)
    [topic] = [each for each in template.of_type("AWS::SNS::Topic") if "AlertsTopic" in each]
    return Policies.of(template), roles, topic


@pytest.fixture
async def watched(
    ministack: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Watched]:
    with_test_credentials(monkeypatch, tmp_path)
    declared = declare(f"t{uuid4().hex[:12]}")
    policies, roles, topic = policies_of(declared.app)
    await provision(declared.app.topology, endpoint_url=ministack)
    found = Watched(declared, policies, roles, topic)
    async with Proxy(
        ministack, on_request=lambda request: found.calls.extend(calls_of(request))
    ) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint_url)
        yield found


@asynccontextmanager
async def working(app: App, until: Callable[[Event], bool]) -> AsyncIterator[None]:
    """Have a worker run the submitted jobs until an event makes ``until`` true."""
    seen = asyncio.Event()
    async with AsyncExitStack() as stack:
        worker = Worker(
            app,
            async_over(
                await stack.enter_async_context(AsyncSqsTransport()),
                table=await stack.enter_async_context(AsyncDynamoTable(app.topology.table_name)),
                scheduler=await stack.enter_async_context(AsyncEventBridgeScheduler()),
                store=await stack.enter_async_context(AsyncS3Store(app.topology.bucket)),
            ),
            WorkerSettings(receive_wait=timedelta(seconds=1)),
            events=Events(lambda event: seen.set() if until(event) else None),
        )
        run = asyncio.create_task(worker.run())
        try:
            yield
            async with asyncio.timeout(GENEROUS_S):
                await seen.wait()
        finally:
            worker.stop()
            await run


# --- each role may do what its code does ---------------------------------------------------------


async def test_a_submitter_may_make_every_call_of_its_clients(watched: Watched) -> None:
    echo = watched.declared.echo
    async with AsyncClient(watched.declared.app) as client:
        await client.submit(echo, Note())
        await client.submit_many(echo, [Note(text="a"), Note(text="b")])
        await client.submit(echo, Note(text=LARGE))
        await client.submit(echo, Note(), delay=FAR)
    await asyncio.to_thread(_submit_blocking, watched.declared)

    calls = watched.take()
    assert {action for action, *_ in calls} == {
        "iam:PassRole",
        "s3:PutObject",
        "scheduler:CreateSchedule",
        "sqs:GetQueueUrl",
        "sqs:SendMessage",
    }
    assert watched.refused("Submitter", calls) == set()


def _submit_blocking(declared: Declared) -> None:
    with Client(declared.app) as client:
        client.submit(declared.echo, Note(text=LARGE))
        client.submit(declared.echo, Note(), delay=FAR)


async def test_only_unique_submitters_may_make_the_calls_for_claims(
    watched: Watched,
) -> None:
    async with AsyncClient(watched.declared.app) as client:
        hour = timedelta(hours=1)
        first = await client.submit(watched.declared.echo, Note(), unique=Unique(within=hour))
        again = await client.submit(watched.declared.echo, Note(), unique=Unique(within=hour))
    assert again.id == first.id

    calls = watched.take()
    assert watched.refused("Unique", calls) == set()
    of_table = {call for call in calls if call[0].startswith("dynamodb:")}
    assert of_table
    assert watched.refused("Submitter", calls) == of_table


async def test_a_worker_may_make_every_call_that_running_jobs_takes(watched: Watched) -> None:
    declared = watched.declared
    async with AsyncClient(declared.app) as client:
        await client.submit(declared.echo, Note(text=LARGE, children=2))
        await client.submit(declared.failing, Note())
        await client.submit(declared.later, Note())
    watched.take()
    ended: set[str] = set()

    def all_ended(event: Event) -> bool:
        if event.name in ("job.completed", "job.dead_lettered", "job.deferred"):
            ended.add(event.name)
        return len(ended) == 3

    async with working(declared.app, all_ended):
        pass
    async with AsyncSqsTransport() as sqs:
        queues, quarantine = declared.app.topology.queues, declared.app.topology.quarantine_name
        await QueueDepths(queues, quarantine, sqs, clock=SystemClock()).refresh()

    calls = watched.take()
    assert {action for action, *_ in calls} >= {
        "dynamodb:BatchWriteItem",
        "dynamodb:PutItem",
        "dynamodb:Query",
        "iam:PassRole",
        "s3:GetObject",
        "s3:PutObject",
        "scheduler:CreateSchedule",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:ReceiveMessage",
        "sqs:SendMessage",
    }
    assert any(row.startswith(CHILDREN) for call in calls for row in call.rows)
    assert watched.refused("Worker", calls) == set()


async def test_a_follower_may_make_every_call_of_a_handle(watched: Watched) -> None:
    declared = watched.declared
    async with AsyncClient(declared.app) as client:
        handle = await client.submit(declared.echo, Note(text=LARGE))
        cancelled = await client.submit(declared.echo, Note(), delay=FAR)
        held = await client.submit(declared.echo, Note(), delay=FAR)
        async with working(declared.app, lambda event: event.name == "job.completed"):
            pass
        watched.take()
        await handle.state()
        assert await handle.result() == LARGE
        await cancelled.cancel()
        assert await client.schedules.cancel_delayed(held.id)

    calls = watched.take()
    assert {action for action, *_ in calls} == {
        "dynamodb:PutItem",
        "dynamodb:Query",
        "s3:GetObject",
        "scheduler:DeleteSchedule",
        "scheduler:GetSchedule",
    }
    assert watched.refused("Follower", calls) == set()
    assert watched.refused("Operator", calls) == set()


async def test_a_viewer_may_make_every_call_that_only_looks(watched: Watched) -> None:
    declared = watched.declared
    async with AsyncClient(declared.app) as client:
        handle = await client.submit(declared.failing, Note())
        delayed = await client.submit(declared.echo, Note(), delay=FAR)
        async with working(declared.app, lambda event: event.name == "job.dead_lettered"):
            pass
        watched.take()
        await client.jobs.list()
        await client.jobs.count()
        await handle.history()
        await client.jobs.children(handle.id)
        assert await delayed.state() == "delayed"
        found = await client.queues.list()
        await client.workers.list()
        await client.pauses.list()
        await client.dead_letters.replays()
        await client.audit.list()
        calls = watched.take()
        await client.health()
        of_health = watched.refused("Viewer", watched.take())

    assert found.unknown.keys() <= {"metrics"}
    assert {action for action, *_ in calls} >= {
        "dynamodb:Query",
        "scheduler:GetSchedule",
        "sqs:GetQueueAttributes",
    }
    assert watched.refused("Viewer", calls) == set()
    # A schedule's input has its job's payload: which ones are paused is unknown to a viewer.
    assert {action.partition(":")[0] for action, *_ in of_health} == {"scheduler"}


async def test_an_operator_may_make_every_call_that_schedules_and_depths_take(
    watched: Watched,
) -> None:
    app = watched.declared.app
    async with AsyncClient(app) as client:
        schedules = client.schedules
        await schedules.create(
            "own", watched.declared.later, Note(), schedule=Schedule.rate(timedelta(hours=1))
        )
        await schedules.list()
        await schedules.pause("own")
        await schedules.resume("own")
        await schedules.run_now("own")
        await schedules.remove("own")
    parked = [
        *(spec.dlq_name for spec in app.topology.queues),
        app.topology.quarantine_name,
    ]
    async with AsyncSqsTransport() as sqs:
        for name in (*(spec.name for spec in app.topology.queues), *parked):
            await sqs.depth(name)
        for name in parked:
            await sqs.receive(name, limit=1, wait_s=0, visibility_s=0)

    calls = watched.take()
    assert {action for action, *_ in calls} >= {"scheduler:ListSchedules", "sqs:ReceiveMessage"}
    assert watched.refused("Operator", calls) == set()


async def test_an_eraser_may_make_every_call_that_an_erasure_takes(watched: Watched) -> None:
    declared = watched.declared
    async with AsyncClient(declared.app) as client:
        for copied in (True, False):
            await client.submit(declared.failing, Note(text=LARGE), tenant="acme")
            async with working(declared.app, lambda event: event.name == "job.dead_lettered"):
                pass
            if copied:
                await client.dead_letters.purge(DeadLetterFilter())
        await client.submit(declared.echo, Note(), delay=FAR, tenant="acme")
        await client.submit(declared.echo, Note(text="once"), tenant="acme")
        async with working(declared.app, lambda event: event.name == "job.completed"):
            pass
        watched.take()

        erased = await client.erase(tenant="acme")

    assert (erased.letters, erased.copies, erased.schedules) == (1, 1, 1)
    calls = watched.take()
    emptied = [each for each in calls if each.action == "dynamodb:PutItem"]
    assert any(row.startswith(JOB) for each in emptied for row in each.rows)
    assert {action for action, *_ in calls} >= {
        "dynamodb:BatchWriteItem",
        "dynamodb:Scan",
        "s3:DeleteObject",
        "s3:GetObject",
        "s3:ListBucket",
        "scheduler:DeleteSchedule",
        "scheduler:ListSchedules",
        "sqs:DeleteMessage",
    }
    assert watched.refused("Eraser", calls) == set()


async def test_the_bridge_may_make_every_call_of_its_function(watched: Watched) -> None:
    delayed = await asyncio.to_thread(_delayed, watched.declared)
    watched.take()

    await asyncio.to_thread(_bridge, watched.declared, delayed)

    calls = watched.take()
    assert {action for action, *_ in calls} == {
        "dynamodb:PutItem",
        "sqs:GetQueueUrl",
        "sqs:SendMessage",
    }
    assert watched.refused("Bridge", calls) == set()


def _delayed(declared: Declared) -> dict[str, Any]:
    """Return the input that a delayed job's schedule passes on."""
    with Client(declared.app) as client:
        handle = client.submit(declared.later, Note(), delay=timedelta(minutes=16))
    scheduler = boto3.client("scheduler", region_name=REGION)
    try:
        held = scheduler.get_schedule(
            GroupName=declared.app.topology.schedule_group, Name=delay_name(handle.id)
        )
    finally:
        scheduler.close()
    found: dict[str, Any] = json.loads(held["Target"]["Input"])
    return found


def _bridge(declared: Declared, delayed: dict[str, Any]) -> None:
    """Run `lambdas.bridge` on a firing and on a delayed job."""
    fired = schedule_input(declared.app, declared.echo) | FIRED
    with (
        SqsTransport() as sqs,
        DynamoTable(declared.app.topology.table_name) as table,
    ):
        bridge = Bridge(sqs, table, lambda: datetime.now(UTC), routes=Routes.of(declared.app))
        bridge.submit(read_input(fired))
        bridge.submit(read_input(delayed))


class _InTwoWeeks(SystemClock):
    """The time at which SQS is about to delete messages that are dead now."""

    def now(self) -> datetime:
        return super().now() + QUARANTINE_RETENTION - timedelta(hours=1)


async def test_the_sweep_may_make_every_call_of_its_function(
    watched: Watched, ministack: str
) -> None:
    declared = watched.declared
    async with AsyncClient(declared.app) as client:
        await client.submit(declared.failing, Note(text=LARGE))
        async with working(declared.app, lambda event: event.name == "job.dead_lettered"):
            pass
    watched.take()

    topic = _topic(watched.topic, ministack)
    first = await asyncio.to_thread(_sweep, declared.app, topic)
    assert (first.saved, first.told) == (1, 1)
    calls = watched.take()
    lane = declared.app.topology.queue("jobs", Priority.NORMAL)
    told = {"JobType": "failing", "Reason": "attempts-exhausted"}
    async with AsyncSqsTransport() as sqs:
        await sqs.send(lane.dlq_name, [OutgoingMessage(body="{}", attributes=told)])
    watched.take()
    await asyncio.to_thread(_sweep, declared.app, topic)
    third = await asyncio.to_thread(_sweep, declared.app, topic)
    assert third.replayed.total() == 1

    calls |= watched.take()
    assert {action for action, *_ in calls} >= {
        "dynamodb:PutItem",
        "dynamodb:Query",
        "s3:GetObject",
        "s3:PutObject",
        "sns:Publish",
        "sqs:ChangeMessageVisibility",
        "sqs:DeleteMessage",
        "sqs:ReceiveMessage",
        "sqs:SendMessage",
    }
    assert watched.refused("Sweep", calls) == set()


def _topic(name: str, endpoint_url: str) -> str:
    topics = boto3.client("sns", endpoint_url=endpoint_url, region_name=REGION)
    try:
        return str(topics.create_topic(Name=name)["TopicArn"])
    finally:
        topics.close()


def _sweep(app: App, topic_arn: str) -> Swept:
    """Run `lambdas.sweep.handler` so late that it copies messages that are about to be deleted."""
    with (
        SqsTransport() as queues,
        DynamoTable(app.topology.table_name) as table,
        closing(S3Store(app.topology.bucket)) as store,
        closing(SnsPublisher(topic_arn)) as topic,
        closing(SecretsManager()) as secrets,
    ):
        plan = sweep_plan(app, has_bridge=False)
        aws = handler._Aws(
            queues=queues, table=table, store=store, topic=topic, tickets=topic, secrets=secrets
        )
        assert plan.replay is not None
        sweeper = Sweeper(
            plan,
            queues=queues,
            memory=SweepMemory(table, _InTwoWeeks()),
            store=store,
            topic=topic,
            tickets=topic,
            clock=_InTwoWeeks(),
            count=lambda _counts: None,
            replay=handler._replay(plan.replay, aws, _InTwoWeeks()),
        )
        swept = sweeper.sweep()
    assert swept is not None
    return swept
