"""Deletes finished messages while other jobs of the invocation go on.

Lambda deletes the messages that the answer doesn't name, so usually there is nothing to do here.
But a function that dies never answers, and its whole batch is delivered again. A job that has ended
must not run again because another one killed the function, so its message is deleted shortly after;
that Lambda then deletes it, too, does no harm. Jobs that end just before the answer are left to
Lambda.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, SettlementFlushed
from headgate.jobs.core.ports.transport import AsyncTransport
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.consume")

LINGER_S = 0.05
"""Seconds that a delete waits for others to join, or for the answer that makes it needless."""

_PATIENCE_S = 1.0
"""Timeout of a request, in seconds."""


class Deletes:
    """Deletes the finished messages of one invocation.

    Args:
        transport: sends the requests.
        clock: tells the time.
        events: receives an event for each request.
    """

    def __init__(self, transport: AsyncTransport, *, clock: Clock, events: Events) -> None:
        self._transport = transport
        self._clock = clock
        self._events = events
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        self._timer: asyncio.TimerHandle | None = None
        self._flights: set[asyncio.Task[None]] = set()

    def put(self, delivery: Delivery, *, at_once: bool = False) -> None:
        """Delete a message soon; or ``at_once``, for a message whose job is already elsewhere."""
        queue = delivery.queue.name
        self._waiting[queue].append(delivery.message.receipt)
        if at_once or len(self._waiting[queue]) == MAX_BATCH:
            self._send(queue)
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._send_all)

    async def drain(self) -> None:
        """Delete the waiting messages, and return when SQS has answered or takes too long."""
        self._send_all()
        await self._landed()

    async def close(self) -> None:
        """Leave the waiting messages to Lambda, and return when no request is under way."""
        self._waiting.clear()
        self._send_all()
        await self._landed()

    async def _landed(self) -> None:
        if self._flights:
            await asyncio.wait(self._flights)

    def _send_all(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for queue in [*self._waiting]:
            self._send(queue)

    def _send(self, queue: str) -> None:
        flight = asyncio.create_task(
            self._delete(queue, self._waiting.pop(queue)), name="headgate-delete"
        )
        self._flights.add(flight)
        flight.add_done_callback(self._flights.discard)

    async def _delete(self, queue: str, receipts: Sequence[str]) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                failures = await self._transport.delete(queue, receipts)
        except (TransportError, TimeoutError) as error:
            self._leave(queue, len(receipts), str(error) or "no answer")
            return
        self._events.emit(
            SettlementFlushed(
                at=self._clock.now(), queue=queue, action="delete", entries=len(receipts)
            )
        )
        if failures:
            self._leave(queue, len(failures), failures[0].message)

    def _leave(self, queue: str, count: int, error: str) -> None:
        _log.warning(
            "%d finished messages of %s are left to Lambda to delete: %s", count, queue, error
        )
