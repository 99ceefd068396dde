"""SQS's limits on batches, messages and receives, as pure checks.

Numbers: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
Codes and wording follow what SQS answered in LocalStack's recordings against AWS
(https://github.com/localstack/localstack, tests/aws/services/sqs).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import MAX_BATCH, MAX_DELAY, MAX_MESSAGE_BYTES, MAX_VISIBILITY
from headgate.jobs.errors import TransportError

MAX_VISIBILITY_S = int(MAX_VISIBILITY.total_seconds())

_MAX_DELAY_S = int(MAX_DELAY.total_seconds())
_MAX_WAIT_S = 20
_MAX_ATTRIBUTES = 10
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ID = re.compile("[!-~]{1,128}")  # letters, digits and ASCII punctuation
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_ATTRIBUTE_TYPE = "String"  # its name is part of the message's size


class EntryRefused(Exception):
    """SQS refuses one entry of a batch, as a fault of the sender."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code}: {message}")


def invalid_value(value: object, parameter: str, reason: str) -> EntryRefused:
    """Return SQS's InvalidParameterValue, in SQS's wording."""
    return EntryRefused(
        "InvalidParameterValue",
        f"Value {value} for parameter {parameter} is invalid. Reason: {reason}",
    )


def check_batch(entries: Sequence[object]) -> None:
    """Raise ValueError unless there are 1 to 10 entries: a fault in the program, not in the data.

    SQS answers EmptyBatchRequest and TooManyEntriesInBatchRequest.
    """
    if not 1 <= len(entries) <= MAX_BATCH:
        raise ValueError(f"a batch holds 1 to {MAX_BATCH} entries, got {len(entries)}")


def check_receive(limit: int, wait_s: float, visibility_s: int | None) -> None:
    """Raise ValueError for numbers that SQS would refuse."""
    if not 1 <= limit <= MAX_BATCH:
        raise ValueError(f"limit must be 1 to {MAX_BATCH}, got {limit}")
    if not 0 <= wait_s <= _MAX_WAIT_S:
        raise ValueError(f"wait_s must be 0 to {_MAX_WAIT_S}, got {wait_s}")
    if visibility_s is not None and not 0 <= visibility_s <= MAX_VISIBILITY_S:
        raise ValueError(f"visibility_s must be 0 to {MAX_VISIBILITY_S}, got {visibility_s}")


def check_size(messages: Sequence[OutgoingMessage]) -> None:
    """Raise TransportError if the batch as a whole is too big; SQS then takes none of it."""
    size = sum(map(_message_bytes, messages))
    if size > MAX_MESSAGE_BYTES:
        raise TransportError(
            f"BatchRequestTooLong: Batch requests cannot be longer than {MAX_MESSAGE_BYTES} bytes. "
            f"You have sent {size} bytes."
        )


def check_message(message: OutgoingMessage, *, fifo: bool) -> None:
    """Raise EntryRefused for a message that a standard or FIFO queue would not take."""
    _check_body(message.body)
    _check_attributes(message)
    if message.group is not None:
        _check_id("MessageGroupId", message.group)
    if fifo:
        _check_fifo(message)
    else:
        _check_standard(message)


def _message_bytes(message: OutgoingMessage) -> int:
    attributes = sum(
        _bytes(name) + len(_ATTRIBUTE_TYPE) + _bytes(value)
        for name, value in message.attributes.items()
    )
    return _bytes(message.body) + attributes


def _bytes(text: str) -> int:
    # A lone surrogate has no UTF-8 form; it is refused later, as a character, not for its size.
    return len(text.encode(errors="surrogatepass"))


def _check_body(body: str) -> None:
    if not body:
        raise EntryRefused("MissingParameter", "The request must contain the parameter MessageBody")
    if bad := _NOT_XML.search(body):
        raise EntryRefused(
            "InvalidMessageContents",
            f"Invalid binary character '#x{ord(bad[0]):X}' was found in the message body",
        )


def _check_attributes(message: OutgoingMessage) -> None:
    if len(message.attributes) > _MAX_ATTRIBUTES:
        raise EntryRefused(
            "InvalidParameterValue",
            f"Number of message attributes [{len(message.attributes)}] exceeds the allowed "
            f"maximum [{_MAX_ATTRIBUTES}].",
        )
    for name, value in message.attributes.items():
        if not _ATTRIBUTE_NAME.fullmatch(name):
            raise invalid_value(name, "MessageAttributeName", "letters, digits, '_', '-' and '.'")
        if not value:
            raise EntryRefused(
                "InvalidParameterValue",
                f"Message (user) attribute '{name}' must contain a non-empty value of type "
                f"'{_ATTRIBUTE_TYPE}'.",
            )
        if _NOT_XML.search(value):
            raise invalid_value(repr(value), name, "it has characters outside XML's set")


def _check_id(parameter: str, value: str) -> None:
    if not _ID.fullmatch(value):
        raise invalid_value(
            value,
            parameter,
            f"{parameter} can only include alphanumeric and punctuation characters. "
            "1 to 128 in length.",
        )


def _check_standard(message: OutgoingMessage) -> None:
    if not 0 <= message.delay_s <= _MAX_DELAY_S:
        raise invalid_value(
            message.delay_s, "DelaySeconds", f"DelaySeconds must be >= 0 and <= {_MAX_DELAY_S}."
        )
    if message.deduplication_id is not None:
        raise invalid_value(
            message.deduplication_id,
            "MessageDeduplicationId",
            "The request includes a parameter that is not valid for this queue type.",
        )


def _check_fifo(message: OutgoingMessage) -> None:
    if message.delay_s:
        raise invalid_value(
            message.delay_s,
            "DelaySeconds",
            "The request include parameter that is not valid for this queue type.",
        )
    if message.group is None:
        raise EntryRefused(
            "MissingParameter", "The request must contain the parameter MessageGroupId."
        )
    if message.deduplication_id is None:
        raise EntryRefused(
            "InvalidParameterValue",
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly",
        )
    _check_id("MessageDeduplicationId", message.deduplication_id)
