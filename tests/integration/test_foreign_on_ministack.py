"""Real messages of S3, SNS and EventBridge to a queue, as far as a local server can send them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from pydantic import BaseModel

from headgate import Accepts, App, Priority, S3Object
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage
from headgate.jobs.definitions.event_rules.event_rule import Occurrence, event_input
from headgate.jobs.execution.delivery import Delivery, Job, load
from tests.support.environment import REGION, with_test_credentials

PATTERN = {"source": ["shop"], "detail-type": ["OrderPlaced"]}


class Order(BaseModel):
    order: int


async def _nothing(_payload: Any) -> None: ...


def _app() -> App:
    app = App(f"t{uuid4().hex[:12]}")
    queue = app.queue("work", priorities=[Priority.NORMAL])
    for name, payload, accepts in (
        ("of-json", Order, Accepts.json()),
        ("of-s3", list[S3Object], Accepts.s3()),
        ("of-sns", Order, Accepts.sns()),
        ("of-events", Order, Accepts.eventbridge()),
    ):
        declared: Any = queue.define(name, payload, accepts=accepts)
        declared.handler(_nothing)

    return app


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A queue of an app, and the services that send to it."""

    app: App
    sqs: AsyncSqsTransport
    endpoint_url: str
    arn: str

    @property
    def queue(self) -> str:
        return self.app.topology.queue("work", Priority.NORMAL).name

    async def call(self, service: str, action: str, **arguments: Any) -> Any:
        """Call a service that Headgate itself does not use."""
        return await asyncio.to_thread(self._call, service, action, arguments)

    async def received(self) -> ReceivedMessage:
        [message] = await self.sqs.receive(self.queue, limit=1, wait_s=20)
        return message

    async def job(self) -> Job:
        """Return the next message as a worker reads it."""
        spec = self.app.topology.queue("work", Priority.NORMAL)
        message = await self.received()
        return load(self.app, Delivery(message=message, queue=spec, received_at=0.0))

    def _call(self, service: str, action: str, arguments: dict[str, Any]) -> Any:
        client: Any = boto3.session.Session().client(  # type: ignore[call-overload]  # which one is decided at run time
            service, endpoint_url=self.endpoint_url, region_name=REGION
        )
        try:
            return getattr(client, action)(**arguments)
        finally:
            client.close()


@pytest.fixture
async def place(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Place]:
    with_test_credentials(monkeypatch, tmp_path)
    app = _app()
    await provision(app.topology, endpoint_url=server)
    name = app.topology.queue("work", Priority.NORMAL).name
    async with AsyncSqsTransport(endpoint_url=server) as sqs:
        place = Place(app=app, sqs=sqs, endpoint_url=server, arn="")
        account = (await place.call("sts", "get_caller_identity"))["Account"]
        arn = f"arn:aws:sqs:{REGION}:{account}:{name}"
        yield Place(app=app, sqs=sqs, endpoint_url=server, arn=arn)


async def test_plain_json_is_read(place: Place) -> None:
    message = OutgoingMessage(body='{"order": 7}', attributes={"JobType": "of-json"})
    await place.sqs.send(place.queue, [message])

    job = await place.job()

    assert (job.type.name, job.payload) == ("of-json", Order(order=7))


@pytest.mark.parametrize("raw", [False, True], ids=["wrapped", "raw"])
async def test_what_sns_delivers_is_read(place: Place, raw: bool) -> None:
    topic = (await place.call("sns", "create_topic", Name=place.app.name))["TopicArn"]
    await place.call(
        "sns",
        "subscribe",
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=place.arn,
        Attributes={"RawMessageDelivery": str(raw).lower()},
    )
    named = {"JobType": {"DataType": "String", "StringValue": "of-sns"}}
    await place.call(
        "sns", "publish", TopicArn=topic, Message='{"order": 7}', MessageAttributes=named
    )

    job = await place.job()

    assert (job.type.name, job.payload) == ("of-sns", Order(order=7))


async def test_what_s3_notifies_of_is_read(place: Place) -> None:
    bucket, key = f"{place.app.name}-uploads", "café/my photo+1.jpg"
    await place.call("s3", "create_bucket", Bucket=bucket)
    await place.call(
        "s3",
        "put_bucket_notification_configuration",
        Bucket=bucket,
        NotificationConfiguration={
            "QueueConfigurations": [{"QueueArn": place.arn, "Events": ["s3:ObjectCreated:*"]}]
        },
    )
    await place.call("s3", "put_object", Bucket=bucket, Key=key, Body=b"x" * 12)

    while not (job := await place.job()).payload:  # the test event, if the server sends one
        pass

    [found] = job.payload
    assert (found.bucket, found.key, found.size) == (bucket, key, 12)
    assert found.event.startswith("ObjectCreated:")


async def _rule(place: Place, **target: Any) -> None:
    """Create a rule that sends events to the queue, and send one event that matches."""
    name = place.app.name
    await place.call("events", "put_rule", Name=name, EventPattern=json.dumps(PATTERN))
    targets = [{"Id": "queue", "Arn": place.arn, **target}]
    await place.call("events", "put_targets", Rule=name, Targets=targets)
    event = {
        "Source": "shop",
        "DetailType": "OrderPlaced",
        "Detail": json.dumps({"order": 7, "text": 'quoted "text" & <more>'}),
    }
    await place.call("events", "put_events", Entries=[event])


async def test_an_event_that_a_rule_sends_is_read(place: Place) -> None:
    await _rule(place)

    job = await place.job()

    assert (job.type.name, job.payload) == ("of-events", Order(order=7))


async def test_what_a_rule_of_on_event_hands_over_is_an_occurrence(place: Place) -> None:
    """Sent to the queue instead of the bridge, which gets the same input."""
    order = place.app.types["of-events"]
    paths = {"order": "$.detail.order", "text": "$.detail.text", "from": "$.source"}
    place.app.event_rule("placed", pattern=PATTERN, job=order, fields=paths)
    template = event_input(place.app.topology, place.app.event_rules["placed"])
    await _rule(place, InputTransformer={"InputTemplate": template})

    occurrence = Occurrence.model_validate(json.loads((await place.received()).body))

    payload = json.loads(occurrence.message(occurrence.event.time).body)["payload"]
    assert payload == {"order": 7, "text": 'quoted "text" & <more>', "from": "shop"}
