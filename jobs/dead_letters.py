"""What a dead letter looks like: the original body, and as attributes why it is there."""

from __future__ import annotations

import re
from datetime import datetime
from uuid import uuid4

from jobs.outcome import Attempt
from jobs.ports import OutgoingMessage, ReceivedMessage
from jobs.settlement import DeadLetter, Quarantine
from jobs.topology import MAX_MESSAGE_BYTES

_MAX_ATTRIBUTES = 10  # of a message (SQS Developer Guide, message metadata)
_MAX_ERROR_CHARS = 1024
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def dead_letter(
    message: ReceivedMessage,
    action: DeadLetter | Quarantine,
    attempt: Attempt,
    job_type: str,
    at: datetime,
    *,
    fifo: bool = False,
) -> OutgoingMessage:
    """The message to send to the dead-letter or quarantine queue in place of ``message``.

    It carries ``JobId``, ``JobType``, ``ErrorType``, ``ErrorMessage``, ``Attempts``, ``FailedAt``
    and ``Reason``, and of the original's own attributes as many as SQS's ten leave room for.
    ``ErrorMessage`` is cut to what fits into SQS's 1 MiB beside the body.
    """
    attributes = {
        "JobId": attempt.job_id,
        "JobType": job_type,
        "Attempts": str(attempt.number),
        "FailedAt": at.isoformat(timespec="milliseconds"),
        **_reason(action),
    }
    for name, value in message.attributes.items():
        if len(attributes) < _MAX_ATTRIBUTES:
            attributes.setdefault(name, value)
    return OutgoingMessage(
        body=message.body,
        attributes=_fitting(message.body, {name: v for name, v in attributes.items() if v}),
        group=message.group,
        deduplication_id=str(uuid4()) if fifo else None,
    )


def _reason(action: DeadLetter | Quarantine) -> dict[str, str]:
    match action:
        case DeadLetter(reason=reason, error_type=error_type, error_message=detail):
            return {
                "Reason": str(reason),
                "ErrorType": error_type,
                "ErrorMessage": _legible(detail),
            }
        case Quarantine(detail=detail):
            return {"Reason": "quarantined", "ErrorMessage": _legible(detail)}


def _legible(text: str) -> str:
    """Only characters that SQS takes (those of XML 1.0), and not many."""
    return _NOT_XML.sub("\ufffd", text)[:_MAX_ERROR_CHARS]


def _fitting(body: str, attributes: dict[str, str]) -> dict[str, str]:
    """Drop the error's text where the body leaves no room: a dead letter must be sendable."""
    size = len(body.encode()) + sum(
        len(name.encode()) + len("String") + len(value.encode())
        for name, value in attributes.items()
    )
    if size > MAX_MESSAGE_BYTES:
        return {name: value for name, value in attributes.items() if name == "Reason"}
    return attributes
