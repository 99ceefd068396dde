"""What a test sees of `MemorySqs`: the calls that came, and the messages as they lie there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from headgate.jobs.core.context import Tenant
from headgate.jobs.core.topology import Priority
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.testing.memory.faults import Action
from headgate.jobs.testing.memory.ordering import Message, MessageState

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that the service got, whether or not it failed."""

    action: Action
    queue: str
    entries: int
    """Entries of the batch; for a receive the most that it asked for; 0 for depth."""
    at: datetime
    delays_s: tuple[int, ...] = ()
    """For send: each entry's delay."""
    timeouts_s: tuple[int, ...] = ()
    """For change_visibility: each entry's timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message as it lies in a queue."""

    message_id: str
    body: str
    attributes: Mapping[str, str]
    group: str | None
    deduplication_id: str | None
    receive_count: int
    sent_at: datetime
    state: MessageState
    visible_at: datetime | None
    """When a delayed or in-flight message becomes visible; None for a visible one."""


def stored(message: Message, *, now: datetime, now_s: float) -> StoredMessage:
    """What a test sees of a message; ``now`` and ``now_s`` are one moment on the two clocks."""
    hidden = message.state is not MessageState.VISIBLE
    return StoredMessage(
        message_id=message.id,
        body=message.content.body,
        attributes=message.content.attributes,
        group=message.content.group,
        deduplication_id=message.content.deduplication_id,
        receive_count=message.receive_count,
        sent_at=message.sent_at,
        state=message.state,
        visible_at=now + timedelta(seconds=message.visible_s - now_s) if hidden else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted(Generic[P]):
    """A job that waits in a queue."""

    id: str
    type: str
    payload: P
    queue: str
    priority: Priority
    tenant: Tenant | None
    source: str
    receives: int
    """0 for a job that no one has received yet."""


def submitted(job: JobType[P, Any], envelope: Envelope, receives: int) -> Submitted[P]:
    """A waiting job as tests look at it."""
    return Submitted(
        id=str(envelope.id),
        type=envelope.type,
        payload=job.load(envelope.payload, envelope.schema_),
        queue=envelope.queue,
        priority=envelope.priority,
        tenant=envelope.tenant,
        source=envelope.source,
        receives=receives,
    )
