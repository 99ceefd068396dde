"""The sweep as a Lambda function, on queues, a table, a bucket and a topic of a local AWS."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Priority
from headgate.jobs.aws.dynamo.table import DynamoTable
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.s3 import S3Store
from headgate.jobs.aws.sns import SnsPublisher
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport, SqsTransport
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.naming import DEAD_LETTERS
from headgate.jobs.core.ports.transport import QueueDepth, ReceivedMessage
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.sweep_plan import SweepPlan, plan_input, sweep_plan
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.outcome import Attempt, Reason
from headgate.jobs.execution.settling.actions import DeadLetter
from headgate.jobs.execution.settling.dead_letter import dead_letter
from headgate.lambdas.sweep.handler import write_counts
from headgate.lambdas.sweep.memory import SweepMemory
from headgate.lambdas.sweep.sweeper import Sweeper
from tests.support.backends import async_over
from tests.support.environment import REGION, with_test_credentials
from tests.support.journal import GENEROUS_S
from tests.support.source_bundle import source_bundle

SECRET = "4111-1111"  # noqa: S105 - a payload's, that must not be told


class Order(BaseModel):
    card: str = SECRET


@dataclass
class Deployed:
    """An app with its queues, and the stack's resources for the sweep."""

    app: App
    sqs: AsyncSqsTransport
    endpoint_url: str
    function: str
    topic: str
    inbox: str
    """The queue that is subscribed to the topic, in place of a person."""
    bucket: str

    @property
    def plan(self) -> SweepPlan:
        return sweep_plan(self.app, has_bridge=False)

    def lane(self, job_type: str) -> QueueSpec:
        job = self.app.find_type(job_type)
        return self.app.topology.queue(job.queue, job.priority)

    async def die(self, job_type: str) -> str:
        """Submit a job, and give it up as the worker does; return its id."""
        spec = self.lane(job_type)
        async with AsyncClient(self.app, backend=async_over(self.sqs)) as client:
            handle = await client.submit(self.app.find_type(job_type), Order())
        [message] = await self.sqs.receive(spec.name, limit=1, wait_s=5)
        action = DeadLetter(
            reason=Reason.ATTEMPTS_EXHAUSTED, error_type="CardError", error_message=SECRET
        )
        attempt = Attempt(job_id=handle.id, number=3, max_attempts=3, receives=3)
        now = datetime.now(UTC)
        letter = dead_letter(message, action, attempt, job_type, now, fifo=spec.fifo)
        assert await self.sqs.send(spec.dlq_name, [letter]) == []
        assert await self.sqs.delete(spec.name, [message.receipt]) == []
        return handle.id

    async def redrive(self, job_type: str) -> str:
        """Submit a job, and let SQS itself move it after too many receives; return its id."""
        spec = self.lane(job_type)
        async with AsyncClient(self.app, backend=async_over(self.sqs)) as client:
            handle = await client.submit(self.app.find_type(job_type), Order())
        async with asyncio.timeout(GENEROUS_S):
            while not (await self.sqs.depth(spec.dlq_name)).visible:
                await self.sqs.receive(spec.name, limit=1, wait_s=1, visibility_s=0)
        return handle.id

    async def sweep(self, plan: SweepPlan | None = None) -> dict[str, int]:
        """Invoke the function as its schedule does; return its answer."""
        return await asyncio.to_thread(self._invoke, plan_input(plan or self.plan))

    def _invoke(self, given: Mapping[str, Any]) -> dict[str, int]:
        functions = boto3.client("lambda", endpoint_url=self.endpoint_url, region_name=REGION)
        try:
            answer = functions.invoke(FunctionName=self.function, Payload=json.dumps(given))
            answered: dict[str, int] = json.loads(answer["Payload"].read())
            assert "FunctionError" not in answer, answered
        finally:
            functions.close()
        return answered

    async def told(self, count: int) -> list[tuple[str, str]]:
        """Return the next notifications, as subject and text, however long they take to come."""
        found: list[ReceivedMessage] = []
        async with asyncio.timeout(GENEROUS_S):
            while len(found) < count:
                found += await self.sqs.receive(self.inbox, limit=10, wait_s=5)
        notes = [json.loads(message.body) for message in found]
        return sorted((note["Subject"], note["Message"]) for note in notes)

    async def parked(self) -> dict[str, QueueDepth]:
        """Return the depths of the queues that messages end in."""
        depths = {queue.name: await self.sqs.depth(queue.name) for queue in self.plan.queues}
        return {name: depth for name, depth in depths.items() if depth != _depth(0)}


def _depth(visible: int) -> QueueDepth:
    return QueueDepth(visible=visible, in_flight=0, delayed=0)


@pytest.fixture
async def deployed(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Deployed]:
    with_test_credentials(monkeypatch, tmp_path)
    app = App(f"t{uuid4().hex[:12]}")
    app.define("send-email", Order)
    app.queue("payments", priorities=[Priority.CRITICAL]).define(
        "capture", Order, alert_at_once=True
    )
    ledger = app.queue("ledger", priorities=[Priority.NORMAL], fifo=True)
    ledger.define("book", Order, group_by=lambda _: "g")
    await provision(app.topology, endpoint_url=server)
    async with AsyncExitStack() as stack:
        sqs = await stack.enter_async_context(AsyncSqsTransport(endpoint_url=server))
        yield await asyncio.to_thread(_deploy, app, sqs, server, stack)


def _deploy(app: App, sqs: AsyncSqsTransport, endpoint_url: str, stack: AsyncExitStack) -> Deployed:
    """Create the CDK stack's resources for the sweep; deleted at the end, on a shared server."""

    def client(service: Any) -> Any:
        made = boto3.client(service, endpoint_url=endpoint_url, region_name=REGION)
        stack.callback(made.close)
        return made

    queues, topics, functions, sts = map(client, ("sqs", "sns", "lambda", "sts"))
    topic = topics.create_topic(Name=f"{app.name}-alerts")["TopicArn"]
    stack.callback(topics.delete_topic, TopicArn=topic)
    inbox = f"{app.name}-inbox"
    address = queues.create_queue(QueueName=inbox)["QueueUrl"]
    attributes = queues.get_queue_attributes(QueueUrl=address, AttributeNames=["QueueArn"])
    topics.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=attributes["Attributes"]["QueueArn"])
    bucket = app.topology.bucket.name_in(sts.get_caller_identity()["Account"], REGION)
    function = f"{app.name}-sweep"
    functions.create_function(
        FunctionName=function,
        Runtime="python3.12",
        Role="arn:aws:iam::000000000000:role/function",
        Handler="headgate.lambdas.sweep.handler.handler",
        Code={"ZipFile": source_bundle()},
        Timeout=60,
        Environment={
            "Variables": {
                "AWS_ENDPOINT_URL": endpoint_url,
                "HEADGATE_TABLE": app.topology.table_name,
                "HEADGATE_BUCKET": bucket,
                "HEADGATE_TOPIC": topic,
                "HEADGATE_TICKETS": topic,
            }
        },
    )
    stack.callback(functions.delete_function, FunctionName=function)
    return Deployed(app, sqs, endpoint_url, function, topic, inbox, bucket)


async def test_dead_letters_of_every_kind_are_told_once_and_left_where_they_are(
    deployed: Deployed,
) -> None:
    email, capture = await deployed.redrive("send-email"), await deployed.die("capture")
    books = [await deployed.die("book") for _ in range(2)]
    before = await deployed.parked()

    assert await deployed.sweep() == {"looked_at": 4, "new": 4, "saved": 0, "told": 4}

    [(urgent, of_capture), (subject, of_others)] = sorted(
        await deployed.told(2), key=lambda note: "critical" not in note[0]
    )
    assert urgent == f"[{deployed.app.name}] 1 new critical dead letter: capture"
    assert "capture: attempts-exhausted, CardError" in of_capture
    assert capture in of_capture
    assert subject.startswith(f"[{deployed.app.name}] 3 new dead letters: ")
    assert "send-email: redriven" in of_others
    assert "2 x book: attempts-exhausted, CardError" in of_others
    for job_id in (email, *books):
        assert job_id in of_others
    assert SECRET not in of_capture + of_others
    assert before == {
        deployed.lane("send-email").dlq_name: _depth(1),
        deployed.lane("capture").dlq_name: _depth(1),
        deployed.lane("book").dlq_name: _depth(2),
    }
    assert await deployed.parked() == before
    assert await deployed.sweep() == {"looked_at": 4, "new": 0, "saved": 0, "told": 0}


async def test_what_is_about_to_be_deleted_is_copied_to_the_bucket_once(
    deployed: Deployed,
) -> None:
    job_id = await deployed.die("capture")
    queue = deployed.lane("capture").dlq_name
    soon = [each.model_copy(update={"retention_s": 3600}) for each in deployed.plan.queues]
    plan = deployed.plan.model_copy(update={"queues": tuple(soon)})

    assert (await deployed.sweep(plan))["saved"] == 1
    assert (await deployed.sweep(plan))["saved"] == 0

    [(key, content)] = await asyncio.to_thread(_objects, deployed)
    assert key.startswith(f"{DEAD_LETTERS}{queue}/")
    copy = json.loads(gzip.decompress(content))
    assert copy["attributes"]["JobId"] == json.loads(copy["body"])["id"] == job_id
    assert await deployed.parked() == {queue: _depth(1)}


def _objects(deployed: Deployed) -> list[tuple[str, bytes]]:
    s3 = boto3.client("s3", endpoint_url=deployed.endpoint_url, region_name=REGION)
    try:
        listed = s3.list_objects_v2(Bucket=deployed.bucket, Prefix=DEAD_LETTERS)
        return [
            (each["Key"], s3.get_object(Bucket=deployed.bucket, Key=each["Key"])["Body"].read())
            for each in listed.get("Contents", [])
        ]
    finally:
        s3.close()


async def test_two_sweeps_at_once_tell_once(deployed: Deployed) -> None:
    for _ in range(30):
        await deployed.die("send-email")
    swept = await asyncio.gather(*(asyncio.to_thread(_sweep_here, deployed) for _ in range(4)))
    told = [each for each in swept if each]
    # Sweeps that came after the first had ended found nothing new.
    assert sum(told) == 30
    [(subject, _)] = await deployed.told(1)
    assert "30 new dead letters" in subject
    assert (await deployed.sqs.depth(deployed.inbox)).visible == 0
    assert await deployed.parked() == {deployed.lane("send-email").dlq_name: _depth(30)}


def _sweep_here(deployed: Deployed) -> int | None:
    """Sweep as the function does, in this process; return the number of letters it reported."""
    clock, url = SystemClock(), deployed.endpoint_url
    queues = SqsTransport(endpoint_url=url)
    table = DynamoTable(deployed.app.topology.table_name, endpoint_url=url)
    store = S3Store(deployed.app.topology.bucket, endpoint_url=url)
    topic = SnsPublisher(deployed.topic, endpoint_url=url)
    sweeper = Sweeper(
        deployed.plan,
        queues=queues,
        memory=SweepMemory(table, clock),
        store=store,
        topic=topic,
        tickets=topic,
        clock=clock,
        count=lambda counts: write_counts(deployed.app.name, counts),
    )
    try:
        swept = sweeper.sweep()
    finally:
        for each in (queues, table, store, topic):
            each.close()
    return None if swept is None else swept.told


async def test_a_topic_that_is_gone_is_an_error_of_ours_and_the_next_sweep_tells(
    deployed: Deployed,
) -> None:
    await deployed.die("capture")
    there, deployed.topic = deployed.topic, f"{deployed.topic}-gone"
    with pytest.raises(TransportError, match="sns:Publish"):
        await asyncio.to_thread(_sweep_here, deployed)
    deployed.topic = there
    assert await asyncio.to_thread(_sweep_here, deployed) == 1
    assert len(await deployed.told(1)) == 1


async def test_a_schedule_fires_the_sweep_with_the_plan_as_its_input(deployed: Deployed) -> None:
    job_id = await deployed.die("capture")
    await asyncio.to_thread(_fire_soon, deployed)
    [(_, text)] = await deployed.told(1)
    assert job_id in text


def _fire_soon(deployed: Deployed) -> None:
    """Create the stack's schedule, but to fire once and at once; it deletes itself."""
    scheduler = boto3.client("scheduler", endpoint_url=deployed.endpoint_url, region_name=REGION)
    soon = datetime.now(UTC) + timedelta(seconds=3)
    try:
        scheduler.create_schedule(
            Name=deployed.function,
            ScheduleExpression=f"at({soon:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            Target={
                "Arn": f"arn:aws:lambda:{REGION}:000000000000:function:{deployed.function}",
                "RoleArn": "arn:aws:iam::000000000000:role/schedule",
                "Input": json.dumps(plan_input(deployed.plan)),
            },
        )
    finally:
        scheduler.close()
