"""Delayed retries: a job whose message can't wait for the next attempt goes on in another message.

    the wait                                             the job
    fits                                                 its message is hidden until then
    over 12 h, or past the retention; or the receives    a one-time schedule holds the job and sends
    are nearly used up                                   it when it is due
    likewise, and up to 15 min; or no schedule can       is sent anew at once, and released
                                                         unstarted until it is due
    the message is not Headgate's, or its queue FIFO     its message is hidden for at most 12 h

The schedule is created, or the message sent, before the old message is deleted: so the job is never
lost; at worst it exists twice, under one id. The new message states the number of attempts made,
and the time from which the job may run (``not_before``). So no limit of SQS ends a job: neither a
queue's retention, nor the number of receives.

A job that can't go on in another message is dead-lettered before SQS deletes its message; that is
decided with everything else, in `jobs.execution.settlement`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from pydantic_core import from_json, to_json

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, SettlementFailed
from headgate.jobs.core.ports import ObjectStore, OutgoingMessage, Scheduler, ScheduleSpec
from headgate.jobs.core.topology import MAX_DELAY, Topology
from headgate.jobs.errors import MessageUnreadable, TransportError
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.outcome import Attempt, Crashed, Failed, Unstarted
from headgate.jobs.execution.settlement import Release, RetryAfter
from headgate.jobs.execution.verdict import Verdict
from headgate.jobs.messages.envelope import MOST_ATTEMPTS_USED, parse
from headgate.jobs.messages.outgoing import sendable
from headgate.jobs.schedules.delayed_job import (
    MAX_INPUT_BYTES,
    delayed,
    read_delayed,
    retry_name,
    schedule_of,
)

_MAX_DELAY_S = int(MAX_DELAY.total_seconds())

_PAYLOAD_REF = '"payload_ref"'
"""Occurs in the body of every message whose payload is in the object store, and in few others."""

_SQS_LIMIT = "SQS hides a message for 12 hours since its receipt at most"

_NOT_OURS = "only a message of Headgate's own can be sent anew"


class Way(Enum):
    """The place in which a job waits for its next attempt."""

    HIDDEN = auto()
    """In its message, which can be hidden for that long."""
    SCHEDULED = auto()
    """In a one-time schedule."""
    ANEW = auto()
    """In a new message, sent now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The waits that SQS, the scheduler and the object store allow."""

    hidden_s: int
    """Seconds for which the message can still be hidden."""
    scheduled_s: float = 0
    """Seconds for which a one-time schedule may hold the job; 0 if none can."""


def way_of(wait_s: float, attempt: Attempt, room: Room) -> Way:
    """Decide where a job waits.

    Args:
        wait_s: seconds until its next attempt.
        attempt: tells how long its message lives, how often SQS has delivered it, and whether the
            job can go on in another one.
        room: the waits that are possible.
    """
    fits = wait_s <= min(room.hidden_s, attempt.lives_s)
    if not attempt.renewable or (fits and attempt.receives < attempt.worn_at):
        return Way.HIDDEN
    return Way.SCHEDULED if _MAX_DELAY_S < wait_s <= room.scheduled_s else Way.ANEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Stays:
    """The job stays in its message: carry out the verdict given here."""

    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A schedule holds the job: delete its message."""

    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """The job goes on in another message: send that one, then delete the old one."""

    verdict: Verdict
    message: OutgoingMessage


Course = Stays | Held | Renewed
"""The way in which a verdict is carried out."""


class HandOver:
    """Moves jobs that outlive their messages to schedules or new messages.

    Args:
        scheduler: keeps one-time schedules; None if there is none.
        topology: names the schedules' targets, and says how long payloads are kept.
        clock: tells the time.
        events: receives an event for each schedule that could not be created.
        store: holds the payloads that are too large for messages.
    """

    def __init__(
        self,
        scheduler: Scheduler | None,
        topology: Topology,
        *,
        clock: Clock,
        events: Events,
        store: ObjectStore | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._topology = topology
        self._clock = clock
        self._events = events
        self._store = store

    async def take(self, delivery: Delivery, verdict: Verdict, possible_s: int) -> Course:
        """Decide where a job waits, and create its schedule if it needs one.

        Args:
            delivery: the delivery of its message.
            verdict: the verdict on that delivery.
            possible_s: seconds for which SQS can still hide the message.
        """
        if not isinstance(verdict.action, RetryAfter | Release):
            return Stays(verdict=verdict)
        verdict = _shortened(verdict, possible_s)
        room = self._room(delivery, verdict, possible_s)
        way = way_of(_wait_s(verdict), verdict.attempt, room)
        if way is Way.HIDDEN:
            return Stays(verdict=_cut(verdict, possible_s, delivery))
        await self._refresh_payload(delivery, verdict)
        if way is Way.SCHEDULED and await self._is_held(delivery, verdict):
            return Held(verdict=verdict)
        return Renewed(verdict=verdict, message=_again(delivery, verdict, self._clock.now()))

    def _room(self, delivery: Delivery, verdict: Verdict, possible_s: int) -> Room:
        if self._scheduler is None or isinstance(verdict.outcome, Unstarted):
            return Room(hidden_s=possible_s)
        if _PAYLOAD_REF not in delivery.message.body:
            return Room(hidden_s=possible_s, scheduled_s=math.inf)
        # Half of it is for the queue and the dead-letter queue, once the schedule has fired.
        kept_s = self._topology.payload_retention.total_seconds() / 2
        return Room(hidden_s=possible_s, scheduled_s=kept_s)

    async def _is_held(self, delivery: Delivery, verdict: Verdict) -> bool:
        """Create a one-time schedule for the job; return True if one holds it now."""
        spec = self._schedule(delivery, verdict)
        if self._scheduler is None or len(spec.input.encode()) > MAX_INPUT_BYTES:
            return False
        try:
            if await self._scheduler.create(spec, token=_token(delivery)):
                return True
            standing = await self._scheduler.get(spec.group, spec.name)
        except TransportError as error:
            self._report(delivery, verdict, "schedule", error)
            return False
        return standing is not None and _is_of(standing, delivery)

    def _schedule(self, delivery: Delivery, verdict: Verdict) -> ScheduleSpec:
        now, job_id = self._clock.now(), verdict.attempt.job_id
        job = delayed(
            _again(delivery, verdict, now),
            queue_name=delivery.queue.name,
            job_id=job_id,
            job_type=verdict.job_type,
            due=now + timedelta(seconds=_wait_s(verdict)),
            token=_token(delivery),
        )
        return schedule_of(job, self._topology, retry_name(job_id), now)

    async def _refresh_payload(self, delivery: Delivery, verdict: Verdict) -> None:
        """Write a payload in the object store anew, since objects expire by their age."""
        if self._store is None or _PAYLOAD_REF not in delivery.message.body:
            return
        if (ref := parse(delivery.message.body).payload_ref) is None:
            return
        try:
            if (content := await self._store.get(ref.key)) is not None:
                await self._store.put(ref.key, content)
        except TransportError as error:
            self._report(delivery, verdict, "keep_payload", error)

    def _report(
        self, delivery: Delivery, verdict: Verdict, action: str, error: TransportError
    ) -> None:
        self._events.emit(
            SettlementFailed(
                at=self._clock.now(),
                queue=delivery.queue.name,
                message_id=delivery.message.message_id,
                job_id=verdict.attempt.job_id,
                action=action,
                error=str(error),
            )
        )


def _again(delivery: Delivery, verdict: Verdict, now: datetime) -> OutgoingMessage:
    """Return the same job in a new message. Fields that this version doesn't know are kept."""
    message, wait_s = delivery.message, _wait_s(verdict)
    body = from_json(message.body)
    due = now + timedelta(seconds=wait_s)
    if isinstance(verdict.outcome, Unstarted) and (early := parse(message.body).not_before):
        due = max(due, early)  # it was already waiting until then
    body |= {"attempts_used": _used(body, verdict), "not_before": due.isoformat()}
    return OutgoingMessage(
        body=sendable(to_json(body).decode()),
        attributes=message.attributes,
        delay_s=min(wait_s, _MAX_DELAY_S),
        group=message.group,
    )


def _used(body: dict[str, Any], verdict: Verdict) -> int:
    """Return the number of attempts made so far."""
    made = isinstance(verdict.outcome, Failed | Crashed)
    if verdict.attempt.known:
        used = verdict.attempt.number - (not made)
    else:  # not every delivery of its message need have been an attempt
        used = body.get("attempts_used", 0) + made
    return min(used, MOST_ATTEMPTS_USED)


def _wait_s(verdict: Verdict) -> int:
    action = verdict.action
    return action.delay_s if isinstance(action, RetryAfter | Release) else 0


def _shortened(verdict: Verdict, possible_s: int) -> Verdict:
    """Cut the wait of an unstarted job to one that its message, or an SQS delay, can hold.

    A job that comes too soon is released again, which costs it no attempt.
    """
    if not isinstance(verdict.outcome, Unstarted) or not isinstance(verdict.action, Release):
        return verdict
    attempt = verdict.attempt
    stays = attempt.lives_s >= 1 and attempt.receives < attempt.worn_at
    most_s = math.floor(min(possible_s, attempt.lives_s)) if stays else _MAX_DELAY_S
    delay_s = min(verdict.action.delay_s, most_s)
    return replace(verdict, action=Release(delay_s=delay_s))


def _cut(verdict: Verdict, possible_s: int, delivery: Delivery) -> Verdict:
    """Return the verdict with its wait cut to ``possible_s``."""
    match verdict.action:
        case RetryAfter(delay_s=delay_s, note=note) as action if delay_s > possible_s:
            why = _SQS_LIMIT if delivery.queue.fifo else f"{_SQS_LIMIT}; {_NOT_OURS}"
            said = "; ".join(filter(None, (note, f"{delay_s} s were wanted: {why}")))
            return replace(verdict, action=replace(action, delay_s=possible_s, note=said))
        case Release(delay_s=delay_s) as action if delay_s > possible_s:
            return replace(verdict, action=replace(action, delay_s=possible_s))
        case _:
            return verdict


def _token(delivery: Delivery) -> str:
    """Return the hand-over's token, the same however often this delivery's request is sent."""
    message = delivery.message
    return f"{message.message_id}-{message.receive_count}"[-64:]


def _is_of(standing: ScheduleSpec, delivery: Delivery) -> bool:
    """Return True if a schedule was created by another delivery of this very message.

    The schedule of an earlier hand-over may still exist for a while after it has fired.
    """
    try:
        job = read_delayed(from_json(standing.input))
    except (MessageUnreadable, ValueError):
        return False
    return job.token.startswith(f"{delivery.message.message_id}-")
