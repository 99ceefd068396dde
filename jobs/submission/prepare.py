"""Preparation of messages from payloads: everything about submitting except for the call itself.

Pure functions, shared by `Client` and `AsyncClient`. All checks happen here, before anything is
sent.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Generator, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from headgate.jobs.core.context import Tenant
from headgate.jobs.core.events import JobDeduplicated, JobSubmitted
from headgate.jobs.core.ports import OutgoingMessage
from headgate.jobs.core.topology import MAX_DELAY, Priority, PriorityName, QueueSpec, Topology
from headgate.jobs.core.tracing import current_traceparent
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import LONGEST_TIMEOUT, JobType, NewJob
from headgate.jobs.definitions.submit_options import SubmitOptions
from headgate.jobs.definitions.uniqueness import Unique, unique_by
from headgate.jobs.errors import (
    DelayInvalid,
    OptionInvalid,
    UnknownJobType,
    UnknownQueue,
    did_you_mean,
)
from headgate.jobs.messages.envelope import VERSION, Envelope, Options, UniqueBy, new_job_id
from headgate.jobs.messages.outgoing import is_group_id, message_of
from headgate.jobs.schedules.delayed_job import DelayedJob, check_input, delayed
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.json_values import is_utf8

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRef(Generic[R]):
    """A submitted job's id and type; `Client.handle` makes a handle of the id. ``R`` is the type
    that its handler returns."""

    id: str
    type: str
    is_duplicate: bool = False
    """True if an earlier call submitted the same job; ``id`` is then that job's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJob(JobRef[R]):
    """A job on its way to SQS, whose id is known at once; awaiting it waits until SQS has the job.

    Awaiting it raises `TransportError` or `PartlySubmitted` if SQS didn't take the job.
    """

    taken: Awaitable[object] = field(repr=False, compare=False)

    def __await__(self) -> Generator[Any, Any, JobRef[R]]:
        sent = yield from self.taken.__await__()
        if isinstance(sent, Submission) and sent.duplicate_of is not None:
            return replace(self, id=sent.id, is_duplicate=True)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a submission."""

    source: str = "sdk"
    """The envelope's ``source``: ``sdk``, ``schedule:NAME``, ``event:NAME``, ``replay:ID`` or
    ``foreign:FORMAT``."""
    parent: UUID | None = None
    """The id of the job whose handler submits it."""
    trace: str | None = None
    """A W3C traceparent."""
    tenant: Tenant | None = None
    """The tenant of a submission that names none."""


_SDK = Origin()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A checked message and its queue.

    The message has the whole payload; one that is too large is moved to the object store later
    (`jobs.client.large_payloads`).
    """

    queue: QueueSpec
    message: OutgoingMessage
    envelope: Envelope
    duplicate_of: str | None = None
    """The id of the job that is kept in its place, if it was not sent itself."""

    @property
    def id(self) -> str:
        return self.duplicate_of or str(self.envelope.id)

    @property
    def unique(self) -> UniqueBy | None:
        """The uniqueness key of the job, if any."""
        return self.envelope.options.unique if self.envelope.options else None

    @property
    def is_duplicate(self) -> bool:
        """True if another job is kept in its place."""
        return self.duplicate_of is not None

    @property
    def due(self) -> datetime | None:
        """The time until which a one-time schedule holds it; None if it goes to SQS at once."""
        envelope = self.envelope
        by_sqs = _delay_s(self.queue, envelope.not_before, envelope.submitted_at)
        return None if by_sqs else envelope.not_before

    def delayed(self) -> DelayedJob:
        """Return the delayed job that the one-time schedule holds."""
        return delayed(
            self.message,
            queue_name=self.queue.name,
            job_id=self.id,
            job_type=self.envelope.type,
            due=self.due or self.envelope.submitted_at,
        )

    def event(self, at: datetime) -> JobSubmitted:
        """Return the event that SQS has taken it."""
        return JobSubmitted(
            at=at,
            job_id=self.id,
            job_type=self.envelope.type,
            queue=self.envelope.queue,
            priority=self.envelope.priority,
            tenant=self.envelope.tenant,
            delay_s=self._delay_s,
        )

    @property
    def _delay_s(self) -> int:
        if self.due is None:
            return self.message.delay_s
        return math.ceil((self.due - self.envelope.submitted_at).total_seconds())

    def deduplicated(self, kept: str, at: datetime) -> JobDeduplicated:
        """Return the event that it was not sent, since the job ``kept`` takes its place."""
        return JobDeduplicated(
            at=at,
            job_id=str(self.envelope.id),
            job_type=self.envelope.type,
            queue=self.envelope.queue,
            priority=self.envelope.priority,
            tenant=self.envelope.tenant,
            kept=kept,
        )


def prepare(
    app: App,
    topology: Topology,
    job: JobType[Any, Any] | NewJob[Any],
    payload: Any,
    overrides: SubmitOptions,
    *,
    now: datetime,
    job_id: UUID,
    origin: Origin = _SDK,
) -> Submission:
    """Check a submission and build its message.

    Raises:
        UnknownJobType: ``job`` is not one of ``app``'s types.
        UnknownQueue: the type's queue has no such priority.
        PayloadInvalid: the payload doesn't fit the type's model.
        DelayInvalid: the delay is negative or too long, or its time has no time zone.
        OptionInvalid: another option is unknown or out of range.
    """
    new = new_job_of(job, payload, overrides)
    job, payload, overrides = new.type, new.payload, new.overrides
    if not isinstance(job, JobType):
        raise UnknownJobType(
            f"{job!r} is no job type: pass what @app.job or app.define returned, not a name or a "
            "function"
        )
    if app.types.get(job.name) is not job:
        raise UnknownJobType(
            f"{job!r} was not declared on the app {app.name!r}: submit it with its own app's "
            "client, or hand its queue or router over with app.include(...)"
        )
    _check_names(job, overrides)
    queue = _queue(job, topology, overrides.get("priority"))
    not_before = _not_before(app, job, overrides, queue, now)
    dumped = job.dump(payload)
    tenant_of = _tenant(job, overrides.get("tenant")) or origin.tenant
    unique = _unique(job, payload, dumped, overrides, tenant_of)
    envelope = Envelope(
        v=VERSION,
        id=job_id,
        type=job.name,
        schema=job.schema,
        payload=dumped,
        queue=job.queue,
        priority=queue.priority,
        submitted_at=now,
        not_before=not_before,
        tenant=tenant_of,
        source=origin.source,
        parent=origin.parent,
        trace=origin.trace or current_traceparent(),
        options=_options(job, overrides, queue, unique),
    )
    tenant = envelope.tenant.org if envelope.tenant else None
    group = _fifo_group(job, payload, overrides, queue, tenant)
    message = message_of(envelope, delay_s=_delay_s(queue, not_before, now), fifo_group=group)
    submission = Submission(queue=queue, message=message, envelope=envelope)
    if submission.due is not None:
        check_input(f"the delayed job of {job.name!r}", submission.delayed().to_input())
    return submission


def prepare_many(
    app: App,
    topology: Topology,
    job: JobType[Any, Any] | NewJob[Any],
    payloads: Iterable[Any],
    overrides: SubmitOptions,
    now: datetime,
) -> list[Submission]:
    """Call `prepare` for each payload, with a new id for each."""
    return [
        prepare(app, topology, job, payload, overrides, now=now, job_id=new_job_id(now))
        for payload in payloads
    ]


def prepare_each(
    app: App, topology: Topology, jobs: Iterable[NewJob[Any]], now: datetime
) -> list[Submission]:
    """Call `prepare` for each job of a list, with a new id for each."""
    return [prepare(app, topology, job, None, {}, now=now, job_id=new_job_id(now)) for job in jobs]


def new_job_of(
    job: JobType[Any, Any] | NewJob[Any], payload: Any, overrides: SubmitOptions
) -> NewJob[Any]:
    """Return a job as a value, from what was given to `submit`; nothing in it is checked yet.

    Raises:
        OptionInvalid: it is a value already, and a payload or options are given beside it.
    """
    if not isinstance(job, NewJob):
        return NewJob(type=job, payload=payload, overrides=overrides)
    if payload is not None or overrides:
        raise OptionInvalid(
            f"{job.type.name!r}: the job has its payload and its options already: give them to "
            ".new(...), where it was made"
        )
    return job


def _check_names(job: JobType[Any, Any], overrides: SubmitOptions) -> None:
    known = SubmitOptions.__annotations__
    for name in overrides:
        if name not in known:
            raise OptionInvalid(
                f"{job.name!r}: a submission has no option {name!r}: {did_you_mean(name, known)}"
            )


def _queue(
    job: JobType[Any, Any], topology: Topology, wanted: Priority | PriorityName | None
) -> QueueSpec:
    try:
        return topology.queue(job.queue, _priority(job, wanted))
    except UnknownQueue as error:
        raise UnknownQueue(f"{job.name!r}: {error}") from error


def _priority(job: JobType[Any, Any], wanted: Priority | PriorityName | None) -> Priority:
    try:
        return job.priority if wanted is None else Priority(wanted)
    except ValueError as error:
        raise OptionInvalid(
            f"{job.name!r}: {wanted!r} is no priority; there are {', '.join(Priority)}"
        ) from error


def _not_before(
    app: App, job: JobType[Any, Any], overrides: SubmitOptions, queue: QueueSpec, now: datetime
) -> datetime | None:
    """Return the time at which the job is due; None for at once."""
    delay, at = overrides.get("delay"), overrides.get("at")
    if delay is not None and at is not None:
        raise DelayInvalid(f"{job.name!r}: give delay or at, not both")
    if at is not None:
        delay = _until(job, at, now)
    if delay is None:
        return None
    delay = duration(f"{job.name!r}: delay", delay, error=DelayInvalid)
    if not app.long_delays and (delay > MAX_DELAY or (delay and queue.fifo)):
        raise DelayInvalid(
            f"{job.name!r}: a delay of {delay} on {queue.name!r} takes a one-time schedule, since "
            f"SQS itself delays by {MAX_DELAY} at most, and no single message of a FIFO queue; the "
            f"app {app.name!r} is declared with long_delays=False"
        )
    try:
        # Rounded up, so that it never runs early.
        return now + timedelta(seconds=math.ceil(delay.total_seconds())) if delay else None
    except OverflowError as error:
        raise DelayInvalid(f"{job.name!r}: a delay of {delay} ends after the year 9999") from error


def _delay_s(queue: QueueSpec, not_before: datetime | None, now: datetime) -> int:
    """Return the seconds that SQS itself delays; 0 also if a one-time schedule holds the job."""
    if not_before is None or queue.fifo or not_before - now > MAX_DELAY:
        return 0
    return int((not_before - now).total_seconds())


def _until(job: JobType[Any, Any], at: datetime, now: datetime) -> timedelta:
    if not isinstance(at, datetime):
        raise DelayInvalid(
            f"{job.name!r}: at must be a datetime, got {at!r}: write datetime(..., tzinfo=UTC)"
        )
    if at.utcoffset() is None:
        raise DelayInvalid(
            f"{job.name!r}: at={at.isoformat()} has no time zone, so it could mean "
            "any of 24 hours: write datetime(..., tzinfo=UTC)"
        )
    return max(timedelta(0), at - now)  # aware times of different zones subtract correctly


def _tenant(job: JobType[Any, Any], tenant: str | Tenant | None) -> Tenant | None:
    if tenant is None:
        return None
    named = tenant if isinstance(tenant, Tenant) else Tenant(org=tenant)
    if not is_group_id(named.org):
        raise OptionInvalid(
            f"{job.name!r}: tenant must be 1 to 128 ASCII characters without spaces (it becomes "
            f"SQS's MessageGroupId), got {named.org!r}"
        )
    workspace: object = named.workspace
    if workspace is not None and not (isinstance(workspace, str) and is_utf8(workspace)):
        raise OptionInvalid(
            f"{job.name!r}: the tenant's workspace must be a text, got {workspace!r}"
        )
    return named


def _fifo_group(
    job: JobType[Any, Any],
    payload: Any,
    overrides: SubmitOptions,
    queue: QueueSpec,
    tenant: str | None,
) -> str | None:
    given = overrides.get("group")
    if not queue.fifo:
        if given is not None:
            raise OptionInvalid(
                f"{job.name!r}: group orders the jobs of a FIFO queue, and {queue.name!r} is none"
            )
        return None
    group = given
    if given is None:
        group = job.group_by(payload) if job.group_by else tenant
    if not is_group_id(group):
        raise OptionInvalid(
            f"{job.name!r}: {queue.name!r} is FIFO, so each job needs a group, of 1 to 128 ASCII "
            f"characters without spaces, got {group!r}: submit with group=..., or declare the type "
            "with group_by=..."
        )
    return group


def _options(
    job: JobType[Any, Any], overrides: SubmitOptions, queue: QueueSpec, unique: UniqueBy | None
) -> Options | None:
    attempts, timeout = overrides.get("max_attempts"), overrides.get("timeout")
    if attempts is None and timeout is None and unique is None:
        return None
    if attempts is not None:
        _check_attempts(job, attempts, queue)
    return Options(
        attempts=attempts,
        timeout_s=None if timeout is None else _timeout_s(job, timeout),
        unique=unique,
    )


def _unique(
    job: JobType[Any, Any],
    payload: Any,
    dumped: Any,
    overrides: SubmitOptions,
    tenant: Tenant | None,
) -> UniqueBy | None:
    unique = overrides.get("unique")
    if unique is False:
        return None
    if not isinstance(unique, Unique | None):
        raise OptionInvalid(
            f"{job.name!r}: unique must be a Unique or False, got {unique!r}: write "
            "unique=Unique(within=timedelta(hours=1))"
        )
    chosen = unique or job.unique
    if chosen is None:
        return None
    try:
        return unique_by(chosen, job.name, payload, dumped, tenant)
    except OptionInvalid as error:
        raise OptionInvalid(f"{job.name!r}: {error}") from error


def _check_attempts(job: JobType[Any, Any], attempts: object, queue: QueueSpec) -> None:
    if not isinstance(attempts, int) or isinstance(attempts, bool):
        raise OptionInvalid(f"{job.name!r}: max_attempts must be a whole number, got {attempts!r}")
    if not 1 <= attempts < queue.max_receive_count:
        raise OptionInvalid(
            f"{job.name!r}: max_attempts must lie between 1 and {queue.max_receive_count - 1}, got "
            f"{attempts}: SQS itself dead-letters a message after {queue.max_receive_count} "
            "receives"
        )


def _timeout_s(job: JobType[Any, Any], timeout: Duration) -> float:
    length = duration(f"{job.name!r}: timeout", timeout, positive=True, error=OptionInvalid)
    if length > LONGEST_TIMEOUT:
        raise OptionInvalid(
            f"{job.name!r}: timeout must be at most {LONGEST_TIMEOUT}, got {length}"
        )
    return length.total_seconds()
