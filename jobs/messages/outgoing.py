"""An envelope as an SQS message."""

from __future__ import annotations

import re

from headgate.jobs.core.ports import OutgoingMessage
from headgate.jobs.messages.envelope import Envelope

_GROUP_ID = re.compile("[!-~]{1,128}")
"""ASCII letters, digits and punctuation.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html"""


def is_group_id(value: object) -> bool:
    """True if SQS takes it as a MessageGroupId."""
    return isinstance(value, str) and _GROUP_ID.fullmatch(value) is not None


def message_of(
    envelope: Envelope, *, delay_s: int = 0, fifo_group: str | None = None
) -> OutgoingMessage:
    """The message that carries a job; its attributes tell what it is without reading the body.

    Args:
        envelope: the body.
        delay_s: 0 to 900.
        fifo_group: for a FIFO queue, the group whose order it keeps. SQS then drops what is sent
            under the same job's id within five minutes.
    """
    return OutgoingMessage(
        body=sendable(envelope.to_body()),
        attributes={
            "JobType": envelope.type,
            "Priority": str(envelope.priority),
            "Source": envelope.source,
        },
        delay_s=delay_s,
        group=fifo_group or (envelope.tenant.org if envelope.tenant else None),
        deduplication_id=str(envelope.id) if fifo_group else None,
    )


def lane_of(message: OutgoingMessage) -> str | None:
    """The FIFO group whose order a message keeps; None on a queue that keeps none."""
    return message.group if message.deduplication_id is not None else None


def size_of(message: OutgoingMessage) -> int:
    """A message's bytes as SQS counts them: body, and each attribute's name, type and value."""
    return len(message.body.encode()) + sum(
        len(name) + len("String") + len(value.encode())
        for name, value in message.attributes.items()
    )


def sendable(body: str) -> str:
    """A body of JSON without the two characters that SQS refuses, escaped and so the same."""
    # JSON escapes control characters itself; of what XML 1.0 excludes these two remain, and SQS
    # refuses a body that holds them. They can only stand inside strings, where an escape is equal.
    return body.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
