"""Keeping what we hold hidden: visibility is extended for running and prefetched messages alike.

Each hold is extended at a third of its queue's visibility timeout, so that two beats may fail
before its message shows. The types' longest timeout keeps every hold within SQS's 12 hours.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

from jobs.clock import Clock
from jobs.errors import TransportError
from jobs.events import Events, ReceiptLost
from jobs.ports import EntryFailure, Transport, VisibilityChange
from jobs.topology import MAX_BATCH, QueueSpec
from workers.holding import Hold, Holdings


class Heartbeat:
    """Extends every hold in time; cancels the run of one whose receipt SQS no longer knows."""

    def __init__(
        self,
        transport: Transport,
        queues: Iterable[QueueSpec],
        holdings: Holdings,
        *,
        clock: Clock,
        events: Events,
    ) -> None:
        self._transport = transport
        self._holdings = holdings
        self._clock = clock
        self._events = events
        # Twice per interval: a hold is thus extended at most half an interval early.
        self._tick_s = min(spec.heartbeat_s for spec in queues) / 2

    async def run(self) -> None:
        """Beat until cancelled. Ends otherwise only by a fault, which must stop the worker."""
        while True:
            await asyncio.sleep(self._tick_s)
            await self.beat()

    async def beat(self) -> None:
        """Extend everything whose interval ends before the next tick."""
        due: dict[str, list[Hold]] = defaultdict(list)
        horizon = self._clock.monotonic() + self._tick_s
        for hold in self._holdings:
            queue = hold.delivery.queue
            if not (hold.closing or hold.lost) and hold.extended_at + queue.heartbeat_s <= horizon:
                due[queue.name].append(hold)
        async with asyncio.TaskGroup() as group:
            for holds in due.values():
                for start in range(0, len(holds), MAX_BATCH):
                    group.create_task(self._extend(holds[start : start + MAX_BATCH]))

    async def _extend(self, holds: Sequence[Hold]) -> None:
        queue = holds[0].delivery.queue
        beat: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for hold in holds:
            hold.beat = beat
        asked_at = self._clock.monotonic()
        changes = [
            VisibilityChange(receipt=hold.receipt, timeout_s=queue.visibility_s) for hold in holds
        ]
        try:
            failures = await self._transport.change_visibility(queue.name, changes)
        except TransportError:
            # Heard of by the poller too; these holds are still due, so the next tick tries again.
            return
        finally:
            beat.set_result(None)
            for hold in holds:
                hold.beat = None
        self._read(holds, failures, asked_at)

    def _read(
        self, holds: Sequence[Hold], failures: Sequence[EntryFailure], asked_at: float
    ) -> None:
        failed = {failure.index: failure for failure in failures}
        for index, hold in enumerate(holds):
            failure = failed.get(index)
            if failure is None:
                hold.extended_at = asked_at
            elif failure.sender_fault and hold in self._holdings and not hold.closing:
                self._lose(hold, failure)

    def _lose(self, hold: Hold, failure: EntryFailure) -> None:
        hold.lost = True
        if hold.run is not None:
            hold.run.interrupt("its receipt was lost")
        self._events.emit(
            ReceiptLost(
                at=self._clock.now(),
                queue=hold.delivery.queue.name,
                message_id=hold.delivery.message.message_id,
                error=f"{failure.code}: {failure.message}",
            )
        )
