"""Preparation of messages from payloads: everything about submitting except for the call itself.

Pure functions, shared by `Client` and `AsyncClient`. All checks happen here, before anything is
sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from headgate.jobs.core.events import JobDeduplicated, JobSubmitted
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.core.tracing import current_traceparent
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.errors import OptionInvalid, UnknownJobType
from headgate.jobs.messages.envelope import VERSION, Envelope, UniqueBy
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.job_options import JobKeep
from headgate.jobs.messages.outgoing import message_of
from headgate.jobs.messages.signatures import reserved
from headgate.jobs.schedules.delayed_job import DelayedJob, check_input, delayed
from headgate.jobs.submission.overrides import (
    bundle_bytes,
    check_costs,
    check_names,
    delay_by_sqs,
    due_time,
    expiry,
    fifo_group,
    options_of,
    queue_of,
    tenant_of,
    unique_of,
)
from headgate.jobs.values.light_dataclass import light_dataclass

R = TypeVar("R")


@light_dataclass(frozen=True, slots=True, kw_only=True)
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


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A checked message and its queue.

    The message has the whole payload; one that is too large is moved to the object store later
    (`jobs.client.submitting.large_payloads`).
    """

    queue: QueueSpec
    message: OutgoingMessage
    envelope: Envelope
    bundle_bytes: int = 0
    """The most bytes of a message that the job may share with others; 0 if it travels alone."""
    duplicate_of: str | None = None
    """The id of the job that is kept in its place, if it was not sent itself."""
    _own_id: str = field(default="", init=False, repr=False, compare=False)
    """The envelope's id, as text."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_own_id", str(self.envelope.id))

    @property
    def id(self) -> str:
        return self.duplicate_of or self._own_id

    @property
    def unique(self) -> UniqueBy | None:
        """The uniqueness key of the job, if any."""
        return self.envelope.options.unique if self.envelope.options else None

    @property
    def keep(self) -> JobKeep | None:
        """The retention of its job's records, if the submission sets it; None for a duplicate,
        whose job another submission has made."""
        options = self.envelope.options
        return None if options is None or self.is_duplicate else options.keep

    @property
    def is_duplicate(self) -> bool:
        """True if another job is kept in its place."""
        return self.duplicate_of is not None

    @property
    def due(self) -> datetime | None:
        """The time until which a one-time schedule holds it; None if it goes to SQS at once."""
        envelope = self.envelope
        by_sqs = delay_by_sqs(self.queue, envelope.not_before, envelope.submitted_at)
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
            job_id=self._own_id,
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
        CostInvalid: the job costs more than a rate limit has.
        OptionInvalid: another option is unknown or out of range.
    """
    if isinstance(job, NewJob):
        new = new_job_of(job, payload, overrides)
        job, payload, overrides = new.type, new.payload, new.overrides
    _check_declared(app, job)
    check_names(job, overrides)
    queue = queue_of(job, topology, overrides.get("priority"))
    not_before = due_time(app, job, overrides, queue, now)
    dumped = job.dump(payload)
    check_costs(app, job, dumped)
    tenant = tenant_of(job, overrides.get("tenant")) or origin.tenant
    unique = unique_of(app, job, payload, dumped, overrides, tenant)
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
        expires_at=expiry(job, overrides, not_before or now),
        tenant=tenant,
        source=origin.source,
        parent=origin.parent,
        trace=origin.trace or current_traceparent(),
        options=options_of(job, overrides, queue, unique),
    )
    group = fifo_group(job, payload, overrides, queue, tenant.org if tenant else None)
    message = message_of(envelope, delay_s=delay_by_sqs(queue, not_before, now), fifo_group=group)
    if app.signing is not None:
        message = replace(message, body=reserved(message.body))
    submission = Submission(
        queue=queue,
        message=message,
        envelope=envelope,
        bundle_bytes=bundle_bytes(app, job, envelope),
    )
    if submission.due is not None:
        check_input(f"the delayed job of {job.name!r}", submission.delayed().to_input())
    return submission


def prepare_child(
    app: App,
    parent: Envelope,
    job: JobType[Any, Any] | NewJob[Any],
    payload: Any,
    overrides: SubmitOptions,
    now: datetime,
) -> Submission:
    """Call `prepare` for a job that the handler of another submits, with a new id.

    It has its parent's tenant, unless it names another, and the trace of the handler's current
    span, or else its parent's.
    """
    origin = Origin(
        parent=parent.id, trace=current_traceparent() or parent.trace, tenant=parent.tenant
    )
    return prepare(
        app,
        app.topology,
        job,
        payload,
        overrides,
        now=now,
        job_id=new_job_id(now),
        origin=origin,
    )


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


def _check_declared(app: App, job: object) -> None:
    if not isinstance(job, JobType):
        raise UnknownJobType(
            f"{job!r} is not a job type: pass what @app.job or app.define returned, not a name or "
            "a function"
        )
    if app.types.get(job.name) is not job:
        raise UnknownJobType(
            f"{job!r} was not declared on the app {app.name!r}: submit it with its own app's "
            "client, or add its queue or router with app.include(...)"
        )
