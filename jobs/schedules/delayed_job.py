"""Jobs delayed for longer than SQS can hold them, each in a one-time schedule of its own.

The schedule holds the message exactly as it will be sent, and is deleted by EventBridge Scheduler
once it has fired. It invokes the bridge, which sends the message. A schedule is only precise to the
minute; for a standard queue it fires a minute early, and SQS's own delay covers the rest.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import MAX_DELAY, Topology
from headgate.jobs.errors import PayloadTooLarge
from headgate.jobs.messages.envelope import GroupId, Moment
from headgate.jobs.messages.signatures import Destination

MAX_INPUT_BYTES = 262_144
"""EventBridge Scheduler's limit for a schedule's input, 256 KiB.
https://docs.aws.amazon.com/scheduler/latest/UserGuide/scheduler-quotas.html"""

PREFIX = "delay."
"""Prefix of these schedules' names. No job type's name has a full stop, so none of them can clash
with a schedule that a type declares."""

_LEAD = timedelta(minutes=1)
"""Precision of schedules: the lead of a standard queue's, and the soonest that any can fire.
https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html"""

_Text = Annotated[str, Field(min_length=1)]


class DelayedJob(BaseModel):
    """A one-time schedule's input to the bridge: a message and its queue."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    counts: ClassVar[bool] = True
    """It is always to be sent."""

    delayed_until: Moment
    """Time at which the job is due."""
    job_id: _Text
    type: _Text
    queue_name: _Text
    """The physical name of the queue on AWS."""
    body: _Text
    attributes: dict[str, str]
    group: GroupId | None = None
    deduplication_id: str | None = None
    token: str = ""
    """Names the hand-over of a job that was delivered before, since a job may be handed over many
    times; empty for a submission, which happens once."""

    @property
    def sending(self) -> str:
        """The name of the one sending that this schedule stands for, however often it fires."""
        due = self.delayed_until.astimezone(UTC).isoformat()
        return f"delayed#{due}#{self.token}"

    @property
    def destination(self) -> Destination:
        """The destination that the message's signature is bound to."""
        return Destination(queue=self.queue_name, fifo_group=self.group if self._is_fifo else None)

    def message(self, now: datetime) -> OutgoingMessage:
        """Return the message to send at ``now``; a standard queue delays it until it is due."""
        early_s = 0 if self._is_fifo else ceil((self.delayed_until - now).total_seconds())
        return OutgoingMessage(
            body=self.body,
            attributes=self.attributes,
            delay_s=max(0, min(early_s, int(MAX_DELAY.total_seconds()))),
            group=self.group,
            deduplication_id=self.deduplication_id,
        )

    def to_input(self) -> str:
        """Return the schedule's input, as JSON."""
        return literally(self.model_dump_json(exclude_defaults=True))

    def fires_at(self, now: datetime) -> datetime:
        """Return the time at which its schedule has to fire, in whole seconds."""
        # Messages of a FIFO queue can't be delayed individually.
        wanted = self.delayed_until if self._is_fifo else self.delayed_until - _LEAD
        rounded_up = max(wanted, now + _LEAD) + timedelta(microseconds=999_999)
        return rounded_up.replace(microsecond=0)

    @property
    def _is_fifo(self) -> bool:
        return self.deduplication_id is not None


def delayed(
    message: OutgoingMessage,
    *,
    queue_name: str,
    job_id: str,
    job_type: str,
    due: datetime,
    token: str = "",
) -> DelayedJob:
    """Return the delayed job that sends a message when it is due."""
    return DelayedJob(
        delayed_until=due,
        job_id=job_id,
        type=job_type,
        queue_name=queue_name,
        body=message.body,
        attributes=dict(message.attributes),
        group=message.group,
        deduplication_id=message.deduplication_id,
        token=token,
    )


def schedule_of(job: DelayedJob, topology: Topology, name: str, now: datetime) -> ScheduleSpec:
    """Return the one-time schedule that holds a job, created at ``now``."""
    return ScheduleSpec(
        group=topology.schedule_group,
        name=name,
        expression=f"at({job.fires_at(now).astimezone(UTC):%Y-%m-%dT%H:%M:%S})",
        function=topology.bridge_name,
        role=topology.scheduler_role,
        dead_letters=topology.failed_firings_name,
        input=job.to_input(),
        delete_when_done=True,
        description=f"Submits one {job.type} job to {job.queue_name}",
    )


def delay_name(job_id: str) -> str:
    """Return the name of the schedule that holds a job from its submission on."""
    return f"{PREFIX}{job_id}"


def retry_name(job_id: str) -> str:
    """Return the name of the schedule that holds a job for another attempt.

    It differs from `delay_name`, since a schedule may outlive its firing for a while.
    """
    return f"{PREFIX}{job_id}.retry"


def literally(text: str) -> str:
    """Escape JSON so that EventBridge Scheduler finds no context attributes to fill in."""
    return text.replace("<aws.scheduler.", "\\u003caws.scheduler.")  # only strings can hold it


def check_input(what: str, text: str) -> None:
    """Check that a schedule can hold its input.

    Raises:
        PayloadTooLarge: it is over EventBridge Scheduler's limit.
    """
    if (size := len(text.encode())) > MAX_INPUT_BYTES:
        raise PayloadTooLarge(
            f"{what} would hold {size:,} bytes; EventBridge Scheduler takes {MAX_INPUT_BYTES:,} "
            "(256 KiB): store the data elsewhere and submit a reference to it"
        )
