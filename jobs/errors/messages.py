"""A received message can't become a job."""

from __future__ import annotations

from headgate.jobs.errors.root import HeadgateError


class MessageError(HeadgateError):
    """A received message can't be run here; it is backed off and then parked, never deleted."""


class MessageUnreadable(MessageError):
    """The body is not a Headgate message, or its payload no longer fits the type's model."""


class MessageTypeUnknown(MessageError):
    """No type of that name in this app: another version of it may know the type."""


class MessageQueueWrong(MessageError):
    """The message is in a queue that its type neither belongs to nor accepts messages from."""


class MessageSchemaNewer(MessageError):
    """The message was written by a newer version than this one understands."""


class PayloadLost(MessageError):
    """The payload is not in the message, and the object that holds it is gone or damaged."""
