"""Settlement of verdicts: deletes, visibility changes and dead letters, ten to a request.

A message is deleted only after its outcome is final; for a dead letter, only after the letter has
been sent. If SQS does not carry out a request, the message stays and is delivered again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, assert_never

from headgate.jobs.core.batcher import Batcher, Pacing
from headgate.jobs.core.batching import EntryRejected
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
from headgate.jobs.core.topology import Topology
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.dead_letter import bare
from headgate.jobs.execution.delayed_retry import Course, HandOver, Held, Renewed, Stays
from headgate.jobs.execution.settlement import Ack, DeadLetter, Quarantine, Release, RetryAfter
from headgate.jobs.execution.verdict import Verdict, parked
from headgate.jobs.messages.outgoing import size_of
from headgate.jobs.retry.backoff import Backoff
from headgate.workers.held import Hold, Holdings

T = TypeVar("T")

SETTLEMENT_PACING = Pacing(linger_s=0.01, patient=False)
"""No caller waits for a settlement, so it may linger to share a request. The settler itself
repeats rounds of tries, and at the worker's end two rounds have to fit into the flush's bound."""

_ROUNDS = Backoff.exponential(base=1, factor=2, cap=30, jitter="equal")
"""Pauses between rounds of tries that all failed."""


@dataclass(frozen=True, slots=True)
class _Refused:
    action: str
    error: TransportError


def _is_hopeless(error: TransportError) -> bool:
    return isinstance(error, EntryRejected) and error.failure.sender_fault


def _never(_error: TransportError) -> bool:
    return False


class Settler:
    """Carries out verdicts for all messages that this worker holds.

    Args:
        transport: carries out the requests.
        topology: names the dead-letter and quarantine queues.
        holdings: all holds; settled ones are dropped from it.
        clock: tells the time.
        events: receives an event for each outcome.
        eager: returns True when nothing else runs, so that lingering would be in vain.
        rng: adds jitter to the pauses between tries.
        scheduler: takes over waits longer than SQS allows; without one the message is sent anew.
        store: the store of large payloads, for messages that are handed over.
        pacing: the pacing of requests.
    """

    def __init__(
        self,
        transport: Transport,
        topology: Topology,
        holdings: Holdings,
        *,
        clock: Clock,
        events: Events,
        eager: Callable[[], bool],
        rng: random.Random,
        scheduler: Scheduler | None = None,
        store: ObjectStore | None = None,
        pacing: Pacing = SETTLEMENT_PACING,
    ) -> None:
        self._transport = transport
        self._quarantine = topology.quarantine_name
        self._holdings = holdings
        self._clock = clock
        self._events = events
        self._eager = eager
        self._rng = rng
        self._pacing = pacing
        self._hand_over = HandOver(scheduler, topology, clock=clock, events=events, store=store)
        self._closing = asyncio.Event()
        self.given_up = 0
        """Number of verdicts that were not carried out because the worker had to end."""
        self._deletes: dict[str, Batcher[str]] = {}
        self._changes: dict[str, Batcher[VisibilityChange]] = {}
        self._sends: dict[str, Batcher[OutgoingMessage]] = {}

    async def settle(self, hold: Hold, verdict: Verdict) -> bool:
        """Carry out a verdict and emit its event; on failure the message is delivered again.

        Returns:
            True if it was carried out.
        """
        if (hold.lost or hold.shared) and not isinstance(verdict.action, Ack):
            self._holdings.drop(hold)
            return False  # it is visible, or held by another worker, whose verdict counts
        return await self.give_back(hold, verdict)

    async def give_back(self, hold: Hold, verdict: Verdict) -> bool:
        """Carry out a verdict like `settle`, but even if another worker may have the message."""
        try:
            course = await self._course(hold, verdict)
            verdict = course.verdict
            refused = await self._follow(hold, course)
        finally:
            self._holdings.drop(hold)
        if refused is not None:
            self._report(hold, verdict.attempt.job_id, refused)
            return False
        if not isinstance(verdict.action, DeadLetter | Quarantine):  # `_park` has told of those
            self._tell(verdict)
        return True

    def close(self) -> None:
        """Stop insisting: requests that fail from now on are given up after one more round."""
        self._closing.set()

    async def drain(self) -> None:
        """Send all requests that still linger."""
        # Sends first: a dead letter's delete is only put when its send has been confirmed.
        for batchers in (self._sends, self._deletes, self._changes):
            await asyncio.gather(*(batcher.drain() for batcher in batchers.values()))

    async def _course(self, hold: Hold, verdict: Verdict) -> Course:
        if not isinstance(verdict.action, RetryAfter | Release):
            return Stays(verdict=verdict)
        possible_s = hold.possible_s(verdict.action.delay_s, self._clock.monotonic())
        return await self._hand_over.take(hold.delivery, verdict, possible_s)

    async def _follow(self, hold: Hold, course: Course) -> _Refused | None:
        match course:
            case Stays(verdict=verdict):
                return await self._carry_out(hold, verdict)
            case Held(verdict=verdict):
                return await self._delete(hold, verdict)
            case Renewed(verdict=verdict, message=message):
                queue = hold.delivery.queue.name
                sends = self._batcher(self._sends, queue, self._transport.send, size_of)
                return await self._insist(
                    "send", partial(sends.put, message), hold, verdict
                ) or await self._delete(hold, verdict)
            case _:
                assert_never(course)

    async def _carry_out(self, hold: Hold, verdict: Verdict) -> _Refused | None:
        match verdict.action:
            case Ack():
                return await self._delete(hold, verdict)
            case RetryAfter(delay_s=delay_s) | Release(delay_s=delay_s):
                return await self._show_in(hold, delay_s)
            case DeadLetter() | Quarantine() as action:
                return await self._park(hold, verdict, action)
            case _:
                assert_never(verdict.action)

    async def _park(
        self, hold: Hold, verdict: Verdict, action: DeadLetter | Quarantine
    ) -> _Refused | None:
        target, letter = parked(
            hold.delivery, verdict, action, quarantine=self._quarantine, at=self._clock.now()
        )
        sends = self._batcher(self._sends, target, self._transport.send, size_of)
        refused = await self._insist("send", partial(sends.put, letter), hold, verdict)
        if refused is not None and _is_hopeless(refused.error) and not hold.lost:
            self._report(hold, verdict.attempt.job_id, refused)
            # Insisted on even if SQS rejects this one, too: otherwise the job would run again.
            put = partial(sends.put, bare(letter))
            refused = await self._insist("send", put, hold, verdict, hopeless=_never)
        if refused is not None:
            return refused
        # Not after the delete, which may fail until the worker ends: the letter is there.
        self._tell(verdict)
        return await self._delete(hold, verdict)

    async def _delete(self, hold: Hold, verdict: Verdict) -> _Refused | None:
        hold.deleting = True
        deletes = self._batcher(self._deletes, hold.delivery.queue.name, self._transport.delete)
        return await self._insist("delete", partial(deletes.put, hold.receipt), hold, verdict)

    async def _insist(
        self,
        action: str,
        put: Callable[[], asyncio.Future[None]],
        hold: Hold,
        verdict: Verdict,
        *,
        hopeless: Callable[[TransportError], bool] = _is_hopeless,
    ) -> _Refused | None:
        """Try until a request is carried out: the job has ended, and would otherwise run again.

        The heartbeat keeps the message hidden meanwhile. Gives up only on hopeless refusals, a lost
        receipt, or shutdown.
        """
        rounds = 0
        while (refused := await _refusal(action, put())) is not None:
            if hold.lost or hopeless(refused.error):
                return refused
            if self._closing.is_set():
                self.given_up += 1
                return refused
            self._report(hold, verdict.attempt.job_id, refused)
            self._holdings.set_aside(hold)
            rounds += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(_ROUNDS.delay_s(min(rounds, 10), self._rng)):
                    await self._closing.wait()
        return None

    async def _show_in(self, hold: Hold, delay_s: int) -> _Refused | None:
        hold.closing = True
        if hold.beat is not None:
            # An extension that overtook this change would undo it.
            await asyncio.wait([hold.beat])
        queue = hold.delivery.queue.name
        possible_s = hold.possible_s(delay_s, self._clock.monotonic())
        change = VisibilityChange(receipt=hold.receipt, timeout_s=possible_s)
        changed = self._batcher(self._changes, queue, self._transport.change_visibility).put(change)
        return await _refusal("change_visibility", changed)

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
                pacing=self._pacing,
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
        failures = await call(queue, entries)
        self._events.emit(
            SettlementFlushed(
                at=self._clock.now(), queue=queue, action=call.__name__, entries=len(entries)
            )
        )
        return failures

    def _tell(self, verdict: Verdict) -> None:
        if (event := verdict.aftermath(self._clock.now())) is not None:
            self._events.emit(event)

    def _report(self, hold: Hold, job_id: str, refused: _Refused) -> None:
        self._events.emit(
            SettlementFailed(
                at=self._clock.now(),
                queue=hold.delivery.queue.name,
                message_id=hold.delivery.message.message_id,
                job_id=job_id,
                action=refused.action,
                error=str(refused.error),
            )
        )


async def _refusal(action: str, done: asyncio.Future[None]) -> _Refused | None:
    try:
        await done
    except TransportError as error:
        return _Refused(action, error)
    return None
