"""Dead letters: messages with the original body, and the reason in their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.execution.outcome import Attempt
from headgate.jobs.execution.settling.actions import DeadLetter, Quarantine
from headgate.jobs.values.json_values import is_utf8
from headgate.jobs.values.texts import encodable, legible

QUARANTINED = "quarantined"
"""The reason of messages in the quarantine, beside those of `jobs.execution.outcome.Reason`."""

REPLAYS = "Replays"
"""The message attribute that counts a job's replays."""

_MAX_ATTRIBUTES = 10  # of a message (SQS Developer Guide, message metadata)
_MAX_CHARS = 1024
_KEPT = ("Reason", REPLAYS, "JobId")
_MAX_DIGITS = 9
"""Digits in a count: Python refuses to read a number of thousands of digits."""


def dead_letter(
    message: ReceivedMessage,
    action: DeadLetter | Quarantine,
    attempt: Attempt,
    job_type: str,
    at: datetime,
    *,
    fifo: bool = False,
) -> OutgoingMessage:
    """Return the message to send to the dead-letter or quarantine queue in place of ``message``.

    It carries ``JobId``, ``JobType``, ``ErrorType``, ``ErrorMessage``, ``Attempts``, ``FailedAt``
    and ``Reason``, and as many of the original's attributes as fit into SQS's limit of ten:
    ``Replays``, by which replays end, whatever the others are, and those in the order of their
    names, since SQS tells none. If SQS's 1 MiB leaves little room beside the body,
    ``ErrorMessage`` is cut to fit, and attributes that don't fit are left out.
    """
    replays = message.attributes.get(REPLAYS, "")
    details = {
        "Reason": QUARANTINED,
        **({} if count_in(replays) is None else {REPLAYS: replays}),
        "JobId": attempt.job_id,
        "JobType": job_type,
        "Attempts": str(attempt.number),
        "FailedAt": at.isoformat(timespec="milliseconds"),
        **_cause(action),
    }
    wanted = {name: legible(text, _MAX_CHARS) for name, text in details.items()}
    body = encodable(message.body)
    return OutgoingMessage(
        body=body,
        attributes=_fitting(body, {**_encodable(message.attributes), **wanted}, first=wanted),
        group=None if message.group is None else encodable(message.group),
        deduplication_id=str(uuid4()) if fifo else None,
    )


def count_in(text: str) -> int | None:
    """Return the count that an attribute holds; None if it is no count."""
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


def _encodable(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes by name, without lone surrogates; names that need escaping are left
    out."""
    return {name: encodable(value) for name, value in sorted(attributes.items()) if is_utf8(name)}


def bare(letter: OutgoingMessage) -> OutgoingMessage:
    """Return a dead letter with only its reason, replays and job id, for when SQS has refused it.

    SQS accepted the original once, so it can only object to what was added.
    """
    kept = {name: letter.attributes[name] for name in _KEPT if name in letter.attributes}
    return replace(letter, attributes=kept)


def _cause(action: DeadLetter | Quarantine) -> dict[str, str]:
    match action:
        case DeadLetter(reason=reason, error_type=error_type, error_message=detail):
            return {"Reason": reason, "ErrorType": error_type, "ErrorMessage": detail}
        case Quarantine(detail=detail):
            return {"ErrorMessage": detail}


def _fitting(body: str, attributes: Mapping[str, str], first: Iterable[str]) -> dict[str, str]:
    """Return as many attributes, ``first`` first, as SQS accepts beside the body."""
    fitting: dict[str, str] = {}
    left = MAX_MESSAGE_BYTES - len(body.encode())
    for name in dict.fromkeys((*first, *attributes)):
        value = attributes[name]
        room = left - len(name.encode()) - len("String")
        if name == "ErrorMessage":
            value = _cut(value, room)
        size = len(value.encode())
        if 0 < size <= room and len(fitting) < _MAX_ATTRIBUTES:  # SQS takes no empty value
            fitting[name] = value
            left = room - size
    return fitting


def _cut(text: str, size: int) -> str:
    """Return the start of a text, in whole characters, that has at most ``size`` bytes."""
    return text.encode()[: max(0, size)].decode(errors="ignore")
