"""Reading of dead letters: the counterpart of `jobs.execution.settling.dead_letter`.

A message gets into a dead-letter queue in three ways:

    the worker sent it                     its attributes name the job and the reason
    SQS moved it, after too many receives  it is as it was submitted: the body names the job, or
                                           holds a bundle of jobs
    a firing or an event became no job     the body is the input, or Lambda's record of it

Anything else may be there too: what can't be determined is None, or empty. Texts are cut and made
legible, so that a letter without its content is small, whatever is in the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic_core import from_json

from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.topology import Priority, Topology
from headgate.jobs.dead_letters.letter import DeadLetter, LetterContent
from headgate.jobs.deployment.sweep_plan import ParkingQueue
from headgate.jobs.errors import MessageError, UnknownQueue
from headgate.jobs.execution.outcome import Reason
from headgate.jobs.execution.settling.dead_letter import QUARANTINED, REPLAYS, count_in
from headgate.jobs.messages.bundles import jobs_of
from headgate.jobs.messages.envelope import parse
from headgate.jobs.schedules.inputs import DELAYED, OCCURRENCE, parse_input, tag_of
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.texts import LONGEST_NAME, legible

REDRIVEN = "redriven"
"""The reason of messages that SQS moved by itself: received too often, and never settled."""

NOT_SUBMITTED = "not-submitted"
"""The reason of a firing or an event that did not become a job."""

REASONS = frozenset({*map(str, Reason), QUARANTINED, REDRIVEN, NOT_SUBMITTED})
"""All reasons that Headgate gives. A message may name any other: its attributes are its sender's.
"""

REPLAYED = "replay:"
"""The start of ``source`` in the body of a job that was replayed."""

_MAX_CHARS = 1_024
"""Characters of an error's message; the worker writes no more."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """The job as a message's body names it."""

    job_id: str | None = None
    job_type: str | None = None
    group: str | None = None
    priority: Priority | None = None
    tenant: str | None = None
    origin: str | None = None
    """The physical name of its queue."""
    is_replay: bool = False
    note: str = ""
    """More about the message, if its attributes give no error."""


def read_letter(
    message: ReceivedMessage, queue: ParkingQueue, topology: Topology | None = None
) -> DeadLetter:
    """Read a message of a dead-letter queue, the quarantine or the queue of failed firings.

    Args:
        message: the message; any.
        queue: the queue that it lies in.
        topology: the app's queues, by which the origin is found if ``queue`` has no single one.
    """
    read = _read_unsubmitted if queue.kind == "unsubmitted" else _read_parked
    return read(message, queue, topology)


def content_of(message: ReceivedMessage) -> LetterContent:
    """Return what is needed to send a message again."""
    return LetterContent(
        body=message.body, attributes=dict(message.attributes), group=message.group
    )


def unread(message: ReceivedMessage, queue: ParkingQueue) -> DeadLetter:
    """Return a placeholder for a message that can't be read at all."""
    return DeadLetter(
        message_id=message.message_id,
        job_id=None,
        job_type=None,
        reason=Reason.UNREADABLE,
        sent_at=message.sent_at,
        queue=queue.name,
        origin=queue.home,
        content=content_of(message),
    )


def _read_parked(
    message: ReceivedMessage, queue: ParkingQueue, topology: Topology | None
) -> DeadLetter:
    told = message.attributes
    named = _named_by(message.body, topology)
    return DeadLetter(
        message_id=message.message_id,
        job_id=_name(told.get("JobId")) or named.job_id,
        job_type=_name(told.get("JobType")) or named.job_type,
        reason=_name(told.get("Reason")) or REDRIVEN,
        error_type=_name(told.get("ErrorType")) or "",
        error_message=legible(told.get("ErrorMessage") or named.note, _MAX_CHARS),
        attempts=count_in(told.get("Attempts", "")),
        failed_at=_time(told.get("FailedAt", "")),
        sent_at=message.sent_at,
        queue=queue.name,
        origin=queue.home or named.origin,
        group=queue.label if queue.home else named.group,
        priority=named.priority,
        tenant=named.tenant,
        replays=count_in(told.get(REPLAYS, "")) or int(named.is_replay),
        content=content_of(message),
    )


def _read_unsubmitted(
    message: ReceivedMessage, queue: ParkingQueue, topology: Topology | None
) -> DeadLetter:
    """Read the message left by a firing or an event that became no job.

    Lambda's record has the bridge's error beside the input; if Lambda didn't take the event,
    EventBridge leaves the input and gives the reason in attributes.
    https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html
    https://docs.aws.amazon.com/scheduler/latest/UserGuide/configuring-schedule-dlq.html
    """
    response = _mapping(_object(message.body).get("responsePayload"))
    told = message.attributes
    named = _described_by(_given(message.body), topology)
    return DeadLetter(
        message_id=message.message_id,
        job_id=named.job_id,
        job_type=named.job_type,
        reason=NOT_SUBMITTED,
        error_type=_name(response.get("errorType") or told.get("ERROR_CODE")) or "",
        error_message=legible(
            response.get("errorMessage") or told.get("ERROR_MESSAGE", ""), _MAX_CHARS
        ),
        sent_at=message.sent_at,
        queue=queue.name,
        origin=named.origin,
        group=named.group,
        priority=named.priority,
        tenant=unsubmitted_tenant(message.body),
        content=content_of(message),
    )


def held_in(body: str) -> str | None:
    """Return the body of the delayed job that became none, by the body of its letter; None if that
    is not of a delayed job."""
    given = _given(body)
    held = given.get("body") if tag_of(given) == DELAYED else None
    return held if isinstance(held, str) else None


def unsubmitted_tenant(body: str) -> str | None:
    """Return the ``org`` of the tenant of what became no job, by the body of its letter."""
    if (held := held_in(body)) is not None:
        return _named_by(held, None).tenant
    return _text(_mapping(_given(body).get("tenant")).get("org"))


def _given(body: str) -> Mapping[str, Any]:
    """Return the bridge's input, by the body of the letter that it left."""
    whole = _object(body)
    return _mapping(whole["requestPayload"]) if "requestPayload" in whole else whole


def _named_by(body: str, topology: Topology | None) -> _Named:
    """Return the job that an envelope names; of a bundle, what its jobs have in common."""
    if (jobs := jobs_of(body)) is not None:
        first = _named_by(jobs[0], topology)
        return replace(first, job_id=None, note=f"a bundle of {len(jobs)} jobs")
    try:
        envelope = parse(body)
    except MessageError:
        return _Named()
    return _Named(
        job_id=str(envelope.id),
        job_type=envelope.type,
        group=envelope.queue,
        priority=envelope.priority,
        tenant=envelope.tenant.org if envelope.tenant else None,
        origin=_origin(topology, envelope.queue, envelope.priority),
        is_replay=envelope.source.startswith(REPLAYED),
    )


def _described_by(given: Mapping[str, Any], topology: Topology | None) -> _Named:
    """Return the job that the bridge's input describes; a delayed one's queue is in its message."""
    if tag_of(given) == DELAYED:
        held = _named_by(str(given.get("body")), topology)
        return replace(held, job_id=_id_of(given), job_type=_text(given.get("type")))
    job = _mapping(given.get("job")) if tag_of(given) == OCCURRENCE else given
    group, priority = _text(job.get("queue")), _text(job.get("priority"))
    known = next((each for each in Priority if each == priority), None)
    return _Named(
        job_id=_id_of(given),
        job_type=_text(job.get("type")),
        group=group,
        priority=known,
        origin=_origin(topology, group, known),
    )


def _origin(topology: Topology | None, group: str | None, priority: Priority | None) -> str | None:
    if topology is None or group is None or priority is None:
        return None
    try:
        return topology.queue(group, priority).name
    except UnknownQueue:
        return None


def _id_of(given: Mapping[str, Any]) -> str | None:
    if (named := _text(given.get("job_id"))) is not None:
        return named
    try:
        return str(parse_input(given).job_id)
    except MessageError:
        return None


def _object(text: str) -> Mapping[str, Any]:
    try:
        return _mapping(from_json(text))
    except (ValueError, TypeError):  # TypeError: UTF-8 can't hold a lone surrogate
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _name(value: object) -> str | None:
    """Return a name as a short text; None if there is none."""
    return legible(value, LONGEST_NAME) if value else None


def _text(value: object) -> str | None:
    return _name(value) if isinstance(value, str) else None


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None
