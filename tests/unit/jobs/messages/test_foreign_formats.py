"""Messages that no Headgate client wrote, run by the types that accept them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headgate import Accepts, App, Priority, S3Object
from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage
from headgate.jobs.errors import (
    ConfigurationError,
    MessageQueueWrong,
    MessageSchemaNewer,
    MessageUnreadable,
    PayloadInvalid,
)
from headgate.jobs.execution.delivery import Delivery, Job, load
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.testing import Harness

SENT = datetime(2026, 3, 1, 8, tzinfo=UTC)


class Order(BaseModel):
    order: int


S3_EVENT: dict[str, Any] = {
    "Records": [
        {
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "awsRegion": "eu-central-1",
            "eventTime": "2026-03-01T08:00:00.000Z",
            "eventName": "ObjectCreated:Put",
            "s3": {
                "bucket": {"name": "uploads", "arn": "arn:aws:s3:::uploads"},
                "object": {
                    "key": "caf%C3%A9/my+photo%2B1.jpg",
                    "size": 1024,
                    "eTag": "d41d8cd98f00b204e9800998ecf8427e",
                    "sequencer": "0055AED6DCD90281E5",
                },
            },
        }
    ]
}
S3_TEST = {
    "Service": "Amazon S3",
    "Event": "s3:TestEvent",
    "Time": "2026-03-01T08:00:00.000Z",
    "Bucket": "uploads",
    "RequestId": "5582815E1AEA5ADF",
    "HostId": "8cLeGAmw098X5cv4Zkwcmo8vvZa3eH3eKxsPzbB9wrR",
}
EVENT = {
    "version": "0",
    "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
    "detail-type": "OrderPlaced",
    "source": "shop",
    "account": "111122223333",
    "time": "2026-03-01T08:00:00Z",
    "region": "eu-central-1",
    "resources": [],
    "detail": {"order": 7, "items": [{"sku": "a"}]},
}


def by_sns(message: Any, **attributes: str) -> dict[str, Any]:
    """Return a published message as SNS wraps it."""
    return {
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": "arn:aws:sns:eu-central-1:111122223333:orders",
        "Message": message if isinstance(message, str) else json.dumps(message),
        "Timestamp": "2026-03-01T08:00:00.000Z",
        "MessageAttributes": {
            name: {"Type": "String", "Value": value} for name, value in attributes.items()
        },
    }


def accepting(**types: tuple[Any, Accepts]) -> App:
    """Return an app with a type per keyword on its default queue."""
    app = App("shop", priorities="all")
    for name, (payload, accepts) in types.items():
        declared = app.define(name, payload, accepts=accepts)

        @declared.handler
        async def _(_payload: Any) -> None: ...

    return app


def read(app: App, body: Any, *, message_id: str = "m-1", **attributes: str) -> Job:
    text = body if isinstance(body, str) else json.dumps(body)
    message = ReceivedMessage(
        message_id=message_id,
        receipt="r",
        body=text,
        receive_count=1,
        sent_at=SENT,
        attributes=attributes,
    )
    queue = app.topology.queue("jobs", Priority.HIGH)
    return load(app, Delivery(message=message, queue=queue, received_at=0.0))


# --- formats -------------------------------------------------------------------------------------


def test_plain_json_is_the_payload_of_the_type_that_its_attribute_names() -> None:
    app = accepting(ship=(Order, Accepts.json()), bill=(Order, Accepts.json()))

    job = read(app, {"order": 7}, JobType="bill")

    assert (job.type.name, job.payload) == ("bill", Order(order=7))


def test_plain_json_without_an_attribute_is_for_the_only_type_that_accepts_it() -> None:
    app = accepting(ship=(Order, Accepts.json()))

    assert read(app, {"order": 7}).type.name == "ship"


def test_json_from_elsewhere_may_have_its_own_shape() -> None:
    app = accepting(ship=(Order, Accepts.json(fields={"order": "$.data[1].number"})))

    assert read(app, {"data": [{}, {"number": 7}]}).payload == Order(order=7)


@pytest.mark.parametrize("body", [S3_EVENT, by_sns(S3_EVENT)], ids=["straight", "through SNS"])
def test_s3_s_notifications_are_objects_with_their_keys_as_they_are(body: Any) -> None:
    job = read(accepting(thumbnail=(list[S3Object], Accepts.s3())), body)

    assert job.payload == [
        S3Object(
            event="ObjectCreated:Put",
            at=SENT,
            bucket="uploads",
            key="café/my photo+1.jpg",
            size=1024,
            etag="d41d8cd98f00b204e9800998ecf8427e",
            sequencer="0055AED6DCD90281E5",
        )
    ]
    assert job.envelope.source == "foreign:s3"


@pytest.mark.parametrize("body", [S3_TEST, by_sns(S3_TEST)], ids=["straight", "through SNS"])
def test_s3_s_test_event_is_no_object(body: Any) -> None:
    assert read(accepting(thumbnail=(list[S3Object], Accepts.s3())), body).payload == []


@pytest.mark.parametrize("body", [by_sns({"order": 7}), {"order": 7}], ids=["wrapped", "raw"])
def test_what_was_published_to_sns_is_the_payload(body: Any) -> None:
    assert read(accepting(ship=(Order, Accepts.sns())), body).payload == Order(order=7)


def test_a_text_that_was_published_to_sns_is_a_text() -> None:
    assert read(accepting(say=(str, Accepts.sns())), by_sns("hello")).payload == "hello"


def test_an_attribute_that_sns_wrapped_names_the_type_too() -> None:
    app = accepting(ship=(Order, Accepts.sns()), bill=(Order, Accepts.json()))

    job = read(app, by_sns({"order": 7}, JobType="ship"))

    assert (job.type.name, job.envelope.source) == ("ship", "foreign:sns")


@pytest.mark.parametrize("body", [EVENT, by_sns(EVENT)], ids=["straight", "through SNS"])
def test_the_detail_of_an_event_is_the_payload(body: Any) -> None:
    job = read(accepting(ship=(Order, Accepts.eventbridge())), body)

    assert job.payload == Order(order=7)


def test_fields_of_an_event_are_taken_by_their_paths() -> None:
    paths = {"order": "$.detail.order", "what": "$.detail-type", "sku": "$.detail.items[0].sku"}

    job = read(accepting(ship=(dict[str, Any], Accepts.eventbridge(fields=paths))), EVENT)

    assert job.payload == {"order": 7, "what": "OrderPlaced", "sku": "a"}


def test_each_format_finds_its_type_among_all_of_them() -> None:
    app = accepting(
        a=(Any, Accepts.s3()),
        b=(Any, Accepts.eventbridge()),
        c=(Any, Accepts.sns()),
        d=(Any, Accepts.json()),
    )

    found = [read(app, body).type.name for body in (S3_EVENT, EVENT, by_sns("x"), {"order": 7})]

    assert found == ["a", "b", "c", "d"]


# --- the resulting job ---------------------------------------------------------------------------


def test_a_foreign_job_is_of_the_queue_it_came_from_and_as_old_as_its_message() -> None:
    job = read(accepting(ship=(Order, Accepts.json())), {"order": 7})

    assert job.envelope.queue == "jobs"
    assert job.envelope.priority is Priority.HIGH
    assert job.envelope.submitted_at == SENT
    assert job.envelope.source == "foreign:json"
    assert job.rewritten


def test_its_id_follows_from_that_of_the_message() -> None:
    app = accepting(ship=(Order, Accepts.json()))

    first, again = read(app, {"order": 7}), read(app, {"order": 7})
    other = read(app, {"order": 7}, message_id="m-2")

    assert first.envelope.id == again.envelope.id != other.envelope.id
    assert first.envelope.id.version == 7


def test_what_comes_back_of_its_dead_letter_is_the_same_job() -> None:
    app = accepting(ship=(Order, Accepts.json()), bill=(Order, Accepts.json()))
    first = read(app, {"order": 7}, JobType="ship")

    back = read(app, {"order": 7}, message_id="other", JobType="ship", JobId=str(first.envelope.id))

    assert back.envelope.id == first.envelope.id
    assert read(app, {"order": 7}, JobType="ship", JobId="42").envelope.id == first.envelope.id


def test_a_dead_letter_that_named_no_type_is_read_once_a_type_accepts_it() -> None:
    app = accepting(ship=(Order, Accepts.json()))

    assert read(app, {"order": 7}, JobType="unknown").type.name == "ship"


# --- refused messages ----------------------------------------------------------------------------


def test_a_type_that_accepts_nothing_is_not_handed_foreign_messages() -> None:
    app = App("shop", priorities="all")

    @app.job("ship")
    async def ship(_order: Order) -> None: ...

    with pytest.raises(MessageUnreadable, match="is not a Headgate message"):
        read(app, {"order": 7}, JobType="ship")


def test_a_message_for_a_type_that_is_not_known_here_is_left_to_other_workers() -> None:
    with pytest.raises(MessageUnreadable):
        read(accepting(ship=(Order, Accepts.json())), {"order": 7}, JobType="from-the-future")


def test_json_that_could_be_for_several_types_is_for_none() -> None:
    app = accepting(ship=(Order, Accepts.json()), bill=(Order, Accepts.json()))

    with pytest.raises(MessageUnreadable, match="no attribute JobType to say which of ship, bill"):
        read(app, {"order": 7})


def across_queues(**accepting: Any) -> App:
    """Return an app whose type ``ship`` belongs to another queue than the one that is read."""
    app = App("shop", priorities="all")

    @app.queue("elsewhere").job("ship", accepts=Accepts.json(), **accepting)
    async def ship(_order: Order) -> None: ...

    app.define("other", Order)
    return app


def test_a_type_of_another_queue_takes_nothing_though_it_is_named() -> None:
    with pytest.raises(MessageUnreadable):
        read(across_queues(), {"order": 7})
    with pytest.raises(MessageQueueWrong, match=r"declare the type with accepts_from=\['jobs'\]"):
        read(across_queues(), {"order": 7}, JobType="ship")


def test_a_type_takes_foreign_messages_from_a_queue_that_it_accepts() -> None:
    app = across_queues(accepts_from=["jobs"])

    job = read(app, {"order": 7})

    assert (job.type.name, job.payload) == ("ship", Order(order=7))
    assert (job.envelope.queue, job.envelope.priority) == ("jobs", Priority.HIGH)
    assert read(app, {"order": 7}, JobType="ship").payload == Order(order=7)


@pytest.mark.parametrize(
    ("accepts", "body"),
    [
        (Accepts.s3(), {"order": 7}),
        (Accepts.s3(), {"Records": [{"eventSource": "aws:s3"}]}),
        (Accepts.s3(), {"Records": [{"eventSource": "aws:s3", "s3": {"object": {"key": 5}}}]}),
        (Accepts.s3(), {"Records": []}),
        (Accepts.eventbridge(), {"detail": {"order": 7}}),
        (Accepts.json(), by_sns({"order": 7})),
        (Accepts.json(), "hello"),
        (Accepts.sns(), "hello"),
    ],
)
def test_a_message_of_another_format_is_unreadable_though_it_names_the_type(
    accepts: Accepts, body: Any
) -> None:
    with pytest.raises(MessageUnreadable):
        read(accepting(ship=(Any, accepts)), body, JobType="ship")


def test_a_payload_that_does_not_fit_is_invalid_and_not_shown() -> None:
    with pytest.raises(PayloadInvalid, match="order: Input should be a valid integer") as refused:
        read(accepting(ship=(Order, Accepts.json())), {"order": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_a_broken_headgate_message_is_nobody_s_json() -> None:
    broken = {"v": 1, "id": "42", "type": "ship", "payload": {"order": 7}}

    with pytest.raises(MessageUnreadable, match="is not a Headgate message: id"):
        read(accepting(ship=(Any, Accepts.json())), broken, JobType="ship")


def test_a_message_of_a_newer_format_is_left_to_newer_workers() -> None:
    with pytest.raises(MessageSchemaNewer):
        read(accepting(ship=(Any, Accepts.json())), {"v": 2, "order": 7})


@given(
    body=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    wrapped=st.booleans(),
)
def test_whatever_comes_is_a_job_or_unreadable(body: Any, wrapped: bool) -> None:
    app = accepting(
        a=(Any, Accepts.s3()),
        b=(Any, Accepts.eventbridge(fields={"x": "$.detail.x"})),
        c=(Any, Accepts.sns()),
        d=(Any, Accepts.json()),
    )
    try:
        job = read(app, by_sns(body) if wrapped else body)
    except (MessageUnreadable, MessageSchemaNewer):
        return
    assert isinstance(job.envelope.id, UUID)


# --- declarations --------------------------------------------------------------------------------


@pytest.mark.parametrize("accepts", [Accepts.s3(), Accepts.sns(), Accepts.eventbridge()])
def test_two_types_of_a_queue_can_not_both_accept_untyped_messages(
    accepts: Accepts,
) -> None:
    app = App("shop")
    app.define("one", Order, accepts=accepts)
    app.queue("elsewhere").define("apart", Order, accepts=accepts)

    with pytest.raises(ConfigurationError, match=f"'one' and 'two'.*both accept {accepts.format}"):
        app.define("two", Order, accepts=accepts)


def test_s3_can_not_notify_a_fifo_queue() -> None:
    ledger = App("shop").queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    with pytest.raises(ConfigurationError, match="is FIFO, to which S3 sends none"):
        ledger.define("thumbnail", list[S3Object], accepts=Accepts.s3())


def test_accepts_has_to_be_made_by_accepts() -> None:
    untyped: Any = "json"
    with pytest.raises(ConfigurationError, match=r"accepts must be made by Accepts\.json\(\)"):
        accepting(ship=(Order, untyped))


@pytest.mark.parametrize("queues", ["uploads", ["Uploads"], [5], {"uploads": 1}, None])
def test_accepts_from_has_to_be_a_list_of_names(queues: Any) -> None:
    with pytest.raises(ConfigurationError, match="accepts_from"):
        across_queues(accepts_from=queues)


@pytest.mark.parametrize(
    "path", ["detail.order", "$detail", "$.", "$..order", "$.items[x]", "$.items[", "", 5]
)
def test_an_invalid_path_is_refused_where_it_is_declared(path: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"fields\['order'\] must be a path"):
        Accepts.eventbridge(fields={"order": path})


@pytest.mark.parametrize("fields", [{}, ["$.order"]])
def test_a_map_has_to_name_a_field(fields: Any) -> None:
    with pytest.raises(ConfigurationError, match="fields must name at least one field"):
        Accepts.json(fields=fields)


# --- in tests ------------------------------------------------------------------------------------


def test_a_harness_shows_and_runs_foreign_messages_like_others() -> None:
    ran: list[int] = []
    app = App("shop")

    @app.job("ship", accepts=Accepts.json())
    async def ship(order: Order) -> None:
        ran.append(order.order)

    harness = Harness(app)
    queue = app.topology.queue("jobs", Priority.NORMAL).name
    messages = [OutgoingMessage(body='{"order": 7}'), OutgoingMessage(body="not JSON")]
    assert harness.sqs.sync.send(queue, messages) == []

    [waiting] = harness.submitted(ship)
    assert (waiting.payload, waiting.source) == (Order(order=7), "foreign:json")
    harness.drain()
    assert ran == [7]
    [letter] = harness.dead_letters()
    assert (letter.body, letter.attributes["Reason"]) == ("not JSON", "unreadable")


def test_a_harness_runs_no_type_of_another_queue() -> None:
    app = across_queues()
    app.types["other"].handler(lambda _order: None)
    harness = Harness(app)
    queue = app.topology.queue("jobs", Priority.NORMAL).name
    body = Envelope(
        v=1,
        id=UUID(int=7),
        type="ship",
        payload={"order": 7},
        queue="elsewhere",
        priority=Priority.NORMAL,
        submitted_at=SENT,
    ).to_body()
    assert harness.sqs.sync.send(queue, [OutgoingMessage(body=body)]) == []

    harness.drain()

    assert len(harness.completed(app.types["ship"])) == 0
    [letter] = harness.dead_letters(app.types["ship"])
    assert letter.attributes["Reason"] == "wrong-queue"
