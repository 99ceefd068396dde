"""Reading of dead letters: the counterpart of `jobs.execution.settling.dead_letter`.

A message gets into a dead-letter queue in three ways:

    the worker sent it                     its attributes name the job and the reason
    SQS moved it, after too many receives  it is as it was submitted: the body names the job
    a firing or an event became no job     the body is the input, or Lambda's record of it

Anything else may be there too: what can't be determined is None, or empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import from_json

from headgate.jobs.core.ports import ReceivedMessage
from headgate.jobs.errors import MessageError
from headgate.jobs.execution.outcome import Reason
from headgate.jobs.messages.envelope import parse
from headgate.jobs.schedules.inputs import OCCURRENCE, parse_input, tag_of

REDRIVEN = "redriven"
"""The reason of messages that SQS moved by itself: received too often, and never settled."""

NOT_SUBMITTED = "not-submitted"
"""The reason of a firing or an event that did not become a job."""

_MAX_DIGITS = 9
"""Digits in a count of attempts: Python refuses to read a number of thousands of digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedMessage:
    """A message in a dead-letter queue, in the quarantine or among the failed firings."""

    message_id: str
    """SQS's own id."""
    job_id: str | None
    job_type: str | None
    reason: str
    """One of `jobs.execution.outcome.Reason`, ``quarantined``, ``redriven`` or ``not-submitted``.
    """
    error_type: str = ""
    error_message: str = ""
    """The error's message, which may quote the payload: not for logs or mails."""
    attempts: int | None = None
    failed_at: datetime | None = None
    sent_at: datetime
    """Time at which it came to the queue; for a standard queue's message that SQS itself moved, the
    time at which it was first sent, from which SQS continues to count its retention.
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html"""

    def deleted_at(self, retention: timedelta) -> datetime:
        """Return the time at which SQS deletes it from a queue of that retention."""
        return self.sent_at + retention


def read_parked(message: ReceivedMessage) -> ParkedMessage:
    """Read a message of a dead-letter queue or of the quarantine."""
    told = message.attributes
    job_id, job_type = _named_by(message.body)
    return ParkedMessage(
        message_id=message.message_id,
        job_id=told.get("JobId") or job_id,
        job_type=told.get("JobType") or job_type,
        reason=told.get("Reason") or REDRIVEN,
        error_type=told.get("ErrorType", ""),
        error_message=told.get("ErrorMessage", ""),
        attempts=_count(told.get("Attempts", "")),
        failed_at=_time(told.get("FailedAt", "")),
        sent_at=message.sent_at,
    )


def read_unsubmitted(message: ReceivedMessage) -> ParkedMessage:
    """Read the message left by a firing or an event that became no job.

    Lambda's record has the bridge's error beside the input; if Lambda didn't take the event,
    EventBridge leaves the input and gives the reason in attributes.
    https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html
    https://docs.aws.amazon.com/scheduler/latest/UserGuide/configuring-schedule-dlq.html
    """
    body = _object(message.body)
    response = _mapping(body.get("responsePayload"))
    told = message.attributes
    given = _mapping(body["requestPayload"]) if "requestPayload" in body else body
    job_id, job_type = _described_by(given)
    return ParkedMessage(
        message_id=message.message_id,
        job_id=job_id,
        job_type=job_type,
        reason=NOT_SUBMITTED,
        error_type=str(response.get("errorType") or told.get("ERROR_CODE", "")),
        error_message=str(response.get("errorMessage") or told.get("ERROR_MESSAGE", "")),
        sent_at=message.sent_at,
    )


def unread(message: ReceivedMessage) -> ParkedMessage:
    """Return a placeholder for a message that can't be read at all."""
    return ParkedMessage(
        message_id=message.message_id,
        job_id=None,
        job_type=None,
        reason=Reason.UNREADABLE,
        sent_at=message.sent_at,
    )


def _named_by(body: str) -> tuple[str | None, str | None]:
    """Return the job's id and type, from its envelope."""
    try:
        envelope = parse(body)
    except MessageError:
        return None, None
    return str(envelope.id), envelope.type


def _described_by(given: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the job's id and type, from the bridge's input."""
    job = _mapping(given.get("job")) if tag_of(given) == OCCURRENCE else given
    job_type = job.get("type")
    return _id_of(given), job_type if isinstance(job_type, str) else None


def _id_of(given: Mapping[str, Any]) -> str | None:
    if isinstance(named := given.get("job_id"), str):
        return named
    try:
        return str(parse_input(given).job_id)
    except MessageError:
        return None


def _object(text: str) -> Mapping[str, Any]:
    try:
        return _mapping(from_json(text))
    except ValueError:
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None
