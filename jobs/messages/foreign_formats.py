"""Formats of messages from other senders than Headgate: plain JSON, S3, SNS, EventBridge.

S3's notifications: https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
SNS's wrapper: https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html
EventBridge's events: https://docs.aws.amazon.com/eventbridge/latest/ref/overiew-event-structure.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote_plus

from pydantic_core import from_json

from headgate.jobs.errors import MessageUnreadable
from headgate.jobs.messages.json_paths import at_path, check_paths, mapped
from headgate.jobs.values.light_dataclass import frozen_dataclass

if TYPE_CHECKING:  # declaring a format needs no message
    from headgate.jobs.core.ports.transport import ReceivedMessage

Format = Literal["json", "s3", "sns", "eventbridge"]

JOB_TYPE = "JobType"
"""The message attribute that names the job type of a message."""

_EVENT_FIELDS = frozenset({"id", "detail-type", "source", "time", "detail"})
_S3_TEST = "s3:TestEvent"


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A message from another sender than Headgate, as far as it can be read without a job type."""

    value: Any
    """The JSON values of its body; if wrapped by SNS, those of the inner message, or its text."""
    wrapped: bool
    """True if SNS has wrapped it."""
    job_type: str | None
    """The job type that it names, if any."""

    @property
    def formats(self) -> Sequence[Format]:
        """The formats that accept it, the most specific first."""
        plain: Sequence[Format] = ("sns",) if self.wrapped else ("json", "sns")
        if _is_s3(self.value):
            return ("s3", *plain)
        return ("eventbridge", *plain) if _is_event(self.value) else plain


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Accepts:
    """The format of a type's foreign messages: `json`, `s3`, `sns` or `eventbridge`."""

    format: Format
    fields: Mapping[str, str] | None = None
    """The payload's fields with their paths; None takes the whole value."""

    @classmethod
    def json(cls, fields: Mapping[str, str] | None = None) -> Accepts:
        """Take the body as the payload, as JSON.

        If several types of a queue group accept JSON, the attribute ``JobType`` names the one that
        a message is for.

        Args:
            fields: the payload's fields with their paths in the body (`jobs.messages.json_paths`).
        """
        return cls(format="json", fields=check_paths("Accepts.json", fields))

    @classmethod
    def s3(cls) -> Accepts:
        """Take S3's event notifications, sent directly or through SNS, as a list of `S3Object`.

        The list is empty for the test event that S3 sends when notifications are set up.
        """
        return cls(format="s3")

    @classmethod
    def sns(cls, fields: Mapping[str, str] | None = None) -> Accepts:
        """Take messages published to an SNS topic, as JSON or else as text; wrapped or raw.

        Args:
            fields: the payload's fields with their paths in the published message.
        """
        return cls(format="sns", fields=check_paths("Accepts.sns", fields))

    @classmethod
    def eventbridge(cls, fields: Mapping[str, str] | None = None) -> Accepts:
        """Take events that an EventBridge rule sends to the queue; the payload is their ``detail``.

        Args:
            fields: the payload's fields with their paths in the whole event (``$.detail``).
        """
        return cls(format="eventbridge", fields=check_paths("Accepts.eventbridge", fields))

    def payload(self, foreign: Foreign) -> Any:
        """Return the JSON values of the payload.

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
    """Parse a foreign message, unwrapped if SNS has wrapped it; return None if it is not JSON."""
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
