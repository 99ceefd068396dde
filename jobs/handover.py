"""A job whose next attempt lies beyond what SQS can hold: a one-time schedule owns it until then.

The schedule is made first and the message deleted after, so the job is never lost; at worst it is
there twice, under one id. What it carries says how many attempts were made. Without a scheduler, or
where it fails, the message stays in its queue and shows again sooner.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from pydantic_core import from_json, to_json

from jobs.clock import Clock
from jobs.delays import MAX_INPUT_BYTES, DelayedJob, delayed, retry_name, schedule_of
from jobs.delivery import Delivery
from jobs.envelope import parse
from jobs.errors import MessageError, TransportError
from jobs.events import Events, SettlementFailed
from jobs.execution import Verdict
from jobs.messages import sendable
from jobs.outcome import Crashed, Deferred, Failed
from jobs.ports import OutgoingMessage, Scheduler, ScheduleSpec
from jobs.settlement import Release, RetryAfter
from jobs.topology import Topology

_SPARE = timedelta(hours=1)
"""What has to be left of a message's retention when it shows again: it may wait in the queue."""

_SQS_LIMIT = "SQS hides a message for 12 hours since its receipt at most"


class HandOver:
    """Makes the schedules.

    Args:
        scheduler: keeps them; None if there is none.
        topology: names what they invoke.
        clock: tells the time.
        events: hears of schedules that could not be made.
    """

    def __init__(
        self, scheduler: Scheduler | None, topology: Topology, *, clock: Clock, events: Events
    ) -> None:
        self._scheduler = scheduler
        self._topology = topology
        self._clock = clock
        self._events = events

    async def take(
        self, delivery: Delivery, verdict: Verdict, possible_s: int
    ) -> tuple[Verdict, bool]:
        """Take a job over if need be.

        Args:
            delivery: of its message.
            verdict: on it, to retry it or to give it back.
            possible_s: how long SQS can still hide the message.

        Returns:
            the verdict as it can be carried out, and whether a schedule owns the job now, so that
            its message has to be deleted.
        """
        now = self._clock.now()
        if not beyond_sqs(delivery, verdict, possible_s, now):
            return _cut(verdict, possible_s, _SQS_LIMIT), False
        if self._scheduler is None:
            return _cut(verdict, possible_s, f"{_SQS_LIMIT}, and there is no scheduler"), False
        if not _is_own(delivery.message.body):
            why = "a one-time schedule holds no message but Headgate's own"
            return _cut(verdict, possible_s, why), False
        if (spec := _next_attempt(delivery, verdict, self._topology, now)) is None:
            why = "the job is too large for a one-time schedule"
            return _cut(verdict, possible_s, why), False
        try:
            made = await self._scheduler.create(spec, token=_token(delivery))
        except TransportError as error:
            self._report(delivery, verdict, error)
            return _cut(verdict, possible_s, f"no one-time schedule: {error}"), False
        if not made:
            why = "there is a one-time schedule of this job already"
            return _cut(verdict, possible_s, why), False
        return verdict, True

    def _report(self, delivery: Delivery, verdict: Verdict, error: TransportError) -> None:
        self._events.emit(
            SettlementFailed(
                at=self._clock.now(),
                queue=delivery.queue.name,
                message_id=delivery.message.message_id,
                job_id=verdict.attempt.job_id,
                action="schedule",
                error=str(error),
            )
        )


def beyond_sqs(delivery: Delivery, verdict: Verdict, possible_s: int, now: datetime) -> bool:
    """Whether the next attempt can't wait for its time in the queue, and may wait elsewhere.

    It can't where SQS would show the message sooner, or has deleted it by then. On a FIFO queue it
    stays nevertheless: the jobs of its group, which wait behind it, would otherwise go first.
    """
    action = verdict.action
    if not isinstance(action, RetryAfter | Release) or delivery.queue.fifo:
        return False
    if not isinstance(verdict.outcome, Failed | Crashed | Deferred):
        return False
    expires_at = delivery.message.sent_at + delivery.queue.retention
    due = now + timedelta(seconds=action.delay_s)
    return action.delay_s > possible_s or due > expires_at - _SPARE


def _next_attempt(
    delivery: Delivery, verdict: Verdict, topology: Topology, now: datetime
) -> ScheduleSpec | None:
    """The schedule that owns a job until its next attempt; None if it is too large for one."""
    action, attempt = verdict.action, verdict.attempt
    if not isinstance(action, RetryAfter | Release):
        return None
    due = now + timedelta(seconds=action.delay_s)
    used = attempt.number - isinstance(verdict.outcome, Deferred)  # which is no attempt
    job = _again(delivery, verdict, used, due)
    spec = schedule_of(job, topology, retry_name(attempt.job_id), now)
    return spec if len(spec.input.encode()) <= MAX_INPUT_BYTES else None


def _again(delivery: Delivery, verdict: Verdict, used: int, due: datetime) -> DelayedJob:
    """The same job in a new message. What this version doesn't know of the body stays in it."""
    message = delivery.message
    body = from_json(message.body)
    body |= {"attempts_used": used, "not_before": due.isoformat()}
    return delayed(
        OutgoingMessage(
            body=sendable(to_json(body).decode()),
            attributes=message.attributes,
            group=message.group,
        ),
        queue_name=delivery.queue.name,
        job_id=verdict.attempt.job_id,
        job_type=verdict.job_type,
        due=due,
        token=_token(delivery),
    )


def _is_own(body: str) -> bool:
    """Whether a message is in Headgate's format, and not one that a type knows how to read."""
    try:
        parse(body)
    except MessageError:
        return False
    return True


def _token(delivery: Delivery) -> str:
    """Names the hand-over: of this delivery's verdict, however often the request is sent."""
    message = delivery.message
    return f"{message.message_id}-{message.receive_count}"[-64:]


def _cut(verdict: Verdict, possible_s: int, why: str) -> Verdict:
    """The verdict as it is carried out where its wait is too long."""
    match verdict.action:
        case RetryAfter(delay_s=delay_s, note=note) as action if delay_s > possible_s:
            said = "; ".join(filter(None, (note, f"{delay_s} s were wanted: {why}")))
            return replace(verdict, action=replace(action, delay_s=possible_s, note=said))
        case Release(delay_s=delay_s) as action if delay_s > possible_s:
            return replace(verdict, action=replace(action, delay_s=possible_s))
        case _:
            return verdict
