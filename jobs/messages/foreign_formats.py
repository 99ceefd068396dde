"""How a job type reads messages that no Headgate client wrote: plain JSON, S3, SNS, EventBridge.

S3's notifications: https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
SNS's wrapper: https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html
EventBridge's events: https://docs.aws.amazon.com/eventbridge/latest/ref/overiew-event-structure.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import unquote_plus

from pydantic import BaseModel, ConfigDict
from pydantic_core import from_json

from headgate.jobs.core.ports import ReceivedMessage
from headgate.jobs.errors import MessageUnreadable
from headgate.jobs.messages.json_paths import at_path, check_paths, mapped

Format = Literal["json", "s3", "sns", "eventbridge"]

JOB_TYPE = "JobType"
"""The message attribute that names the job type which a message is for."""

_EVENT_FIELDS = frozenset({"id", "detail-type", "source", "time", "detail"})
_S3_TEST = "s3:TestEvent"


class S3Object(BaseModel):
    """One object that S3 tells of; what accepts ``Accepts.s3()`` takes ``list[S3Object]``."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    event: str
    """What happened, such as ``ObjectCreated:Put``."""
    at: datetime
    bucket: str
    key: str
    """As it is; S3 sends it URL-encoded."""
    size: int | None = None
    """In bytes; None for an object that was deleted, and so are the others."""
    etag: str | None = None
    version_id: str | None = None
    sequencer: str | None = None
    """Orders the events of one key, compared as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A message that no Headgate client wrote, as far as it can be read without a type."""

    value: Any
    """The JSON values of its body; of a message wrapped by SNS, those within, or their text."""
    wrapped: bool
    """SNS has wrapped it."""
    job_type: str | None
    """Which type it names."""

    @property
    def formats(self) -> Sequence[Format]:
        """What accepts it: the format that says most of it first."""
        plain: Sequence[Format] = ("sns",) if self.wrapped else ("json", "sns")
        if _is_s3(self.value):
            return ("s3", *plain)
        return ("eventbridge", *plain) if _is_event(self.value) else plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepts:
    """How a type reads foreign messages. Made by `json`, `s3`, `sns` and `eventbridge`."""

    format: Format
    fields: Mapping[str, str] | None = None
    """The payload's fields with their paths; None takes the whole."""

    @classmethod
    def json(cls, fields: Mapping[str, str] | None = None) -> Accepts:
        """The body is the payload, as JSON.

        Where several types of a queue group accept JSON, the attribute ``JobType`` says which one
        a message is for.

        Args:
            fields: the payload's fields with their paths in the body (`jobs.messages.json_paths`).
        """
        return cls(format="json", fields=check_paths("Accepts.json", fields))

    @classmethod
    def s3(cls) -> Accepts:
        """S3's event notifications, sent straight or through SNS; the payload is a list of
        `S3Object`. It is empty for the test event that S3 sends when notifications are set up."""
        return cls(format="s3")

    @classmethod
    def sns(cls, fields: Mapping[str, str] | None = None) -> Accepts:
        """What was published to an SNS topic, as JSON or else as text; wrapped, or raw.

        Args:
            fields: the payload's fields with their paths in what was published.
        """
        return cls(format="sns", fields=check_paths("Accepts.sns", fields))

    @classmethod
    def eventbridge(cls, fields: Mapping[str, str] | None = None) -> Accepts:
        """Events that an EventBridge rule sends to the queue; the payload is their ``detail``.

        Args:
            fields: the payload's fields with their paths in the whole event (``$.detail``).
        """
        return cls(format="eventbridge", fields=check_paths("Accepts.eventbridge", fields))

    def payload(self, foreign: Foreign) -> Any:
        """The JSON values of the payload.

        Raises:
            MessageUnreadable: the message is not of this format.
        """
        if self.format not in foreign.formats:
            raise MessageUnreadable(f"the message is not what Accepts.{self.format}() reads")
        if self.format == "s3":
            return _objects(foreign.value)
        if self.fields is not None:
            return mapped(self.fields, foreign.value)
        return foreign.value["detail"] if self.format == "eventbridge" else foreign.value


def opened(message: ReceivedMessage) -> Foreign | None:
    """A foreign message, unwrapped if SNS has wrapped it; None if it is not JSON."""
    try:
        value = from_json(message.body)
    except (ValueError, TypeError):  # TypeError: UTF-8 can't hold a lone surrogate
        return None
    job_type = message.attributes.get(JOB_TYPE)
    if not _is_sns(value):
        return Foreign(value=value, wrapped=False, job_type=job_type)
    named = at_path(f"$.MessageAttributes.{JOB_TYPE}.Value", value)
    return Foreign(
        value=_json_or_text(value["Message"]),
        wrapped=True,
        job_type=job_type or (named if isinstance(named, str) else None),
    )


def _is_sns(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("Type") == "Notification"
        and isinstance(value.get("Message"), str)
        and "TopicArn" in value
    )


def _json_or_text(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return text


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() >= _EVENT_FIELDS


def _is_s3(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("Event") == _S3_TEST:
        return True
    records = value.get("Records")
    return (
        isinstance(records, list)
        and bool(records)
        and all(isinstance(each, dict) and each.get("eventSource") == "aws:s3" for each in records)
    )


def _objects(notification: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        return [_object(record) for record in notification.get("Records", ())]
    except (KeyError, TypeError, AttributeError) as error:
        raise MessageUnreadable("the message is not a notification as S3 sends them") from error


def _object(record: Mapping[str, Any]) -> dict[str, Any]:
    found = record["s3"]["object"]
    return {
        "event": record["eventName"],
        "at": record["eventTime"],
        "bucket": record["s3"]["bucket"]["name"],
        "key": unquote_plus(found["key"]),
        "size": found.get("size"),
        "etag": found.get("eTag"),
        "version_id": found.get("versionId"),
        "sequencer": found.get("sequencer"),
    }
