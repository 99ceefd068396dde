"""Envelopes of received messages, of other senders too.

A message is either an envelope of Headgate's, or a foreign message that a job type accepts: the
type that its attribute ``JobType`` names; without that attribute, the type that runs from its queue
group and accepts its format.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import types_from
from headgate.jobs.errors import MessageUnreadable
from headgate.jobs.messages.envelope import VERSION, Envelope, parse
from headgate.jobs.messages.foreign_formats import Accepts, Foreign, opened
from headgate.jobs.messages.job_ids import derived_job_id

JOB_ID = "JobId"
"""The message attribute that keeps a dead letter's job id when it is sent back to its queue."""

UNNAMED = "unknown"
"""The ``JobType`` of the dead letter of a message that names no type."""

_OURS = frozenset({"v", "id", "type"})


def envelope_of(app: App, message: ReceivedMessage, queue: QueueSpec) -> tuple[Envelope, bool]:
    """Return a message's envelope, and True if the message is a foreign one.

    Raises:
        MessageUnreadable, MessageSchemaNewer: it can't be read as a job here.
    """
    try:
        return parse(message.body), False
    except MessageUnreadable:
        # Types that accept something are few, and most apps have none.
        if (foreign := opened(message)) is None or _is_ours(foreign.value):
            raise
        if (declared := _taker(app, foreign, queue)) is None or declared.accepts is None:
            raise
    return _adopted(declared, declared.accepts, foreign, message, queue), True


def _adopted(
    declared: JobType[Any, Any],
    accepts: Accepts,
    foreign: Foreign,
    message: ReceivedMessage,
    queue: QueueSpec,
) -> Envelope:
    return Envelope(
        v=VERSION,
        id=_job_id(message),
        type=declared.name,
        schema=declared.schema,
        payload=accepts.payload(foreign),
        queue=queue.group,
        priority=queue.priority,
        submitted_at=message.sent_at,
        source=f"foreign:{accepts.format}",
    )


def _is_ours(value: Any) -> bool:
    """Return True for a Headgate message, even a broken one: no type that accepts foreign messages
    may run it."""
    return isinstance(value, dict) and value.keys() >= _OURS


def _taker(app: App, foreign: Foreign, queue: QueueSpec) -> JobType[Any, Any] | None:
    if (named := foreign.job_type) is not None and named != UNNAMED:
        return app.types.get(named)
    accepting = [each for each in types_from(app, queue.group) if each.accepts]
    for wanted in foreign.formats:
        found = [each for each in accepting if each.accepts and each.accepts.format == wanted]
        if len(found) > 1:
            names = ", ".join(each.name for each in found)
            raise MessageUnreadable(
                f"the message has no attribute JobType to say which of {names} it is for"
            )
        if found:
            return found[0]
    return None


def _job_id(message: ReceivedMessage) -> UUID:
    """Return a job id that is the same for every delivery, and for a redriven dead letter."""
    try:
        return UUID(message.attributes[JOB_ID])
    except (KeyError, ValueError):
        return derived_job_id(message.sent_at, "sqs", message.message_id)
