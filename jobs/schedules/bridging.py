"""The bridge: sends one message for each invocation by EventBridge, however often it is repeated.

    pk  job#ID   sk  sent#SENDING   data  {"sent": BOOLEAN}

A job may be sent many times in its life: by its schedule, and again by each one-time schedule that
holds it until a later attempt. So the sending is claimed, never the job. The item is written with
``false`` before the message is sent and with ``true`` after; an invocation that finds ``true``
sends nothing. Two simultaneous invocations may both send: rare, and no worse than SQS's own
duplicates. An invocation whose table doesn't answer sends too, since no job may be lost for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from headgate.jobs.core.batching import EntryRejected
from headgate.jobs.core.ports import Item, Sender, Table
from headgate.jobs.errors import TransportError
from headgate.jobs.records.items import partition
from headgate.jobs.schedules.inputs import Input

KEEP = timedelta(days=2)
"""Longer than EventBridge Scheduler (24 h) and Lambda (6 h) retry an invocation.
https://docs.aws.amazon.com/scheduler/latest/APIReference/API_RetryPolicy.html
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html"""

_log = logging.getLogger("headgate.bridge")


class Bridge:
    """Sends each input's message once.

    Args:
        transport: sends the messages.
        table: records the sendings; None sends every time.
        now: the wall clock.
    """

    def __init__(
        self,
        transport: Sender,
        table: Table | None,
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
        if not given.counts:
            return False
        mark = self._claimed(given)
        if mark.data.get("sent") is True:
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
