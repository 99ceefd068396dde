"""Deliveries, and the jobs that are read from them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from headgate.jobs.core.limits import Limits
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.topology import MAX_VISIBILITY, QueueSpec
from headgate.jobs.definitions.app import BACKSTOP_MARGIN, App
from headgate.jobs.definitions.handlers.handler import Handler
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.job_options import LONGEST_TIMEOUT
from headgate.jobs.definitions.policies import expiry_of, timeout_of
from headgate.jobs.definitions.sealing import takes_unsealed
from headgate.jobs.errors import (
    MessageQueueWrong,
    MessageSchemaNewer,
    MessageTypeUnknown,
    MessageUnreadable,
    MessageUnsigned,
    PayloadInvalid,
    PayloadLost,
    PayloadNotSealed,
    PayloadUnopenable,
    SignatureInvalid,
)
from headgate.jobs.execution.adoption import envelope_of
from headgate.jobs.execution.outcome import Attempt, Reason
from headgate.jobs.execution.settling.dead_letter import REPLAYS
from headgate.jobs.execution.settling.open_bundle import BundlePart, OpenBundle
from headgate.jobs.messages.bundles import jobs_of
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.messages.keyring import Keyring, KeyUnknown
from headgate.jobs.messages.signatures import Destination
from headgate.jobs.records.items import REPLAY_SOURCE
from headgate.jobs.retry.policy import Retry
from headgate.jobs.values.light_dataclass import light_dataclass

UNRUNNABLE: dict[type[Exception], Reason] = {
    MessageUnreadable: Reason.UNREADABLE,
    MessageTypeUnknown: Reason.UNKNOWN_TYPE,
    MessageQueueWrong: Reason.WRONG_QUEUE,
    MessageSchemaNewer: Reason.NEWER_SCHEMA,
    MessageUnsigned: Reason.UNSIGNED,
    SignatureInvalid: Reason.SIGNATURE_INVALID,
    PayloadInvalid: Reason.PAYLOAD_INVALID,
    PayloadLost: Reason.PAYLOAD_LOST,
    PayloadUnopenable: Reason.PAYLOAD_UNOPENABLE,
    PayloadNotSealed: Reason.PAYLOAD_NOT_SEALED,
}
"""The dead-letter reason for each error with which `load` refuses a message."""


REASON = "Reason"
"""The message attribute of a dead letter that says why it is one."""

_OF_THE_DEAD = frozenset({REASON, REPLAYS})
"""The message attributes of a job that was dead before."""

_LONGEST_S = LONGEST_TIMEOUT.total_seconds()

_HIDDEN_S = MAX_VISIBILITY.total_seconds() - 2
"""Seconds after its receive for which a message may be hidden: SQS's 12 hours, less a margin for
the duration of the request."""

LARGE = 65_536
"""Length of a body, in characters, from which on its payload is read off the event loop, so as not
to block the host. A smaller one takes a few milliseconds at most."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message as this process received it."""

    message: ReceivedMessage
    queue: QueueSpec
    received_at: float
    """On the clock's monotonic time; the earliest possible time if it is not known exactly."""
    part: BundlePart | None = None
    """The job's part of a bundle, whose other jobs have deliveries of their own; else None."""

    @property
    def is_scattered(self) -> bool:
        """True if it is of a bundle that has been delivered before: its worker may have died of one
        of the jobs, so that each goes on in a message of its own."""
        return self.part is not None and self.part.bundle.receives > 1

    @property
    def destination(self) -> Destination:
        """The destination that the message's signature has to be bound to."""
        group = self.message.group if self.queue.fifo else None
        return Destination(queue=self.queue.name, fifo_group=group)

    def hides_s(self, now: float) -> int:
        """Return the longest visibility timeout that SQS accepts at that monotonic time: it ends
        within 12 h of the receive.

        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
        """
        return max(0, int(_HIDDEN_S - (now - self.received_at)))

    def lives_s(self, now: datetime, run_s: float = 0.0) -> float:
        """Return the seconds for which the message may stay hidden; below 0 if it is too late.

        SQS deletes it at the end of its retention, whether its job runs or not. Before that it may
        have to wait for its next receive, and a job of ``run_s`` seconds has to run; but no more
        than half of the retention is kept free for that, which a new message would have as well.
        """
        return (self.deleted_at - self.queue.spare - now).total_seconds() - self._kept_s(run_s)

    def lasts(self, run_s: float, now: datetime) -> bool:
        """Return True if the message lasts for a run of that length that begins now."""
        return (self.deleted_at - now).total_seconds() >= self._kept_s(run_s)

    def _kept_s(self, run_s: float) -> float:
        return min(run_s, self.queue.retention.total_seconds() / 2)

    @property
    def deleted_at(self) -> datetime:
        """The end of its retention, at which SQS deletes the message, in flight or not."""
        return self.message.sent_at + self.queue.retention

    def may_go_back(self, now: datetime) -> bool:
        """Return True if SQS would show the message again: it is neither too old for that, nor has
        it been delivered too often. One of several jobs in a message can't go back."""
        return (
            self.part is None
            and self.lives_s(now) > 0
            and self.message.receive_count < self.queue.worn_at
        )

    def comes_again(self, now: datetime) -> bool:
        """Return True if SQS is sure to deliver the message again once its visibility timeout has
        run out: the time spared for its next receive is enough for that."""
        left = timedelta(seconds=self.lives_s(now)) + self.queue.spare - self.queue.lane.visibility
        return left > timedelta(0) and self.message.receive_count < self.queue.max_receive_count


def deliveries_of_jobs(delivery: Delivery) -> list[Delivery]:
    """Return the deliveries of a message's jobs: itself, unless it is a bundle.

    Each job of a bundle is delivered for the first time, however often the bundle has been.
    """
    whole = delivery.message
    if (jobs := jobs_of(whole.body)) is None or delivery.queue.fifo:
        return [delivery]
    bundle = OpenBundle(whole, jobs=len(jobs))
    return [
        Delivery(
            message=ReceivedMessage(
                message_id=f"{whole.message_id}-{number}",
                receipt=whole.receipt,
                body=body,
                receive_count=1,
                sent_at=whole.sent_at,
                attributes=whole.attributes,
                group=whole.group,
                first_received_ms=whole.first_received_ms,
            ),
            queue=delivery.queue,
            received_at=delivery.received_at,
            part=BundlePart(bundle),
        )
        for number, body in enumerate(jobs, 1)
    ]


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A delivery of a job that this process can run."""

    envelope: Envelope
    type: JobType[Any, Any]
    payload: Any
    handler: Handler
    attempt: Attempt
    timeout_s: float
    retry: Retry
    """The type's retry policy, with the backoff that the job was submitted with."""
    lacks_payload: bool = False
    """The payload has not been read yet: it is in the object store, sealed, or so large that it is
    read off the event loop."""
    rewritten: bool = False
    """True if the envelope differs from the message's body."""

    @property
    def kept_free_s(self) -> float:
        """Seconds of its message's retention to keep free for its run; 0 if it can't go on in
        another message, since it may as well begin in the end of its own."""
        return self.timeout_s if self.attempt.renewable else 0.0


def load(
    app: App, delivery: Delivery, keyring: Keyring | None = None, *, received: bool = True
) -> Job:
    """Read a delivery.

    A payload that is large, sealed, or in the object store, is left unread: `validated` and
    `with_payload` read it. With a keyring, nothing but the body's form is looked at before its
    signature is checked; a foreign message has none.

    Args:
        app: the app.
        delivery: the delivery.
        keyring: checks the signature; None checks none.
        received: whether it comes from a queue; a message that this process has made is neither
            sealed nor signed.

    Raises:
        MessageUnreadable, MessageSchemaNewer: the body can't be read here.
        MessageUnsigned, SignatureInvalid: whoever sent it doesn't have the key.
        KeyUnknown: its signature can't be checked yet.
        MessageTypeUnknown: this process has no handler for its type.
        MessageQueueWrong: its type doesn't run from the queue that it was received from.
        PayloadInvalid: the payload doesn't fit the type's model.
        PayloadNotSealed: it should be sealed, and is not.
    """
    try:
        job = _loaded(app, delivery, keyring if received else None)
        if received:
            _check_sealed(app, job)
    except KeyUnknown:
        raise
    except tuple(UNRUNNABLE):
        raise
    except Exception as error:
        # Whatever it is, it would be raised again each time that this message is delivered.
        raise MessageUnreadable(
            f"reading the message raised {type(error).__name__}"  # its text may show the payload
        ) from error
    return job


def _loaded(app: App, delivery: Delivery, keyring: Keyring | None) -> Job:
    envelope, foreign = envelope_of(app, delivery.message, delivery.queue)
    if keyring is not None and not foreign:
        keyring.check(delivery.message.body, delivery.destination)
    declared = _type_of(app, envelope, delivery.queue)
    if envelope.schema_ > declared.schema:
        raise MessageSchemaNewer(
            f"the payload of {envelope.type!r} is of schema {envelope.schema_}; this worker reads "
            f"up to {declared.schema}"
        )
    options = envelope.options
    if options is None or options.timeout_s is None:
        timeout_s = timeout_of(app, declared).total_seconds()
    else:
        timeout_s = min(options.timeout_s, _LONGEST_S)
    retry, backoff = declared.retry, None if options is None else options.backoff
    max_attempts = (options.attempts if options else None) or retry.max_attempts
    lacks_payload = envelope.is_elsewhere or len(delivery.message.body) > LARGE
    expires_at = envelope.expires_at
    if expires_at is not None or declared.expires is not None:
        is_back = has_died(envelope, delivery.message)
        expires_at = None if is_back else expiry_of(declared, envelope)
    return Job(
        envelope=envelope,
        type=declared,
        payload=None if lacks_payload else _payload(declared, envelope),
        handler=declared.require_handler(),
        timeout_s=timeout_s,
        retry=retry if backoff is None else replace(retry, backoff=backoff.backoff()),
        attempt=Attempt(
            job_id=str(envelope.id),
            number=envelope.attempts_used + delivery.message.receive_count,
            begun=envelope.attempts_used > 0
            or delivery.message.receive_count > 1
            or (delivery.part is not None and delivery.is_scattered),
            max_attempts=max_attempts,
            receives=delivery.message.receive_count,
            expires_at=expires_at,
            receive_limit=delivery.queue.max_receive_count,
            backstop=_backstop(app, declared, delivery, max_attempts),
            crash_limit=app.crash_limit.crashes,
            # The wait of one job of a bundle can't be its message's.
            worn_at=delivery.queue.worn_at if delivery.part is None else 0,
            renewable=not foreign and not delivery.queue.fifo,
        ),
        lacks_payload=lacks_payload,
        rewritten=foreign,
    )


def _type_of(app: App, envelope: Envelope, queue: QueueSpec) -> JobType[Any, Any]:
    declared = app.types.get(envelope.type)
    # By the queue that SQS delivered it from: the queue in the body is only the sender's claim.
    if declared is not None and queue.group not in declared.runs_from:
        raise MessageQueueWrong(
            f"jobs of the type {declared.name!r} run from the queue {declared.queue!r}, and this "
            f"message is in {queue.group!r}: send it there, or declare the type with "
            f"accepts_from=[{queue.group!r}]"
        )
    if declared is None or not declared.has_handler:
        raise MessageTypeUnknown(f"no handler for the job type {envelope.type!r} in this worker")
    return declared


def _backstop(app: App, declared: JobType[Any, Any], delivery: Delivery, max_attempts: int) -> int:
    """Return the delivery from which on a job without records counts as one that kills workers.

    0 if the job may often be released unstarted: then deliveries don't count its attempts.
    """
    if delivery.message.receive_count <= BACKSTOP_MARGIN:
        return 0  # the backstop can't be reached yet
    levels = (app, app.queues[declared.queue], declared)
    limited = any(level.limits != Limits() for level in levels)
    if delivery.queue.fifo or limited or declared.isolation == "process":
        return 0
    return max(max_attempts, app.parking.max_attempts) + BACKSTOP_MARGIN


def has_died(envelope: Envelope, message: ReceivedMessage) -> bool:
    """Return True if the job was dead before, and a replay or AWS's redrive has sent it back.

    The body of a foreign message never says so, nor does that of a redriven one.
    """
    is_replay = envelope.source.startswith(REPLAY_SOURCE)
    return is_replay or not _OF_THE_DEAD.isdisjoint(message.attributes)


def _check_sealed(app: App, job: Job) -> None:
    """Refuse a job whose payload should be sealed.

    A foreign message is as its sender left it, and an empty payload, as that of a declared
    schedule, holds nothing.

    Raises:
        PayloadNotSealed: it is not, and ``Encryption(required=True)`` demands it.
    """
    if job.rewritten or takes_unsealed(app, job.type):
        return
    is_open = job.envelope.sealed is None and job.envelope.payload != {}
    if is_open and not _is_declared(job):
        raise PayloadNotSealed(
            f"the payload of {job.type.name!r} is not sealed, which Encryption(required=True) "
            "demands: submit the job with a client of this version of the app"
        )


def _is_declared(job: Job) -> bool:
    """Return True if its payload is one that its type declares for a schedule.

    That one stands in the code and in the template, so it hides nothing. It is told by its value:
    the source in the message is only the sender's claim.
    """
    given = [each for each in job.type.schedules if each.payload is not None]
    for fixed in map(job.type.scheduled_payload, given):
        # By what is read from it too: the process that wrote it may have had another order of sets.
        if fixed == job.envelope.payload or job.type.load(fixed) == job.payload:
            return True
    return False


def validated(job: Job) -> Job:
    """Return the job with its message's payload, which `load` had left unread for its size.

    Raises:
        PayloadInvalid: it doesn't fit the type's model.
    """
    return replace(job, payload=_payload(job.type, job.envelope), lacks_payload=False)


def with_payload(job: Job, value: Any) -> Job:
    """Return the job with its payload, as read from the object store, or opened.

    Raises:
        PayloadInvalid: it doesn't fit the type's model.
    """
    envelope = job.envelope.model_copy(
        update={"payload": value, "payload_ref": None, "sealed": None}
    )
    payload = _payload(job.type, envelope)
    return replace(job, envelope=envelope, payload=payload, lacks_payload=False, rewritten=True)


def _payload(declared: JobType[Any, Any], envelope: Envelope) -> Any:
    try:
        return declared.load(envelope.payload, envelope.schema_)
    except PayloadInvalid:
        raise
    except (Exception, SystemExit) as error:  # a validator is the user's code: it raises anything
        # Only the error's class: its text may show the payload.
        raise PayloadInvalid(
            f"the payload of {declared.name!r} can't be read: its model raised "
            f"{type(error).__name__}"
        ) from error


def legible(app: App, delivery: Delivery) -> Envelope | None:
    """Return the envelope of a message that can't be run here, or None if it can't be read."""
    try:
        return envelope_of(app, delivery.message, delivery.queue)[0]
    except Exception:  # noqa: BLE001 - `load` reports it
        return None
