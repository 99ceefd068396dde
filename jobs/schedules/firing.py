"""A schedule's firing: EventBridge Scheduler's input to the bridge, and the job that it becomes.

One model serves both ends: `schedule_input` renders it into a schedule when the app is deployed,
and the bridge reads it back when the schedule fires (`jobs.schedules.inputs`), so it needs nothing
of the app.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from headgate.jobs.core.naming import MAX_SCHEDULER_NAME
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import Priority
from headgate.jobs.errors import ConfigurationError, MessageUnreadable
from headgate.jobs.messages.envelope import (
    VERSION,
    Envelope,
    GroupId,
    Moment,
    Name,
    Options,
    Sealed,
)
from headgate.jobs.messages.job_ids import derived_job_id
from headgate.jobs.messages.outgoing import is_group_id, message_of
from headgate.jobs.schedules.declared_starts import Start, deployed
from headgate.jobs.schedules.delayed_job import check_input, literally

if TYPE_CHECKING:  # the bridge has no app
    from headgate.jobs.definitions.app import App
    from headgate.jobs.definitions.job_type import JobType
    from headgate.jobs.definitions.schedules.declared import DeclaredSchedule

_CONTEXT = {
    "schedule_arn": "<aws.scheduler.schedule-arn>",
    "scheduled_time": "<aws.scheduler.scheduled-time>",
    "execution_id": "<aws.scheduler.execution-id>",
    "attempt_number": "<aws.scheduler.attempt-number>",
}
"""Context attributes, which EventBridge Scheduler replaces by their values at each firing.
https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-schedule-context-attributes.html"""

_Text = Annotated[str, Field(min_length=1)]


def source_of(schedule: str) -> str:
    """Return the ``source`` of the jobs that a schedule submits, by its name."""
    return f"schedule:{schedule}"


def fired_job_id(schedule_arn: str, at: datetime) -> UUID:
    """Return the id of the job that a schedule submits for one of its times."""
    return derived_job_id(at.astimezone(UTC), schedule_arn)


class ScheduledJob(BaseModel):
    """The job that a schedule submits, as far as it is known when the schedule is made."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    schedule: _Text
    """The schedule's name."""
    type: Name
    schema_: int = Field(alias="schema", ge=1)
    """The version of the payload."""
    payload: Any
    """JSON that the type's model reads."""
    sealed: Sealed | None = None
    """Stands in place of ``payload``, which is then left out."""
    queue: Name
    """The queue group's logical name."""
    priority: Priority
    queue_name: _Text
    """The physical name of the queue on AWS."""
    fifo_group: GroupId | None = None
    """The message group whose order the job keeps; only if the queue is FIFO."""
    tenant: Tenant | None = None
    options: Options | None = None
    """The options that were overridden when the schedule was made."""
    start: Start | None = None
    """The start of a declared schedule, if it has one."""
    moved_from: _Text | None = None
    """The times that were declared, if a declared schedule was given others at run time."""

    @model_validator(mode="before")
    @classmethod
    def _without_payload(cls, value: Any) -> Any:
        """Read an input whose payload is sealed, and stands elsewhere."""
        if isinstance(value, Mapping) and value.get("sealed") is not None:
            return {**value, "payload": None}
        return value

    @property
    def source(self) -> str:
        """The source in the job's envelope."""
        return source_of(self.schedule)

    def envelope(self, job_id: UUID, now: datetime) -> Envelope:
        """Return the envelope of one such job, submitted at ``now``."""
        return Envelope(
            v=VERSION,
            id=job_id,
            type=self.type,
            schema=self.schema_,
            payload=self.payload,
            sealed=self.sealed,
            queue=self.queue,
            priority=self.priority,
            submitted_at=now,
            tenant=self.tenant,
            source=self.source,
            options=self.options,
        )


class Firing(ScheduledJob):
    """One firing of a schedule: the job, and the occurrence that it is for."""

    schedule_arn: _Text
    scheduled_time: Moment
    """Time at which it was due; the same however often the invocation is tried."""
    execution_id: _Text
    """Id of one of EventBridge Scheduler's attempts at the invocation."""
    attempt_number: int

    @property
    def job_id(self) -> UUID:
        """The job's id, the same for every invocation of one occurrence."""
        return fired_job_id(self.schedule_arn, self.scheduled_time)

    @property
    def sending(self) -> str:
        """The name of this occurrence's one sending, among those of its job."""
        return f"fired#{self.scheduled_time.astimezone(UTC).isoformat()}"

    @property
    def counts(self) -> bool:
        """True if it submits a job; a firing before its schedule's start does not."""
        return self.start is None or self.start.counts(self.scheduled_time)

    def message(self, now: datetime) -> OutgoingMessage:
        """Return the message that a worker can run, submitted at ``now``."""
        return message_of(self.envelope(self.job_id, now), fifo_group=self.fifo_group)


def schedule_input(
    app: App, job: JobType[Any, Any], declared: DeclaredSchedule | None = None
) -> dict[str, Any]:
    """Return the input of a job type's schedule, as JSON values; a `Firing` when it fires.

    Args:
        app: the app of the type.
        job: the type.
        declared: one of its schedules; None is its only one.

    Raises:
        ConfigurationError: the type's name is too long for a schedule, or ``group_by`` makes no
            valid group of the payload.
        PayloadInvalid: the payload doesn't fit the type's model.
        UnknownQueue: the type's queue is not one of ``app``'s.
    """
    if declared is None:
        [declared] = job.schedules
    return _declared(app, job, declared) | _CONTEXT


def declared_input(app: App, job: JobType[Any, Any], declared: DeclaredSchedule) -> str:
    """Return `schedule_input` as JSON.

    Raises:
        PayloadTooLarge: EventBridge Scheduler can't hold it.
        ConfigurationError, PayloadInvalid, UnknownQueue: as `schedule_input`.
    """
    fixed = literally(json.dumps(_declared(app, job, declared)))
    text = f"{fixed[:-1]}, {json.dumps(_CONTEXT)[1:]}"
    check_input(f"the schedule {declared.name!r} of the type {job.name!r}", text)
    return text


def _declared(app: App, job: JobType[Any, Any], declared: DeclaredSchedule) -> dict[str, Any]:
    payload = job.scheduled_payload(declared)
    queue = app.topology.queue(job.queue, job.priority)
    scheduled = ScheduledJob(
        schedule=schedule_name(declared),
        type=job.name,
        schema=job.schema,
        payload=payload,
        queue=job.queue,
        priority=job.priority,
        queue_name=queue.name,
        fifo_group=_fifo_group(job, job.load(payload)) if queue.fifo else None,
        start=deployed(declared.when)[1],
    )
    return scheduled.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def input_of(scheduled: ScheduledJob) -> str:
    """Return the input of a schedule made at run time, as JSON; a `Firing` when it fires."""
    absent = {"payload"} if scheduled.sealed is not None else None
    fixed = literally(
        scheduled.model_dump_json(by_alias=True, exclude_defaults=True, exclude=absent)
    )
    return fixed.removesuffix("}") + "," + json.dumps(_CONTEXT).removeprefix("{")


def moved_input(text: str, moved_from: str) -> str:
    """Return the input of a declared schedule that is given other times at run time.

    The bridge then applies no declared start, and ``moved_from`` stays until a deployment, or
    `Schedules.reset`, writes the input anew.
    """
    moved = {"start": None, "moved_from": moved_from}
    return input_of(read_scheduled(text).model_copy(update=moved))


def _fifo_group(job: JobType[Any, Any], payload: Any) -> str:
    if job.group_by is None:
        return job.name  # submissions name their groups; the schedule has one of its own
    fault = f"the type {job.name!r} has a schedule on a FIFO queue, and for the schedule's payload"
    try:
        group = job.group_by(payload)
    except Exception as error:
        raise ConfigurationError(f"{fault} group_by raised {type(error).__name__}") from error
    if not is_group_id(group):
        raise ConfigurationError(
            f"{fault} group_by made {group!r}: a group is 1 to 128 ASCII characters without spaces"
        )
    return group


def read_scheduled(text: str) -> ScheduledJob:
    """Read the job that a stored schedule submits, from its input.

    Raises:
        MessageUnreadable: the input is not one of Headgate's.
    """
    try:
        return ScheduledJob.model_validate_json(text)
    except ValidationError:
        pass
    # Not from pydantic's error, which quotes the values.
    raise MessageUnreadable("the schedule's input is not that of a Headgate schedule")


def schedule_name(declared: DeclaredSchedule) -> str:
    """Return the name of a declared schedule within its app's group.

    Raises:
        ConfigurationError: it is longer than AWS allows.
    """
    job_type, _, _ = declared.name.partition(".")
    return _checked(f"the job type {job_type!r} has a schedule, whose name", declared.name)


def _checked(what: str, name: str) -> str:
    if len(name) > MAX_SCHEDULER_NAME:
        raise ConfigurationError(
            f"{what} would have {len(name)} characters; EventBridge Scheduler allows "
            f"{MAX_SCHEDULER_NAME}: shorten it"
        )
    return name
