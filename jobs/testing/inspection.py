"""Views of `MemorySqs` for tests: the calls that it received, and the messages in its queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeAlias, TypeVar

from headgate.jobs.core.events import Event, JobCompleted, JobDeadLettered, JobSubmitted
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import Priority
from headgate.jobs.definitions.job_type import Given, JobType
from headgate.jobs.errors import PayloadLost
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.testing.memory.faults import Action
from headgate.jobs.testing.memory.ordering import Message, MessageState
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass

P = TypeVar("P")

Received: TypeAlias = Mapping[str, tuple[Envelope, int]]
"""Received jobs by their ids, each with its number of receives."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that the service received, whether or not it failed."""

    action: Action
    queue: str
    entries: int
    """Entries of the batch; for a receive, the most that it asked for; 0 for depth."""
    at: datetime
    delays_s: tuple[int, ...] = ()
    """Each entry's delay, for send."""
    timeouts_s: tuple[int, ...] = ()
    """Each entry's timeout, for change_visibility."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message in a queue."""

    message_id: str
    body: str
    attributes: Mapping[str, str]
    group: str | None
    deduplication_id: str | None
    receive_count: int
    sent_at: datetime
    state: MessageState
    visible_at: datetime | None
    """Time at which a delayed or in-flight message becomes visible; None for a visible one."""


def stored(message: Message, *, now: datetime, now_s: float) -> StoredMessage:
    """Return a test's view of a message; ``now`` and ``now_s`` are one moment on the two clocks."""
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


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
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
    """Number of receives; 0 for a job that has not been received yet."""


def submitted(job: JobType[P, Any], envelope: Envelope, receives: int) -> Submitted[P]:
    """Return a test's view of a waiting job."""
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


def the_one(
    waiting: Sequence[Submitted[P]], job: JobType[P, Any], payload: Given[P]
) -> Submitted[P]:
    """Return the only one of the waiting jobs of a type that has a payload.

    Raises:
        AssertionError: there is none, or more than one.
        PayloadInvalid: the payload doesn't fit the type's model.
    """
    given: Any = payload
    wanted = job.load(job.dump(given))
    matching = [each for each in waiting if each.payload == wanted]
    if len(matching) != 1:
        raise AssertionError(
            f"expected one {job.name!r} with {wanted!r}, found {len(matching)} among "
            f"{[each.payload for each in waiting]!r}"
        )
    return matching[0]


def order_of_submission(events: Iterable[Event]) -> dict[str, int]:
    """Return the place of each submitted job among all, by its id."""
    # Ids don't show it: the clock stands still between submissions.
    submissions = (event for event in events if isinstance(event, JobSubmitted))
    return {event.job_id: number for number, event in enumerate(submissions)}


def completed(
    events: Iterable[Event], job: JobType[P, Any], received: Received
) -> list[Submitted[P]]:
    """Return a type's jobs that have completed, but for those that were in no queue."""
    ended = _ids_of(events, JobCompleted, job)
    return [submitted(job, *received[each]) for each in ended if each in received]


def dead_lettered(
    events: Iterable[Event], job: JobType[P, Any], received: Received
) -> list[Submitted[P]]:
    """Return a type's jobs that have been dead-lettered.

    Raises:
        PayloadInvalid: one has a payload that its type can't read.
        PayloadLost: the payload of one is gone, or can't be opened.
    """
    ended = _ids_of(events, JobDeadLettered, job)
    if lost := [each for each in ended if each not in received]:
        raise PayloadLost(f"the payload of the dead job {lost[0]} of {job.name!r} can't be had")
    return [submitted(job, *received[each]) for each in ended]


def _ids_of(
    events: Iterable[Event], kind: type[JobCompleted | JobDeadLettered], job: JobType[Any, Any]
) -> list[str]:
    """Return the ids of a type's jobs that have ended so, in the order of the events."""
    return [
        event.job_id for event in events if isinstance(event, kind) and event.job_type == job.name
    ]
