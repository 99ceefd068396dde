from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.aws.sqs import wire
from headgate.jobs.core.ports.transport import (
    EntryFailure,
    OutgoingMessage,
    QueueDepth,
    VisibilityChange,
)

URL = "https://sqs.us-east-1.amazonaws.com/123456789012/shop-jobs-high"

THEIRS = "arn:aws:sqs:us-east-1:123456789012:orders"

REQUESTS: list[tuple[str, Callable[[], wire.Request]]] = [
    (
        "SendMessageBatch",
        lambda: wire.send_request(
            URL,
            [
                OutgoingMessage(body="{}"),
                OutgoingMessage(
                    body="{}",
                    attributes={"JobType": "send-email"},
                    delay_s=900,
                    group="org-1",
                    deduplication_id="d",
                ),
            ],
        ),
    ),
    (
        "ReceiveMessage",
        lambda: wire.receive_request(URL, limit=10, wait_s=20, visibility_s=60),
    ),
    ("DeleteMessageBatch", lambda: wire.delete_request(URL, ["a", "b"])),
    (
        "ChangeMessageVisibilityBatch",
        lambda: wire.change_visibility_request(URL, [VisibilityChange(receipt="a", timeout_s=0)]),
    ),
    ("GetQueueAttributes", lambda: wire.depth_request(URL)),
    ("GetQueueUrl", lambda: wire.url_request("shop-jobs-high")),
    ("GetQueueUrl", lambda: wire.url_request(THEIRS)),
]


@cache
def _sqs() -> ServiceModel:
    return ServiceModel(Loader().load_service_model("sqs", "service-2"))


@pytest.mark.parametrize(("operation", "build"), REQUESTS, ids=[name for name, _ in REQUESTS])
def test_every_request_passes_botocores_own_validation(
    operation: str, build: Callable[[], wire.Request]
) -> None:
    shape = _sqs().operation_model(operation).input_shape
    assert shape is not None
    report = ParamValidator().validate(build(), shape)
    assert not report.has_errors(), report.generate_report()


def test_a_plain_message_is_sent_as_an_id_and_a_body_alone() -> None:
    request = wire.send_request(URL, [OutgoingMessage(body="{}")])
    assert request["Entries"] == [{"Id": "0", "MessageBody": "{}"}]


def test_a_message_is_sent_with_all_that_it_says() -> None:
    message = OutgoingMessage(
        body="{}", attributes={"JobType": "x"}, delay_s=5, group="org-1", deduplication_id="d"
    )
    assert wire.send_request(URL, [message])["Entries"] == [
        {
            "Id": "0",
            "MessageBody": "{}",
            "MessageAttributes": {"JobType": {"DataType": "String", "StringValue": "x"}},
            "DelaySeconds": 5,
            "MessageGroupId": "org-1",
            "MessageDeduplicationId": "d",
        }
    ]


@given(st.lists(st.text(), max_size=10))
def test_entries_keep_their_order_and_their_index_is_their_id(bodies: list[str]) -> None:
    entries = wire.send_request(URL, [OutgoingMessage(body=body) for body in bodies])["Entries"]
    assert [(entry["Id"], entry["MessageBody"]) for entry in entries] == [
        (str(index), body) for index, body in enumerate(bodies)
    ]


@pytest.mark.parametrize(("wait_s", "asked"), [(0, 0), (0.2, 1), (1, 1), (19.5, 20), (20, 20)])
def test_a_wait_is_rounded_up_to_whole_seconds_so_that_it_stays_a_long_poll(
    wait_s: float, asked: int
) -> None:
    request = wire.receive_request(URL, limit=1, wait_s=wait_s, visibility_s=None)
    assert request["WaitTimeSeconds"] == asked


def test_a_receive_leaves_the_visibility_to_the_queue_unless_told() -> None:
    assert "VisibilityTimeout" not in wire.receive_request(
        URL, limit=1, wait_s=0, visibility_s=None
    )
    shown_at_once = wire.receive_request(URL, limit=1, wait_s=0, visibility_s=0)
    assert shown_at_once["VisibilityTimeout"] == 0


@given(st.lists(st.sampled_from(["successful", "failed", "both", "unanswered"]), max_size=10))
def test_every_entry_not_confirmed_is_reported_once(
    fates: list[str],
) -> None:
    response = {
        "Successful": [
            {"Id": str(index)} for index, fate in enumerate(fates) if fate in ("successful", "both")
        ],
        "Failed": [
            {"Id": str(index), "Code": "InternalError", "SenderFault": False}
            for index, fate in enumerate(fates)
            if fate in ("failed", "both")
        ],
    }
    failures = wire.read_failures(response, len(fates))
    assert [failure.index for failure in failures] == [
        index for index, fate in enumerate(fates) if fate != "successful"
    ]


def test_a_failure_keeps_the_code_message_and_blame_that_sqs_gives() -> None:
    response = {
        "Failed": [{"Id": "0", "Code": "InvalidX", "Message": "why", "SenderFault": True}],
    }
    assert wire.read_failures(response, 1) == [
        EntryFailure(index=0, code="InvalidX", message="why", sender_fault=True)
    ]


def test_an_empty_response_means_that_every_entry_failed() -> None:
    assert [failure.code for failure in wire.read_failures({}, 2)] == ["NoAnswer", "NoAnswer"]


def test_success_of_an_id_that_was_never_sent_hides_no_entry() -> None:
    response = {"Successful": [{"Id": "0"}, {"Id": "7"}]}
    assert [failure.index for failure in wire.read_failures(response, 2)] == [1]


def _delivery(**changes: Any) -> dict[str, Any]:
    delivery = {
        "MessageId": "m",
        "ReceiptHandle": "r",
        "Body": "{}",
        "Attributes": {"ApproximateReceiveCount": "3", "SentTimestamp": "1767225600500"},
    }
    return delivery | changes


def test_a_delivery_is_read_with_its_count_and_the_time_it_was_sent_in_utc() -> None:
    [message] = wire.read_messages({"Messages": [_delivery()]})
    assert (message.message_id, message.receipt, message.body) == ("m", "r", "{}")
    assert message.receive_count == 3
    assert message.sent_at == datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC)
    assert message.attributes == {}
    assert message.group is None


def test_a_delivery_is_read_with_the_time_it_was_first_received() -> None:
    [message] = wire.read_messages({"Messages": [_first_received("1767225601500")]})
    assert message.first_received_at == datetime(2026, 1, 1, 0, 0, 1, 500_000, UTC)


@pytest.mark.parametrize("said", [None, "", "soon", "9" * 30, {}, "0"])
def test_an_implausible_first_receive_time_falls_back_to_the_sent_time(
    said: object,
) -> None:
    [message] = wire.read_messages({"Messages": [_first_received(said)]})
    assert message.first_received_at == message.sent_at


def _first_received(said: object) -> dict[str, Any]:
    attributes = {"ApproximateReceiveCount": "3", "SentTimestamp": "1767225600500"}
    return _delivery(Attributes=attributes | {"ApproximateFirstReceiveTimestamp": said})


def test_a_foreign_senders_binary_attribute_is_left_out_and_the_rest_is_kept() -> None:
    delivery = _delivery(
        MessageAttributes={
            "JobType": {"DataType": "String", "StringValue": "x"},
            "Count": {"DataType": "Number", "StringValue": "3"},
            "Blob": {"DataType": "Binary", "BinaryValue": b"\x00"},
        },
    )
    [message] = wire.read_messages({"Messages": [delivery]})
    assert message.attributes == {"JobType": "x", "Count": "3"}


def test_a_response_without_messages_is_an_empty_list() -> None:
    assert wire.read_messages({}) == []


def test_a_depth_tells_visible_hidden_and_delayed_messages_apart() -> None:
    response = {
        "Attributes": {
            "ApproximateNumberOfMessages": "1",
            "ApproximateNumberOfMessagesNotVisible": "2",
            "ApproximateNumberOfMessagesDelayed": "3",
        }
    }
    assert wire.read_depth(response) == QueueDepth(visible=1, in_flight=2, delayed=3)


def test_a_queue_is_asked_for_by_its_name_or_in_the_account_of_its_arn() -> None:
    assert wire.url_request("orders") == {"QueueName": "orders"}
    assert wire.url_request(THEIRS) == {
        "QueueName": "orders",
        "QueueOwnerAWSAccountId": "123456789012",
    }
