"""Errors of received messages that can't become jobs."""

from __future__ import annotations

from headgate.jobs.errors.root import HeadgateError


class MessageError(HeadgateError):
    """A received message can't be run here; it is backed off and then parked, never deleted."""


class MessageUnreadable(MessageError):
    """The body is not a Headgate message, or its payload no longer fits the type's model."""


class MessageTypeUnknown(MessageError):
    """The app has no type of that name; another version of it may have one."""


class MessageQueueWrong(MessageError):
    """The message is in a queue from which its type doesn't run."""


class MessageSchemaNewer(MessageError):
    """The message was written by a newer version, in a format that this one can't read."""


class PayloadUnopenable(MessageError):
    """The payload is sealed, and can't be opened: damaged, another job's, or of an unknown key."""


class PayloadNotSealed(MessageError):
    """The payload is not sealed, which ``Encryption(required=True)`` demands."""


class MessageUnsigned(MessageError):
    """The message has no signature, and the app's messages are signed."""


class SignatureInvalid(MessageError):
    """The message's signature is not that of its body in its queue, by any key of the app."""


class PayloadLost(MessageError):
    """The payload is not in the message, and the object that holds it is gone or damaged."""
