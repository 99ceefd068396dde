"""The heartbeat: extends the visibility timeout of all held messages, running and prefetched.

Each hold is extended at a third of its queue's visibility timeout, or up to an eighth of that
earlier to share a request; and never beyond the 12 hours that SQS allows since the receive. What
fails, or is not answered, is asked for again half of that later: three such requests in a row may
come to nothing before the message becomes visible. An answer that comes late still counts.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, HeartbeatExtended, HeartbeatFailed, ReceiptLost
from headgate.jobs.core.ports.transport import AsyncTransport, EntryFailure, VisibilityChange
from headgate.jobs.core.topology import MAX_BATCH, QueueSpec
from headgate.jobs.errors import TransportError
from headgate.jobs.values.own_log import OwnLog
from headgate.workers.held import Hold, Holdings

_log = OwnLog("headgate.worker")

_COMPANY = 1 / 8
"""Fraction of its interval by which an extension may come early to share a request."""

_AGAIN = 1 / 2
"""Fraction of its interval after which an extension that failed, or has had no answer, is asked for
again. The request under way keeps its connection, so the next has another one."""

_LEAST_S = 1.0
"""Time that an extension has at least, since it may have to open a connection. All others are given
up after an interval, so that no more than three of a message are under way."""


_CLOCKS_DIFFER = timedelta(minutes=1)
"""Largest difference between this clock and SQS's at the end of a message's retention."""

_OUTLIVED = (
    "a message of %s has reached the end of its retention while it was held here, so SQS has "
    "deleted it: its job goes on, and is lost if this worker dies before the job ends (message %s)"
)


class Heartbeat:
    """Extends every hold in time; cancels the run of one whose receipt SQS no longer knows."""

    def __init__(
        self,
        transport: AsyncTransport,
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
        shortest_s = min(spec.heartbeat_s for spec in queues)
        # Messages received meanwhile, and extensions that fail, are due later than that.
        self._longest_sleep_s = shortest_s / 4
        self._shortest_sleep_s = shortest_s / 32

    async def run(self) -> None:
        """Beat until cancelled. It ends otherwise only on a fault, which must stop the worker."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._idle_s())
                self._beat(group)

    def _idle_s(self) -> float:
        """Return the seconds to sleep until an extension may be due."""
        now = self._clock.monotonic()
        holds = self._holdings.messages()
        dues = (_due_at(hold) for hold in holds if _may_be_extended(hold, now))
        idle_s = min(dues, default=math.inf) - now
        return max(self._shortest_sleep_s, min(idle_s, self._longest_sleep_s))

    def _beat(self, group: asyncio.TaskGroup) -> None:
        """Extend all holds that are due. A slow answer for one queue delays no other."""
        for holds in self._due().values():
            for start in range(0, len(holds), MAX_BATCH):
                batch = holds[start : start + MAX_BATCH]
                asked_at = self._clock.monotonic()
                beat = group.create_task(self._extend(batch, asked_at), name="headgate-extend")
                # Before it starts: a verdict in between has to wait for it.
                for hold in self._all_of(batch):
                    hold.asked_at = asked_at
                    hold.beats = (*(each for each in hold.beats if not each.done()), beat)

    def _due(self) -> dict[str, list[Hold]]:
        """Return the holds whose interval has nearly or fully ended, by queue; one a message."""
        due: dict[str, list[Hold]] = defaultdict(list)
        now = self._clock.monotonic()
        for hold in self._holdings.messages():
            if hold.lapsed(now) and not hold.shared:
                self._doubt(hold)
            queue = hold.delivery.queue
            soon = _due_at(hold) <= now + queue.heartbeat_s * _COMPANY
            if soon and _may_be_extended(hold, now):
                due[queue.name].append(hold)
        return due

    async def _extend(self, holds: Sequence[Hold], asked_at: float) -> None:
        queue = holds[0].delivery.queue
        changes = [
            VisibilityChange(
                receipt=hold.receipt,
                timeout_s=min(queue.visibility_s, hold.delivery.hides_s(asked_at)),
            )
            for hold in holds
        ]
        given_up_after_s = max(queue.heartbeat_s, _LEAST_S)
        try:
            async with asyncio.timeout(given_up_after_s):
                failures = await self._transport.change_visibility(queue.name, changes)
        except TimeoutError:
            self._failed(holds, f"SQS did not answer within {given_up_after_s:g} s")
            return
        except TransportError as error:
            self._failed(holds, str(error))
            return
        self._read(holds, failures, asked_at)
        extended = HeartbeatExtended(
            at=self._clock.now(), queue=queue.name, messages=len(holds) - len(failures)
        )
        self._events.emit(extended)

    def _failed(self, holds: Sequence[Hold], error: str) -> None:
        queue = holds[0].delivery.queue.name
        self._events.emit(
            HeartbeatFailed(at=self._clock.now(), queue=queue, error=error, messages=len(holds))
        )

    def _read(
        self, holds: Sequence[Hold], failures: Sequence[EntryFailure], asked_at: float
    ) -> None:
        failed = {failure.index: failure for failure in failures}
        for index, hold in enumerate(holds):
            failure = failed.get(index)
            together = self._holdings.together(hold)
            if failure is None:
                for each in together:
                    # The timeout counts from the request, and a later one may have been answered.
                    each.extended_at = max(each.extended_at, asked_at)
            elif failure.sender_fault and any(each in self._holdings for each in together):
                self._lose(together, failure)

    def _doubt(self, hold: Hold) -> None:
        # With the receipt of a past delivery SQS may act on a later one, held by another worker:
        # an extension does that worker no harm, but a retry's delay or a release would.
        for each in self._holdings.together(hold):
            each.shared = True
        self._report(hold, "it was not extended in time, so another worker may have it as well")

    def _lose(self, holds: Collection[Hold], failure: EntryFailure) -> None:
        """Give up the holds of one message, unless that is done, or it is being settled."""
        if any(hold.lost or hold.outlived or _is_settling(hold) for hold in holds):
            return
        if all(self._has_outlived(hold) for hold in holds):
            for hold in holds:
                hold.outlived = True
                _log.warning(_OUTLIVED, hold.delivery.queue.name, hold.delivery.message.message_id)
            return
        for hold in holds:
            hold.lost = True
            hold.run.interrupt("its receipt was lost")
        self._report(next(iter(holds)), f"{failure.code}: {failure.message}")

    def _has_outlived(self, hold: Hold) -> bool:
        """Return True if SQS has deleted its message for its age, so that nobody else has it."""
        return not hold.shared and self._clock.now() >= hold.delivery.deleted_at - _CLOCKS_DIFFER

    def _all_of(self, holds: Iterable[Hold]) -> Iterator[Hold]:
        """Yield all holds of some messages, given one of each."""
        for hold in holds:
            yield from self._holdings.together(hold)

    def _report(self, hold: Hold, error: str) -> None:
        self._events.emit(
            ReceiptLost(
                at=self._clock.now(),
                queue=hold.delivery.queue.name,
                message_id=hold.delivery.message.message_id,
                error=error,
            )
        )


def _due_at(hold: Hold) -> float:
    """Return the time at which its visibility has to be extended, on the monotonic clock."""
    interval_s = hold.delivery.queue.heartbeat_s
    return max(hold.extended_at + interval_s, hold.asked_at + interval_s * _AGAIN)


def _may_be_extended(hold: Hold, now: float) -> bool:
    return not (hold.closing or hold.lost or hold.outlived) and hold.delivery.hides_s(now) > 0


def _is_settling(hold: Hold) -> bool:
    return hold.closing or hold.deleting
