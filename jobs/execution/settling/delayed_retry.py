"""Delayed retries: a job whose message can't wait for the next attempt goes on in another message.

`jobs.execution.settling.settlement` decides where a job waits; this module makes its one-time
schedule, or its new message. The schedule is created, or the message sent, before the old message
is deleted: so the job is never lost; at worst it exists twice, under one id. The new message states
the number of attempts made, and the time from which the job may run (``not_before``). So no limit
of SQS ends a job: neither a queue's retention, nor the number of receives.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import from_json, to_json

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.ports.scheduler import AsyncScheduler
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import MAX_DELAY, Topology
from headgate.jobs.definitions.options.job_options import LONGEST_EXPIRY
from headgate.jobs.errors import PayloadLost, PayloadTooLarge, TransportError
from headgate.jobs.execution import job_events
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.outcome import Crashed, Failed, Unstarted
from headgate.jobs.execution.settling.actions import Release, RetryAfter, Way
from headgate.jobs.execution.settling.settlement import Room
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.messages.envelope import MOST_ATTEMPTS_USED, parse
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.messages.large_payloads import check_reference, max_packed
from headgate.jobs.messages.outgoing import sendable
from headgate.jobs.messages.signatures import SIGNATURE
from headgate.jobs.schedules.delayed_job import delayed
from headgate.jobs.schedules.delayed_jobs import DelayedJobs

_MAX_DELAY_S = int(MAX_DELAY.total_seconds())

_PAYLOAD_REF = '"payload_ref"'
"""Occurs in the body of every message whose payload is in the object store, and in few others."""

Asked = Callable[[str, str], Awaitable[bool]]
"""Tells by a job's id and type whether somebody has asked for its cancellation; may raise a
`TransportError`."""


def holds_s(delivery: Delivery, topology: Topology) -> float:
    """Return the seconds for which a one-time schedule may hold a delivery's job."""
    if _PAYLOAD_REF not in delivery.message.body:
        return math.inf
    # Half of it is for the queue and the dead-letter queue, once the schedule has fired.
    return topology.payload_retention.total_seconds() / 2


def room_of(delivery: Delivery, means: Means, *, scheduled: bool) -> Room:
    """Return the waits that are possible for a delivery's job.

    Args:
        delivery: the delivery.
        means: the app, and the clock.
        scheduled: whether one-time schedules can hold jobs.
    """
    return Room(
        hidden_s=delivery.hides_s(means.clock.monotonic()),
        scheduled_s=holds_s(delivery, means.app.topology) if scheduled else 0,
        fifo=delivery.queue.fifo,
    )


class HandOver:
    """Moves jobs that outlive their messages to schedules or new messages.

    Args:
        scheduler: keeps one-time schedules; None if there is none.
        topology: names the schedules' targets.
        clock: tells the time.
        events: receives an event for each schedule that could not be created.
        asked: tells of cancellations; None: there are none.
        store: holds the payloads that are too large for messages.
        keyring: signs the messages that jobs go on in; None leaves them unsigned.
    """

    def __init__(
        self,
        scheduler: AsyncScheduler | None,
        topology: Topology,
        *,
        clock: Clock,
        events: Events,
        asked: Asked | None = None,
        store: AsyncObjectStore | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self._delayed: DelayedJobs | None = None
        if scheduler is not None:
            self._delayed = DelayedJobs(scheduler, lambda: topology, clock, keyring)
        self._keyring = keyring
        self._clock = clock
        self._events = events
        self._asked = asked
        self._store = store

    async def take(
        self, delivery: Delivery, verdict: Verdict, *, waited_s: float = 0.0
    ) -> tuple[Verdict, OutgoingMessage | None]:
        """Create the schedule, or make the message, in which a job goes on.

        Args:
            delivery: the delivery of its present message.
            verdict: the verdict on that delivery, whose way is SCHEDULED or ANEW; of a job of a
                bundle, any that lets it wait.
            waited_s: seconds that have passed since the verdict, of those that it is to wait.

        Returns:
            the verdict, decided again if no schedule could be created; and the message to send in
            place of the present one. None: a schedule holds the job.

        Raises:
            TransportError: the message can't be signed, since no key could be read.
        """
        if not verdict.attempt.renewable:
            return verdict, _singly(delivery, _wait_s(verdict, waited_s))
        await self._refresh_payload(delivery, verdict)
        if _way(verdict) is Way.SCHEDULED:
            if await self._is_held(delivery, verdict, waited_s):
                return verdict, None
            verdict = replace(verdict, room=replace(verdict.room, scheduled_s=0))
        message = _again(delivery, verdict, self._clock.now(), waited_s)
        if self._keyring is not None:
            message = await self._keyring.signed_message(delivery.queue.name, message)
        return verdict, message

    async def _is_held(self, delivery: Delivery, verdict: Verdict, waited_s: float) -> bool:
        """Create a one-time schedule for the job; return True if one holds it now."""
        if self._delayed is None:
            return False
        now = self._clock.now()
        job = delayed(
            _again(delivery, verdict, now, waited_s),
            queue_name=delivery.queue.name,
            job_id=verdict.attempt.job_id,
            job_type=verdict.job_type,
            due=now + timedelta(seconds=_wait_s(verdict, waited_s)),
            token=_token(delivery),
        )
        try:
            is_held = await self._delayed.hold(job)
        except PayloadTooLarge:
            return False
        except TransportError as error:
            self._report(delivery, verdict, "schedule", error)
            return False
        return is_held and not await self._is_withdrawn(self._delayed, delivery, verdict)

    async def _is_withdrawn(
        self, delayed_jobs: DelayedJobs, delivery: Delivery, verdict: Verdict
    ) -> bool:
        """Delete the schedule of a job that is to be cancelled; return True if that was done.

        Whoever asked for it before there was a schedule has found none, and the request would not
        last until this one fires. In a message its next worker cancels the job within minutes.
        """
        if self._asked is None:
            return False
        job_id, job_type = verdict.attempt.job_id, verdict.job_type
        try:
            if not await self._asked(job_id, job_type):
                return False
            return await delayed_jobs.cancel(job_id, job_type) is not None
        except TransportError as error:
            self._report(delivery, verdict, "cancel", error)
            return False

    async def _refresh_payload(self, delivery: Delivery, verdict: Verdict) -> None:
        """Write a payload in the object store anew, since objects expire by their age."""
        if self._store is None or _PAYLOAD_REF not in delivery.message.body:
            return
        envelope = parse(delivery.message.body)
        if (ref := envelope.payload_ref) is None:
            return
        try:
            check_reference(ref, envelope.id)
            content = await self._store.get(ref.key, max_bytes=max_packed(ref))
            if content is not None:
                await self._store.put(ref.key, content)
        except TransportError as error:
            self._report(delivery, verdict, "keep_payload", error)
        except PayloadLost:
            return  # for the job's next run to tell

    def _report(
        self, delivery: Delivery, verdict: Verdict, action: str, error: TransportError
    ) -> None:
        at, job_id = self._clock.now(), verdict.attempt.job_id
        self._events.emit(job_events.settlement_failed(delivery, job_id, action, error, at))


def _singly(delivery: Delivery, wait_s: int) -> OutgoingMessage:
    """Return a part of a bundle in a message of its own as it is, signature included: it can't be
    read as a job here, and must not become one by what is written here."""
    message = delivery.message
    return OutgoingMessage(
        body=message.body,
        attributes=message.attributes,
        delay_s=min(wait_s, _MAX_DELAY_S),
        group=message.group,
    )


def _again(delivery: Delivery, verdict: Verdict, now: datetime, waited_s: float) -> OutgoingMessage:
    """Return the same job in a new message. Fields that this version doesn't know are kept."""
    message, wait_s = delivery.message, _wait_s(verdict, waited_s)
    body = from_json(message.body)
    due = now + timedelta(seconds=wait_s)
    if isinstance(verdict.outcome, Unstarted) and (early := parse(message.body).not_before):
        due = max(due, early)  # it was already waiting until then
    body.pop(SIGNATURE, None)
    body |= {"attempts_used": _used(body, verdict), "not_before": due.isoformat()}
    if (expires_at := verdict.attempt.expires_at) is not None:
        if verdict.attempt.begun and not body["attempts_used"]:
            expires_at = due + LONGEST_EXPIRY  # nothing else would tell that it expires no more
        body["expires_at"] = expires_at.isoformat()  # it must not follow the new not_before
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


def _wait_s(verdict: Verdict, waited_s: float) -> int:
    action = verdict.action
    if not isinstance(action, RetryAfter | Release):
        return 0
    return max(0, math.ceil(action.delay_s - waited_s))


def _way(verdict: Verdict) -> Way | None:
    action = verdict.action
    return action.way if isinstance(action, RetryAfter | Release) else None


def _token(delivery: Delivery) -> str:
    """Return the hand-over's token, the same however often this delivery's request is sent."""
    message = delivery.message
    return f"{message.message_id}-{message.receive_count}"[-64:]
