"""Event rules, which submit jobs for EventBridge events, and the input that the bridge gets.

One model serves both ends: `event_input` renders it into a rule when the app is deployed,
EventBridge inserts the event, and the bridge reads it back (`jobs.schedules.inputs`). The mapping
from event to payload is data (`jobs.messages.json_paths`), so the bridge doesn't need the app's
code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from headgate.jobs.core.naming import check_name
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import Priority, Topology
from headgate.jobs.definitions.event_rules.event_patterns import checked_pattern
from headgate.jobs.errors import ConfigurationError, MessageUnreadable
from headgate.jobs.messages.envelope import VERSION, Envelope, Moment, Name
from headgate.jobs.messages.job_ids import derived_job_id
from headgate.jobs.messages.json_paths import at_path, check_path, check_paths, mapped
from headgate.jobs.messages.outgoing import is_group_id, message_of
from headgate.jobs.values.light_dataclass import light_dataclass

if TYPE_CHECKING:  # the bridge has no app
    from headgate.jobs.definitions.job_type import JobType

_EVENT = "<aws.events.event.json>"
"""The placeholder in an input template that EventBridge replaces with the whole event.
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html"""

_BUS = r"(arn:aws[\w-]*:events:[a-z0-9-]+:[0-9]{12}:event-bus/)?[/.\-_A-Za-z0-9]+"
_MAX_BUS_NAME = 1_600
"""Maximum characters of an event bus's name or ARN.
https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutRule.html"""

_MAX_RULE_NAME = 64  # https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutRule.html

_Text = Annotated[str, Field(min_length=1)]


@light_dataclass(frozen=True, slots=True, kw_only=True)
class EventRule:
    """A rule that submits a job for each matching event. Created by `App.event_rule`."""

    name: str
    pattern: Mapping[str, Any]
    """The event pattern, in EventBridge's syntax.
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns.html"""
    type: JobType[Any, Any]
    fields: Mapping[str, str] | None
    """The payload's fields with their paths in the event; None takes its ``detail``."""
    group: str | None
    """For a FIFO queue: the path of the group's name, within which jobs keep their order. None puts
    all jobs of the rule into one group."""
    bus: str
    """The event bus's name."""


def event_rule(
    name: str,
    pattern: Mapping[str, Any],
    job: JobType[Any, Any],
    *,
    fields: Mapping[str, str] | None,
    group: str | None,
    bus: str,
) -> EventRule:
    """Return a checked rule; the arguments are those of `App.event_rule`.

    Raises:
        ConfigurationError: a name, the pattern or a path is not valid.
    """
    from headgate.jobs.definitions.job_type import JobType  # the bridge has none

    check_name("the event rule", name)
    where = f"event_rule({name!r})"
    if not isinstance(job, JobType):
        raise ConfigurationError(
            f"{where}: job must be what @app.job or app.define returned, got {job!r}"
        )
    if group is not None:
        check_path(f"{where}: group", group)
    _check_bus(where, bus)
    return EventRule(
        name=name,
        pattern=checked_pattern(where, pattern),
        type=job,
        fields=check_paths(where, fields),
        group=group,
        bus=bus,
    )


def rule_name(topology: Topology, rule: EventRule) -> str:
    """Return the rule's physical name: app, stage and name.

    Raises:
        ConfigurationError: it is longer than AWS allows.
    """
    name = _prefixed(topology, rule.name)
    if len(name) > _MAX_RULE_NAME:
        raise ConfigurationError(
            f"the event rule {name!r} has {len(name)} characters; EventBridge allows "
            f"{_MAX_RULE_NAME}: shorten it"
        )
    return name


def rule_names(topology: Topology) -> str:
    """Return the pattern of the physical names of all the rules of the app's stage."""
    return _prefixed(topology, "*")


def _prefixed(topology: Topology, name: str) -> str:
    return "-".join(part for part in (topology.app, topology.stage, name) if part)


class EventJob(BaseModel):
    """The parts of a rule's job that are known when the app is deployed."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    rule: _Text
    """The rule's name."""
    type: Name
    schema_: int = Field(alias="schema", ge=1)
    """The version of the payload."""
    fields: Mapping[str, str] | None = None
    queue: Name
    """The queue group's logical name."""
    priority: Priority
    queue_name: _Text
    """The physical name of the queue on AWS."""
    fifo: bool = False
    group: str | None = None


class BusEvent(BaseModel):
    """An EventBridge event, with the fields that are read here."""

    model_config = ConfigDict(frozen=True, defer_build=True, extra="allow")

    id: _Text
    """The event's id, the same for every delivery."""
    time: Moment
    detail: Any = None


class Occurrence(BaseModel):
    """One event that a rule matched, and the job that it becomes."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    counts: ClassVar[bool] = True
    """It is always to be sent."""

    kind: Literal["event"]
    job: EventJob
    event: BusEvent

    @property
    def type(self) -> str:
        """The name of the job's type."""
        return self.job.type

    @property
    def queue_name(self) -> str:
        """The physical name of the queue that its job goes to."""
        return self.job.queue_name

    @property
    def job_id(self) -> UUID:
        """The job's id, the same for every invocation by the same event and rule."""
        return derived_job_id(
            self.event.time.astimezone(UTC), "event", self.job.rule, self.event.id
        )

    @property
    def sending(self) -> str:
        """The key of the send that this event stands for, among those of its job."""
        return f"event#{self.event.id}"

    def message(self, now: datetime) -> OutgoingMessage:
        """Return the job's message, submitted at ``now``."""
        whole = self.event.model_dump(mode="json")
        job = self.job
        payload = self.event.detail if job.fields is None else mapped(job.fields, whole)
        envelope = Envelope(
            v=VERSION,
            id=self.job_id,
            type=job.type,
            schema=job.schema_,
            payload=payload,
            queue=job.queue,
            priority=job.priority,
            submitted_at=now,
            source=f"event:{job.rule}",
        )
        return message_of(envelope, fifo_group=self._fifo_group(whole) if job.fifo else None)

    def _fifo_group(self, whole: Mapping[str, Any]) -> str:
        found = at_path(self.job.group, whole) if self.job.group else None
        group = self.job.rule if found is None else str(found)
        if not is_group_id(group):
            raise MessageUnreadable(
                f"what the event has at {self.job.group} can't be the group of a FIFO queue, "
                "which is 1 to 128 ASCII characters without spaces"
            )
        return group


def event_input(topology: Topology, rule: EventRule) -> str:
    """Return the template of a rule's input, which becomes an `Occurrence` when an event matches.

    Raises:
        UnknownQueue: the type's queue is not one of the app's.
    """
    job = rule.type
    queue = topology.queue(job.queue, job.priority)
    described = EventJob(
        rule=rule.name,
        type=job.name,
        schema=job.schema,
        fields=rule.fields,
        queue=job.queue,
        priority=job.priority,
        queue_name=queue.name,
        fifo=queue.fifo,
        group=rule.group,
    ).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    # EventBridge interprets angle brackets, and inserts the event without quotes.
    rendered = json.dumps(described).replace("<", r"\u003c")
    return f'{{"kind": "event", "job": {rendered}, "event": {_EVENT}}}'


def _check_bus(where: str, bus: object) -> None:
    if not isinstance(bus, str) or not re.fullmatch(_BUS, bus) or len(bus) > _MAX_BUS_NAME:
        raise ConfigurationError(
            f"{where}: bus must be the name of an event bus, or its ARN, got {bus!r}"
        )
