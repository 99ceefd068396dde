"""Carries out verdicts on Lambda, which deletes: visibility changes and dead letters, by tens.

If SQS doesn't carry out a request in time, the message stays and is delivered again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar, assert_never

from headgate.jobs.core.batcher import Batcher, Pacing
from headgate.jobs.core.batching import EntryRejected, in_batches
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, SettlementFailed, SettlementFlushed
from headgate.jobs.core.ports import (
    EntryFailure,
    ObjectStore,
    OutgoingMessage,
    Scheduler,
    Transport,
    VisibilityChange,
)
from headgate.jobs.core.topology import MAX_VISIBILITY, Topology
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.dead_letter import bare
from headgate.jobs.execution.delayed_retry import Course, HandOver, Held, Renewed, Stays
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.settlement import Ack, DeadLetter, Quarantine, Release, RetryAfter
from headgate.jobs.execution.verdict import Verdict, parked
from headgate.jobs.messages.outgoing import size_of

T = TypeVar("T")

_log = logging.getLogger("headgate.consume")

_PACING = Pacing(linger_s=0.01, tries=2, patient=False)

_PARALLEL = 16
"""Maximum number of concurrent requests while a surplus is given back."""

_HELD_BEFORE_S = 360
"""Seconds that Lambda may have held a message before: its longest batching window, and a minute.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""


class Settler:
    """Carries out the verdicts of one invocation.

    Args:
        transport: sends the requests.
        topology: names the dead-letter and quarantine queues.
        clock: tells the time.
        events: receives an event for the end of each message.
        eager: returns True when nothing else runs, so that batching would only delay requests.
        ends_at: deadline on the event loop's time; a request not answered by then has failed.
        scheduler: holds jobs that have to wait longer than SQS can; without one they are sent anew.
        store: holds the payloads of jobs that are handed over.
    """

    def __init__(
        self,
        transport: Transport,
        topology: Topology,
        *,
        clock: Clock,
        events: Events,
        eager: Callable[[], bool],
        ends_at: float,
        scheduler: Scheduler | None = None,
        store: ObjectStore | None = None,
    ) -> None:
        self._transport = transport
        self._quarantine = topology.quarantine_name
        self._hand_over = HandOver(scheduler, topology, clock=clock, events=events, store=store)
        self._clock = clock
        self._events = events
        self._eager = eager
        self._ends_at = ends_at
        self._rng = random.Random()  # noqa: S311 - spreads pauses, guards no secret
        self._sends: dict[str, Batcher[OutgoingMessage]] = {}
        self._changes: dict[str, Batcher[VisibilityChange]] = {}
        self._returns = asyncio.Semaphore(_PARALLEL)

    async def settle(self, delivery: Delivery, verdict: Verdict) -> bool:
        """Carry out a verdict and emit its event; return True if the message is to be deleted."""
        job_id = verdict.attempt.job_id
        course = await self._course(delivery, verdict)
        verdict = course.verdict
        if not isinstance(course, Stays):
            return await self._moved(delivery, course)
        match verdict.action:
            case Ack():
                carried_out, stays = True, False
            case RetryAfter(delay_s=delay_s) | Release(delay_s=delay_s):
                carried_out, stays = await self._show_in(delivery, delay_s, job_id), True
            case DeadLetter() | Quarantine() as action:
                carried_out, stays = await self._park(delivery, verdict, action), False
            case _:
                assert_never(verdict.action)
        if carried_out:
            self.tell(verdict)
        return carried_out and not stays

    async def give_back(self, unstarted: Sequence[tuple[Delivery, int]]) -> None:
        """Release messages that have not been started, each with its delay in seconds.

        Messages that there is no time for show again when their visibility timeout ends.
        """
        changes: defaultdict[str, list[VisibilityChange]] = defaultdict(list)
        for delivery, delay_s in unstarted:
            changes[delivery.queue.name].append(self._change(delivery, delay_s))
        failed = await asyncio.gather(
            *(
                self._returned(queue, batch)
                for queue, of_queue in changes.items()
                for batch in in_batches(of_queue, lambda _change: 0)
            )
        )
        if left := sum(failed):
            _log.warning(
                "%d messages that were not started show again only when their visibility timeout "
                "ends: SQS did not take their return in time",
                left,
            )

    def tell(self, verdict: Verdict) -> None:
        """Emit the event that follows from a verdict, if any."""
        if (event := verdict.aftermath(self._clock.now())) is not None:
            self._events.emit(event)

    async def _course(self, delivery: Delivery, verdict: Verdict) -> Course:
        if not isinstance(verdict.action, RetryAfter | Release):
            return Stays(verdict=verdict)
        possible_s = self._possible_s(delivery, verdict.action.delay_s)
        try:
            async with asyncio.timeout_at(self._ends_at):
                return await self._hand_over.take(delivery, verdict, possible_s)
        except TimeoutError:
            # There is no time left for any other course, either.
            return Stays(verdict=verdict)

    async def _moved(self, delivery: Delivery, course: Held | Renewed) -> bool:
        """Move a job elsewhere; return True if that succeeded, so that its message may go."""
        if isinstance(course, Renewed):
            queue, job_id = delivery.queue.name, course.verdict.attempt.job_id
            sends = self._batcher(self._sends, queue, self._transport.send, size_of)
            if await self._refusal(sends.put(course.message), "send", delivery, job_id):
                return False
        self.tell(course.verdict)
        return True

    async def _park(
        self, delivery: Delivery, verdict: Verdict, action: DeadLetter | Quarantine
    ) -> bool:
        """Send a dead letter; return True if SQS took it. If not, the next delivery tries again,
        without running the job."""
        target, letter = parked(
            delivery, verdict, action, quarantine=self._quarantine, at=self._clock.now()
        )
        sends = self._batcher(self._sends, target, self._transport.send, size_of)
        job_id = verdict.attempt.job_id
        error = await self._refusal(sends.put(letter), "send", delivery, job_id)
        if isinstance(error, EntryRejected) and error.failure.sender_fault:
            error = await self._refusal(sends.put(bare(letter)), "send", delivery, job_id)
        return error is None

    async def _show_in(self, delivery: Delivery, delay_s: int, job_id: str) -> bool:
        changes = self._batcher(
            self._changes, delivery.queue.name, self._transport.change_visibility
        )
        changed = changes.put(self._change(delivery, delay_s))
        return await self._refusal(changed, "change_visibility", delivery, job_id) is None

    def _change(self, delivery: Delivery, delay_s: int) -> VisibilityChange:
        return VisibilityChange(
            receipt=delivery.message.receipt, timeout_s=self._possible_s(delivery, delay_s)
        )

    def _possible_s(self, delivery: Delivery, wanted_s: int) -> int:
        """Return a visibility timeout that SQS accepts: it ends within 12 h of the receive.

        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
        """
        held_s = self._clock.monotonic() - delivery.received_at + _HELD_BEFORE_S
        return max(0, min(wanted_s, int(MAX_VISIBILITY.total_seconds() - held_s)))

    async def _returned(self, queue: str, changes: Sequence[VisibilityChange]) -> int:
        """Carry out some changes; return the number of failures."""
        try:
            async with asyncio.timeout_at(self._ends_at), self._returns:
                return len(await self._flush(self._transport.change_visibility, queue, changes))
        except (TransportError, TimeoutError):
            return len(changes)

    async def _refusal(
        self, done: asyncio.Future[None], action: str, delivery: Delivery, job_id: str
    ) -> TransportError | None:
        """Return the error of a request, if any, and emit it; the message then comes again."""
        try:
            await done
        except TransportError as error:
            self._events.emit(
                SettlementFailed(
                    at=self._clock.now(),
                    queue=delivery.queue.name,
                    message_id=delivery.message.message_id,
                    job_id=job_id,
                    action=action,
                    error=str(error),
                )
            )
            return error
        return None

    def _batcher(
        self,
        batchers: dict[str, Batcher[T]],
        queue: str,
        call: Callable[[str, Sequence[T]], Awaitable[list[EntryFailure]]],
        size_of: Callable[[T], int] = lambda _item: 0,
    ) -> Batcher[T]:
        if (batcher := batchers.get(queue)) is None:
            batcher = batchers[queue] = Batcher(
                partial(self._flush, call, queue),
                pacing=_PACING,
                eager=self._eager,
                name=f"headgate-settle-{call.__name__}-{queue}",
                rng=self._rng,
                size_of=size_of,
            )
        return batcher

    async def _flush(
        self,
        call: Callable[[str, Sequence[T]], Awaitable[list[EntryFailure]]],
        queue: str,
        entries: Sequence[T],
    ) -> list[EntryFailure]:
        try:
            async with asyncio.timeout_at(self._ends_at):
                failures = await call(queue, entries)
        except TimeoutError as error:
            raise TransportError("SQS did not answer while the function had time") from error
        self._events.emit(
            SettlementFlushed(
                at=self._clock.now(), queue=queue, action=call.__name__, entries=len(entries)
            )
        )
        return failures
