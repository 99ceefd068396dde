"""The bridge: sends one message for each invocation by EventBridge, however often it is repeated.

    pk  sent#ID   sk  SENDING#DIGEST   data  {"sent": BOOLEAN}

A job may be sent many times in its life: by its schedule, and again by each one-time schedule that
holds it until a later attempt. So the sending is claimed, never the job. The item is written with
``false`` before the message is sent and with ``true`` after. The first write also reads: where the
item exists, the table refuses it and returns the one that stands, and an invocation that finds
``true`` sends nothing. One that finds ``false`` sends, since the other may have died before.
So a job is sent twice if an invocation dies, or its table fails, between the message and the second
write; and two simultaneous invocations may both send: rare, and no worse than SQS's own duplicates.
An invocation whose table doesn't answer sends too, since no job may be lost for that.

Inputs are written by whoever may create a schedule, so nothing in them is believed. A job goes only
where `jobs.schedules.routes` has it. And the digest is that of the very message and its queue: an
input that bears another job's id and time speaks for itself alone, and keeps nothing from being
sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from headgate.jobs.core.batching import EntryRejected
from headgate.jobs.core.events import Events
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports.table import Item, Table
from headgate.jobs.core.ports.transport import OutgoingMessage, Sender
from headgate.jobs.errors import TransportError
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.schedules.inputs import Input
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.values.own_log import OwnLog

SENT = "sent#"
"""Prefix of the partition of the marks about one job."""

KEEP = timedelta(days=2)
"""Longer than EventBridge Scheduler (24 h) and Lambda (6 h) retry an invocation.
https://docs.aws.amazon.com/scheduler/latest/APIReference/API_RetryPolicy.html
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html"""

_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)

_log = OwnLog("headgate.bridge")


class Bridge:
    """Sends each input's message once.

    Args:
        transport: sends the messages.
        table: records the sendings; None sends every time.
        now: the wall clock.
        routes: the queues that each type's jobs may be sent to.
        events: receives an event for each input that is refused.
        keyring: signs the messages of recurring schedules and events; None leaves them unsigned.
    """

    def __init__(
        self,
        transport: Sender,
        table: Table | None,
        now: Callable[[], datetime],
        *,
        routes: Routes,
        events: Events | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self._transport = transport
        self._table = table
        self._now = now
        self._routes = routes
        self._events = events or Events()
        self._keyring = keyring

    def submit(self, given: Input) -> bool:
        """Send the message; when this returns, SQS has it.

        Returns False if nothing is to be sent: an earlier invocation has sent it, or it doesn't
        count.

        Raises:
            MessageError: its queue is not one that its type runs from.
            TransportError: SQS could not be asked, or refused; or the signing key can't be read.
        """
        if not given.counts:
            return False
        self._check_route(given)
        mark = self._claimed(given)
        if mark.data.get("sent") is True:
            return False
        message = drive(as_sent(given, given.message(self._now()), self._keyring))
        for failure in self._transport.send(given.queue_name, [message]):
            raise EntryRejected(failure)
        self._replace(mark, sent=True)
        return True

    def _check_route(self, given: Input) -> None:
        if (refusal := self._routes.refusal(given)) is None:
            return
        from headgate.jobs.core.events import FiringRefused  # seldom, and with all of its kind

        self._events.emit(
            FiringRefused(
                at=self._now(),
                queue=given.queue_name,
                job_id=str(given.job_id),
                job_type=given.type,
                error=str(refusal),
            )
        )
        raise refusal

    def _claimed(self, given: Input) -> Item:
        """Write the mark of a sending; return the one that the table then holds."""
        mark = Item(pk=f"{SENT}{given.job_id}", sk=place_of(given))
        return self._replace(mark, sent=False)

    def _replace(self, standing: Item, *, sent: bool) -> Item:
        """Write the mark over the one known; return the one that the table then holds."""
        mark = Item(
            pk=standing.pk,
            sk=standing.sk,
            data={"sent": sent},
            version=standing.version + 1,
            expires_at=self._now() + KEEP,
        )
        if self._table is None:
            return mark
        try:
            return self._table.replace(mark) or mark
        except TransportError as error:
            _log.warning("%s is not marked and may be sent twice: %s", standing.pk, error)
            return mark


async def as_sent(
    given: Input, message: OutgoingMessage, keyring: Keyring | None
) -> OutgoingMessage:
    """Return the message of an input as it is sent: signed, if the app's messages are.

    That of a delayed job has the signature of whoever has delayed it: the bridge vouches for none
    that it has not made itself.

    Raises:
        TransportError: no key could be read.
    """
    if keyring is None or isinstance(given, DelayedJob):
        return message
    return await keyring.signed_message(given.queue_name, message)


def place_of(given: Input) -> str:
    """Return the sort key of an input's mark, the same for every invocation with that input."""
    body = given.message(_ANY_TIME).body  # a firing's has the time of its submission
    digest = hashlib.sha256(f"{given.queue_name}\n{body}".encode()).hexdigest()
    return f"{given.sending}#{digest[:32]}"
