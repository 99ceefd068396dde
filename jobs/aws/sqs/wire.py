"""SQS's requests and responses as plain dicts, to and from the dataclasses of `jobs.core.ports`.

Pure, and shared by both transports. An entry's Id in a batch is its index.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_Operations.html
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from headgate.jobs.core.existing.arns import bare_name, owner_of
from headgate.jobs.core.ports.transport import (
    EntryFailure,
    OutgoingMessage,
    QueueDepth,
    ReceivedMessage,
    VisibilityChange,
)
from headgate.jobs.values.own_log import OwnLog

_FIRST_RECEIVED = "ApproximateFirstReceiveTimestamp"
_RECEIVED = ["ApproximateReceiveCount", "SentTimestamp", _FIRST_RECEIVED, "MessageGroupId"]
_DEPTH = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
]

_log = OwnLog("headgate.sqs")

Request = dict[str, Any]
Response = Mapping[str, Any]


# --- requests ------------------------------------------------------------------------------------


def url_request(queue: str) -> Request:
    """Return the arguments of GetQueueUrl for a queue's name, or its ARN in any account.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueUrl.html
    """
    owner = owner_of(queue)
    of_owner = {} if owner is None else {"QueueOwnerAWSAccountId": owner}
    return {"QueueName": bare_name(queue), **of_owner}


def send_request(url: str, messages: Sequence[OutgoingMessage]) -> Request:
    """Return the arguments of SendMessageBatch."""
    return {
        "QueueUrl": url,
        "Entries": [_outgoing(index, message) for index, message in enumerate(messages)],
    }


def _outgoing(index: int, message: OutgoingMessage) -> dict[str, Any]:
    entry: dict[str, Any] = {"Id": str(index), "MessageBody": message.body}
    if message.attributes:
        entry["MessageAttributes"] = {
            name: {"DataType": "String", "StringValue": value}
            for name, value in message.attributes.items()
        }
    if message.delay_s:  # else the queue's own delay counts, the only one that FIFO queues take
        entry["DelaySeconds"] = message.delay_s
    if message.group is not None:
        entry["MessageGroupId"] = message.group
    if message.deduplication_id is not None:
        entry["MessageDeduplicationId"] = message.deduplication_id
    return entry


def receive_request(url: str, *, limit: int, wait_s: float, visibility_s: int | None) -> Request:
    """Return the arguments of ReceiveMessage.

    SQS waits whole seconds. A fraction is rounded up: rounded down to 0 it would be a short poll,
    which asks only some of SQS's servers and may miss messages.
    """
    request: Request = {
        "QueueUrl": url,
        "MaxNumberOfMessages": limit,
        "WaitTimeSeconds": math.ceil(wait_s),
        "MessageSystemAttributeNames": _RECEIVED,
        "MessageAttributeNames": ["All"],
    }
    if visibility_s is not None:
        request["VisibilityTimeout"] = visibility_s
    return request


def delete_request(url: str, receipts: Sequence[str]) -> Request:
    """Return the arguments of DeleteMessageBatch."""
    return {
        "QueueUrl": url,
        "Entries": [
            {"Id": str(index), "ReceiptHandle": receipt} for index, receipt in enumerate(receipts)
        ],
    }


def change_visibility_request(url: str, changes: Sequence[VisibilityChange]) -> Request:
    """Return the arguments of ChangeMessageVisibilityBatch."""
    return {
        "QueueUrl": url,
        "Entries": [
            {
                "Id": str(index),
                "ReceiptHandle": change.receipt,
                "VisibilityTimeout": change.timeout_s,
            }
            for index, change in enumerate(changes)
        ],
    }


def depth_request(url: str) -> Request:
    """Return the arguments of GetQueueAttributes for a queue's depth."""
    return {"QueueUrl": url, "AttributeNames": _DEPTH}


# --- responses -----------------------------------------------------------------------------------


def read_url(response: Response) -> str:
    """Return the queue's address from the response of GetQueueUrl."""
    return _text(response["QueueUrl"])


def read_failures(response: Response, entries: int) -> list[EntryFailure]:
    """Return the entries of a batch of ``entries`` that SQS did not carry out, in order.

    An entry that is not expressly ``Successful`` has failed, even one without an answer.
    """
    successful = {entry["Id"] for entry in response.get("Successful", ())}
    failed = {entry["Id"]: entry for entry in response.get("Failed", ())}
    return [
        _failure(index, failed.get(str(index)))
        for index in range(entries)
        if str(index) in failed or str(index) not in successful
    ]


def _failure(index: int, entry: Mapping[str, Any] | None) -> EntryFailure:
    if entry is None:
        return EntryFailure(
            index=index,
            code="NoAnswer",
            message="SQS's response named this entry neither successful nor failed",
            sender_fault=False,
        )
    return EntryFailure(
        index=index,
        code=_text(entry["Code"]),
        message=_text(entry.get("Message", "")),
        sender_fault=entry["SenderFault"] is True,
    )


def read_messages(response: Response) -> list[ReceivedMessage]:
    """Return the deliveries from the response of ReceiveMessage; empty without messages.

    A delivery that can't be read is left out, and logged without its content. SQS delivers it again
    when its visibility timeout ends.

    Raises:
        Exception: none of them can be read, so this is not an answer of SQS's.
    """
    found: list[ReceivedMessage] = []
    fault: Exception | None = None
    for message in response.get("Messages", ()):
        try:
            found.append(_received(message))
        except Exception as error:  # noqa: BLE001 - one delivery must not hide the others
            fault = error
            _log.warning("skipping a received message that can't be read: %s", type(error).__name__)
    if fault is not None and not found:
        raise fault
    return found


def _received(message: Mapping[str, Any]) -> ReceivedMessage:
    system = message["Attributes"]
    group = system.get("MessageGroupId")
    message_id, receipt, body = message["MessageId"], message["ReceiptHandle"], message["Body"]
    attributes = {
        name: attribute["StringValue"]
        for name, attribute in message.get("MessageAttributes", {}).items()
        if "StringValue" in attribute  # a foreign sender's may be binary; Headgate's never are
    }
    _require_texts(message_id, receipt, body, "" if group is None else group, *attributes.values())
    return ReceivedMessage(
        message_id=message_id,
        receipt=receipt,
        body=body,
        receive_count=int(system["ApproximateReceiveCount"]),
        sent_at=datetime.fromtimestamp(int(system["SentTimestamp"]) / 1000, UTC),
        attributes=attributes,
        group=group,
        first_received_ms=system.get(_FIRST_RECEIVED),
    )


def read_depth(response: Response) -> QueueDepth:
    """Return the depth from the response of GetQueueAttributes."""
    visible, in_flight, delayed = (int(response["Attributes"][name]) for name in _DEPTH)
    return QueueDepth(visible=visible, in_flight=in_flight, delayed=delayed)


def _text(value: Any) -> str:
    _require_texts(value)
    return str(value)


def _require_texts(*values: Any) -> None:
    if wrong := {*map(type, values)} - {str}:
        raise TypeError(f"SQS's answer has {wrong.pop().__name__} where a string belongs")
