"""SQS messages built from envelopes."""

from __future__ import annotations

import re

from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.messages.envelope import Envelope

_GROUP_ID = re.compile("[!-~]{1,128}")
"""ASCII letters, digits and punctuation.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html"""


def is_group_id(value: object) -> bool:
    """Return True if SQS accepts the value as a MessageGroupId."""
    return isinstance(value, str) and _GROUP_ID.fullmatch(value) is not None


def message_of(
    envelope: Envelope, *, delay_s: int = 0, fifo_group: str | None = None
) -> OutgoingMessage:
    """Build a job's message; its attributes identify the job without reading the body.

    Args:
        envelope: the body.
        delay_s: seconds of delay, 0 to 900.
        fifo_group: on a FIFO queue, the group within which order is kept. SQS then drops messages
            with the same job's id that are sent within five minutes.
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
    """Return the FIFO group within which a message keeps its order; None on a standard queue."""
    return message.group if message.deduplication_id is not None else None


def sendable(body: str) -> str:
    """Return a JSON body with the two characters that SQS refuses escaped, so equal in meaning."""
    # JSON escapes control characters itself; of those that XML 1.0 excludes these two remain, and
    # SQS refuses a body with them. They can only occur in strings, where an escape is equivalent.
    return body.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
