"""The bridge: sends one message for each invocation by EventBridge, however often it is repeated.

    input        made by               its sending is named by
    Firing       a recurring schedule  the scheduled time; the schedule's ARN is in the job's id
    Occurrence   an event rule         the event
    DelayedJob   a one-time schedule   the time it is due, and the token of the hand-over

    pk  job#ID   sk  sent#SENDING   data  {"sent": BOOLEAN}

A job may be sent many times in its life: by its schedule, and again by each one-time schedule that
holds it until a later attempt. So the sending is claimed, never the job. The item is written with
``false`` before the message is sent and with ``true`` after; an invocation that finds ``true``
sends nothing. Two simultaneous invocations may both send: rare, and no worse than SQS's own
duplicates. An invocation whose table doesn't answer sends too, since no job may be lost for that.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.jobs.core.batching import EntryRejected
from headgate.jobs.core.ports import BlockingTable, BlockingTransport, Item
from headgate.jobs.definitions.event_rule import Occurrence, is_occurrence, read_occurrence
from headgate.jobs.errors import MessageUnreadable, TransportError
from headgate.jobs.records.items import partition
from headgate.jobs.schedules.delayed_job import DelayedJob, is_delayed, read_delayed
from headgate.jobs.schedules.firing import Firing, read_firing

Input = Firing | Occurrence | DelayedJob
"""Inputs of the bridge. Each has a ``job_id``, a ``queue_name`` and a ``message``, and ``sending``
names the one sending that it stands for."""

_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)

KEEP = timedelta(days=2)
"""Longer than EventBridge Scheduler (24 h) and Lambda (6 h) retry an invocation.
https://docs.aws.amazon.com/scheduler/latest/APIReference/API_RetryPolicy.html
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html"""

_log = logging.getLogger("headgate.bridge")


def read_input(event: object) -> Input:
    """Read what a schedule or an event rule handed over.

    Whatever the event, an input that is returned can be sent.

    Raises:
        MessageUnreadable: it is neither's; the message names the fields, never their values.
    """
    given = _read(_json_object(event))
    _prove_sendable(given)
    return given


def _json_object(event: object) -> Mapping[str, Any]:
    """Check that JSON in UTF-8 can hold it; Lambda reads ``1e999`` and lone surrogates too.

    Raises:
        MessageUnreadable: it is nothing of the kind.
    """
    if not isinstance(event, Mapping):
        raise MessageUnreadable(f"the input is no JSON object, but a {type(event).__name__}")
    try:
        json.dumps(event, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        kind = type(error).__name__
    else:
        return event
    # Not from the error, which quotes the values.
    raise MessageUnreadable(
        f"JSON can't hold the input ({kind}): a number in it is too large, it has a lone "
        "surrogate, or it is nested too deeply"
    )


def _read(event: Mapping[str, Any]) -> Input:
    if is_delayed(event):
        return read_delayed(event)
    return read_occurrence(event) if is_occurrence(event) else read_firing(event)


def _prove_sendable(given: Input) -> None:
    """Derive everything from an input once, before anything is claimed or sent.

    Raises:
        MessageUnreadable: something of it can't be made.
    """
    try:
        counts(given)
        _ = given.job_id, given.sending, given.message(_ANY_TIME)
    except (ValueError, ArithmeticError, TypeError) as error:
        kind = type(error).__name__
    else:
        return
    # Not from the error, which quotes the values.
    raise MessageUnreadable(f"the input makes no message: {kind}")


def counts(given: Input) -> bool:
    """Return True if an input is to be sent; a schedule fires before its declared start too."""
    return given.counts if isinstance(given, Firing) else True


class Bridge:
    """Sends each input's message once.

    Args:
        transport: sends the messages.
        table: records the sendings; None sends every time.
        now: the wall clock.
    """

    def __init__(
        self,
        transport: BlockingTransport,
        table: BlockingTable | None,
        now: Callable[[], datetime],
    ) -> None:
        self._transport = transport
        self._table = table
        self._now = now

    def submit(self, given: Input) -> bool:
        """Send the message; when this returns, SQS has it.

        Returns False if nothing is to be sent: an earlier invocation has sent it, or it doesn't
        count.

        Raises:
            TransportError: SQS could not be asked, or refused.
        """
        if not counts(given):
            return False
        mark = self._claimed(given)
        if mark.data.get("sent"):
            return False
        for failure in self._transport.send(given.queue_name, [given.message(self._now())]):
            raise EntryRejected(failure)
        self._replace(mark, sent=True)
        return True

    def _claimed(self, given: Input) -> Item:
        """Write the mark of a sending; return the one that the table then holds."""
        place = Item(pk=partition(str(given.job_id)), sk=f"sent#{given.sending}")
        return self._replace(place, sent=False)

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
            _log.warning("%s may be sent twice: %s", standing.pk, error)
            return mark
