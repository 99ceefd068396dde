"""A job whose next attempt lies beyond what SQS can hold: a one-time schedule owns it until then.

The schedule is made first and the message deleted after, so the job is never lost; at worst it is
there twice, under one id. What it carries says how many attempts were made.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from pydantic_core import from_json, to_json

from jobs.delays import MAX_INPUT_BYTES, DelayedJob, delayed, retry_name, schedule_of
from jobs.delivery import Delivery
from jobs.execution import Verdict
from jobs.messages import sendable
from jobs.outcome import Crashed, Deferred, Failed
from jobs.ports import OutgoingMessage, ScheduleSpec
from jobs.settlement import Release, RetryAfter
from jobs.topology import Topology

_SPARE = timedelta(hours=1)
"""What has to be left of a message's retention when it shows again: it may wait in the queue."""


def beyond_sqs(delivery: Delivery, verdict: Verdict, possible_s: int, now: datetime) -> bool:
    """Whether the next attempt can't wait for its time in the queue, and may wait elsewhere.

    It can't where SQS would show the message sooner, or has deleted it by then. On a FIFO queue it
    stays nevertheless: the jobs of its group, which wait behind it, would otherwise go first.

    Args:
        delivery: of the message.
        verdict: on it.
        possible_s: how long SQS can still hide it.
        now: aware.
    """
    match verdict.action:
        case RetryAfter(delay_s=delay_s) | Release(delay_s=delay_s):
            wait = timedelta(seconds=delay_s)
        case _:
            return False
    if delivery.queue.fifo or not isinstance(verdict.outcome, Failed | Crashed | Deferred):
        return False
    expires_at = delivery.message.sent_at + delivery.queue.retention
    return delay_s > possible_s or now + wait > expires_at - _SPARE


def next_attempt(
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


def cut(verdict: Verdict, possible_s: int, why: str) -> Verdict:
    """The verdict as it is carried out where its wait is too long."""
    match verdict.action:
        case RetryAfter(delay_s=delay_s, note=note) as action if delay_s > possible_s:
            said = "; ".join(filter(None, (note, f"{delay_s} s were wanted: {why}")))
            return replace(verdict, action=replace(action, delay_s=possible_s, note=said))
        case Release(delay_s=delay_s) as action if delay_s > possible_s:
            return replace(verdict, action=replace(action, delay_s=possible_s))
        case _:
            return verdict


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
    )
