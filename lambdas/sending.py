"""Sending each job of the bridge once, though its invocations may be repeated.

    pk  job#ID   sk  sent   data  {"sent": BOOLEAN}

A schedule's run, a delayed job and an event have the same job's id however often the bridge is
invoked with them. The item is made before the job is sent, and says so after; whoever finds it said
sends nothing. Two invocations at the same time may both send: rare, and no more than SQS itself may
do. So is what a table that doesn't answer costs, since a job must not be lost for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from jobs.envelope import parse
from jobs.errors import TransportError
from jobs.ports import BlockingTable, BlockingTransport, EntryFailure, Item, OutgoingMessage
from jobs.records import partition

KEEP = timedelta(days=2)
"""Longer than EventBridge Scheduler (24 h) and Lambda (6 h) go on to invoke.
https://docs.aws.amazon.com/scheduler/latest/APIReference/API_RetryPolicy.html
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html"""

_log = logging.getLogger("headgate.bridge")


class SentOnce:
    """A transport that sends no job a second time, as far as its table tells.

    Args:
        transport: sends.
        table: where it is said.
        now: the wall clock.
    """

    def __init__(
        self, transport: BlockingTransport, table: BlockingTable, now: Callable[[], datetime]
    ) -> None:
        self._transport = transport
        self._table = table
        self._now = now

    def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        """`BlockingTransport.send`; what has been sent before passes for sent."""
        standing = {}
        for index, message in enumerate(messages):
            item = self._claimed(str(parse(message.body).id))
            if not item.data.get("sent"):
                standing[index] = item
        indexes = list(standing)
        if not indexes:
            return []
        failures = self._transport.send(queue, [messages[index] for index in indexes])
        failed = {indexes[failure.index] for failure in failures}
        for index, item in standing.items():
            if index not in failed:
                self._say_sent(item)
        return [
            EntryFailure(
                index=indexes[failure.index],
                code=failure.code,
                message=failure.message,
                sender_fault=failure.sender_fault,
            )
            for failure in failures
        ]

    def _claimed(self, job_id: str) -> Item:
        """What stands there once it has been asked for."""
        item = self._item(Item(pk=partition(job_id), sk="sent"), sent=False)
        try:
            return self._table.replace(item) or item
        except TransportError as error:
            _log.warning("job %s may be sent twice: %s", job_id, error)
            return item

    def _say_sent(self, standing: Item) -> None:
        try:
            self._table.replace(self._item(standing, sent=True))
        except TransportError as error:
            _log.warning("%s may be sent twice: %s", standing.pk, error)

    def _item(self, standing: Item, *, sent: bool) -> Item:
        return Item(
            pk=standing.pk,
            sk=standing.sk,
            data={"sent": sent},
            version=standing.version + 1,
            expires_at=self._now() + KEEP,
        )
