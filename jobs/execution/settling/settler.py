"""Carrying out verdicts: deletes, visibility changes and sends, ten to a request.

A message is deleted only after its outcome is final; for a dead letter, or a job that goes on in
another message, only after that has been sent. If SQS does not carry out a request, the message
stays and is delivered again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Generic, Literal, TypeVar, assert_never

from headgate.jobs.core.batcher import Batcher, Pacing
from headgate.jobs.core.batching import EntryRejected
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, SettlementFlushed
from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.ports.scheduler import AsyncScheduler
from headgate.jobs.core.ports.transport import (
    AsyncTransport,
    EntryFailure,
    OutgoingMessage,
    VisibilityChange,
)
from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.errors import TransportError
from headgate.jobs.execution import job_events
from headgate.jobs.execution.settling.actions import (
    Ack,
    DeadLetter,
    Quarantine,
    Release,
    RetryAfter,
    Way,
)
from headgate.jobs.execution.settling.dead_letter import bare
from headgate.jobs.execution.settling.delayed_retry import Asked, HandOver
from headgate.jobs.execution.settling.keeper import Keeper, Kept
from headgate.jobs.execution.settling.open_bundle import BundlePart
from headgate.jobs.execution.settling.verdict import Verdict, parked
from headgate.jobs.messages.keyring import Keyring

T = TypeVar("T")
K = TypeVar("K", bound=Kept)

_TOGETHER_S = 30.0
"""Seconds that a job of a bundle waits for the end of the others before it goes on in a message of
its own; after that it must not wait any longer for one that runs long."""

End = Literal["gone", "stays", "failed"]
"""The end of a message's settlement: it has left its queue, or may be deleted from it; or it stays,
and is delivered again when its verdict says; or SQS did not carry out a request, so that it is
delivered again."""


def _is_hopeless(error: TransportError) -> bool:
    return isinstance(error, EntryRejected) and error.failure.sender_fault


def _never(_error: TransportError) -> bool:
    return False


class Settler(Generic[K]):
    """Carries out verdicts.

    Args:
        keeper: keeps the messages, and says how long to insist on a request.
        transport: carries out the requests.
        topology: names the dead-letter and quarantine queues.
        clock: tells the time.
        events: receives an event for each outcome, and for each request that failed.
        linger_s: returns the seconds that a request to a queue waits for others to share it, as in
            `jobs.core.batcher.Batcher`.
        deletes_linger_s: the same for a delete from the queue; None is as for the others.
        rng: adds jitter to the pauses between tries.
        pacing: the pacing of requests.
        scheduler: takes over waits longer than SQS allows; without one the message is sent anew.
        asked: as in `HandOver`.
        store: the store of large payloads, for messages that are handed over.
        keyring: signs these messages; None leaves them unsigned.
    """

    def __init__(
        self,
        keeper: Keeper[K],
        transport: AsyncTransport,
        topology: Topology,
        *,
        clock: Clock,
        events: Events,
        linger_s: Callable[[], float],
        rng: random.Random,
        pacing: Pacing,
        deletes_linger_s: Callable[[QueueSpec], float] | None = None,
        scheduler: AsyncScheduler | None = None,
        asked: Asked | None = None,
        store: AsyncObjectStore | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self._keeper = keeper
        self._transport = transport
        self._quarantine = topology.quarantine_name
        self._clock = clock
        self._events = events
        self._linger_s = linger_s
        self._deletes_linger_s = deletes_linger_s or (lambda _queue: linger_s())
        self._rng = rng
        self._pacing = pacing
        self._hand_over = HandOver(
            scheduler,
            topology,
            clock=clock,
            events=events,
            asked=asked,
            store=store,
            keyring=keyring,
        )
        self._deletes: dict[str, Batcher[str]] = {}
        self._changes: dict[str, Batcher[VisibilityChange]] = {}
        self._sends: dict[str, Batcher[OutgoingMessage]] = {}

    async def settle(self, kept: K, verdict: Verdict) -> End:
        """Carry out a verdict, and emit its event."""
        part, waited_s = kept.delivery.part, 0.0
        if part is not None:
            waited = await self._ended_together(kept, part, verdict)
            if waited is None:
                return "failed"
            waited_s = waited
        match verdict.action:
            case Ack():
                return await self._left(kept, verdict)
            case DeadLetter() | Quarantine() as action:
                return await self._park(kept, verdict, action, waited_s)
            case RetryAfter() | Release() if part is not None:
                return await self._move(kept, verdict, waited_s)
            case RetryAfter(way=Way.HIDDEN) | Release(way=Way.HIDDEN) as action:
                if await self._refused_to_show(kept, verdict, action.delay_s):
                    return "failed"
            case RetryAfter(way=Way.LEFT) | Release(way=Way.LEFT):
                pass
            case RetryAfter() | Release():
                return await self._move(kept, verdict)
            case _:
                assert_never(verdict.action)
        self._tell(verdict)
        return "stays"

    def hurry(self) -> None:
        """Send the deletes that linger now."""
        for deletes in self._deletes.values():
            deletes.flush()

    async def drain(self) -> None:
        """Send all requests that still linger."""
        # Sends first: a dead letter's delete is only put when its send has been confirmed.
        for batchers in (self._sends, self._deletes, self._changes):
            await asyncio.gather(*(batcher.drain() for batcher in batchers.values()))

    async def _ended_together(self, kept: K, part: BundlePart, verdict: Verdict) -> float | None:
        """Wait for the other jobs of a bundle, unless this one needs no message of its own.

        Returns:
            the seconds that it has waited; None if the receipt was lost meanwhile, so that another
            worker may have the bundle, and lets its jobs go on.
        """
        part.end()
        if isinstance(verdict.action, Ack):
            return 0.0
        self._keeper.waiting(kept)
        began_at, was_lost = self._clock.monotonic(), self._keeper.lost(kept)
        await part.bundle.all_ended(_TOGETHER_S)
        if self._keeper.lost(kept) and not was_lost:
            return None
        return self._clock.monotonic() - began_at

    async def _left(self, kept: K, verdict: Verdict) -> End:
        """Delete a message whose job has ended or is elsewhere, and emit its event after that."""
        if not await self._deleted(kept, verdict):
            return "failed"
        self._tell(verdict)
        return "gone"

    async def _move(self, kept: K, verdict: Verdict, waited_s: float = 0.0) -> End:
        """Let a job go on in a schedule or in another message."""
        handed_over = await self._handed_over(kept, verdict, waited_s)
        if handed_over is None:
            return "failed"
        verdict, message = handed_over
        if message is not None and await self._unsent(
            kept, verdict, kept.delivery.queue.name, message
        ):
            return "failed"
        return await self._left(kept, verdict)

    async def _handed_over(
        self, kept: K, verdict: Verdict, waited_s: float
    ) -> tuple[Verdict, OutgoingMessage | None] | None:
        """Prepare the hand-over as `HandOver.take` does; insist on it as on a request.

        Returns:
            None if it can't be prepared, as for want of a signing key.
        """
        refusals, began_at = 0, self._clock.monotonic() - waited_s
        while True:
            waited_s = self._clock.monotonic() - began_at
            try:
                async with asyncio.timeout_at(self._keeper.ends_at):
                    return await self._hand_over.take(kept.delivery, verdict, waited_s=waited_s)
            except TimeoutError:
                self._report(kept, verdict, "hand_over", _too_late())
                return None
            except TransportError as error:
                self._report(kept, verdict, "hand_over", error)
            refusals += 1
            if self._keeper.lost(kept) or not await self._keeper.insists(kept, refusals):
                return None

    async def _park(
        self, kept: K, verdict: Verdict, action: DeadLetter | Quarantine, waited_s: float
    ) -> End:
        at = self._clock.now() - timedelta(seconds=waited_s)
        target, letter = parked(kept.delivery, verdict, action, quarantine=self._quarantine, at=at)
        error = await self._unsent(kept, verdict, target, letter)
        if error is not None and _is_hopeless(error) and not self._keeper.lost(kept):
            # Insisted on even if SQS rejects this one, too: otherwise the job would run again.
            error = await self._unsent(kept, verdict, target, bare(letter), hopeless=_never)
        if error is not None:
            return "failed"
        # Not after the delete, which may fail until the worker ends: the letter is there.
        self._tell(verdict)
        return "gone" if await self._deleted(kept, verdict) else "failed"

    async def _unsent(
        self,
        kept: K,
        verdict: Verdict,
        queue: str,
        message: OutgoingMessage,
        *,
        hopeless: Callable[[TransportError], bool] = _is_hopeless,
    ) -> TransportError | None:
        """Send a message; return the error for which it was not sent, or None."""
        sends = self._sends.get(queue) or self._batcher(
            self._sends, queue, self._transport.send, self._linger_s, attrgetter("size")
        )
        return await self._insist("send", sends, message, kept, verdict, hopeless)

    async def _deleted(self, kept: K, verdict: Verdict) -> bool:
        """Delete a message, unless its keeper says not to; return False if SQS failed.

        A bundle is deleted with the last of its jobs.
        """
        part = kept.delivery.part
        if part is not None and not part.settle():
            return True
        if not self._keeper.deletes(kept):
            return True
        self._keeper.deleting(kept)
        queue = kept.delivery.queue
        deletes = self._deletes.get(queue.name) or self._batcher(
            self._deletes,
            queue.name,
            self._transport.delete,
            partial(self._deletes_linger_s, queue),
        )
        receipt = kept.delivery.message.receipt
        return await self._insist("delete", deletes, receipt, kept, verdict) is None

    async def _refused_to_show(
        self, kept: K, verdict: Verdict, delay_s: int
    ) -> TransportError | None:
        await self._keeper.showing(kept)
        delivery = kept.delivery
        # Some time may have passed since the decision.
        delay_s = min(delay_s, delivery.hides_s(self._clock.monotonic()))
        change = VisibilityChange(receipt=delivery.message.receipt, timeout_s=delay_s)
        queue, call = delivery.queue.name, self._transport.change_visibility
        changes = self._changes.get(queue) or self._batcher(
            self._changes, queue, call, self._linger_s
        )
        try:
            await changes.put(change)
        except TransportError as error:
            self._report(kept, verdict, "change_visibility", error)
            return error
        return None

    async def _insist(
        self,
        action: str,
        requests: Batcher[T],
        request: T,
        kept: K,
        verdict: Verdict,
        hopeless: Callable[[TransportError], bool] = _is_hopeless,
    ) -> TransportError | None:
        """Try until a request is carried out: the job has ended, and would otherwise run again.

        Gives up only on hopeless refusals, a lost receipt, or when the keeper does.
        """
        refusals = 0
        while True:
            try:
                await requests.put(request)
            except TransportError as error:
                self._report(kept, verdict, action, error)
                refused = error
            else:
                return None
            refusals += 1
            if self._keeper.lost(kept) or hopeless(refused):
                return refused
            if not await self._keeper.insists(kept, refusals):
                return refused

    def _batcher(
        self,
        batchers: dict[str, Batcher[T]],
        queue: str,
        call: Callable[[str, Sequence[T]], Awaitable[list[EntryFailure]]],
        linger_s: Callable[[], float],
        size_of: Callable[[T], int] | None = None,
    ) -> Batcher[T]:
        """Make the batcher of a queue, the first time that one is needed."""
        batcher = batchers[queue] = Batcher(
            partial(self._flush, call, queue),
            pacing=self._pacing,
            linger_s=linger_s,
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
            async with asyncio.timeout_at(self._keeper.ends_at):
                failures = await call(queue, entries)
        except TimeoutError as error:
            raise _too_late() from error
        self._events.emit(
            SettlementFlushed(
                at=self._clock.now(), queue=queue, action=call.__name__, entries=len(entries)
            )
        )
        return failures

    def _tell(self, verdict: Verdict) -> None:
        if verdict.tell is None:
            return
        for event in verdict.aftermath(self._clock.now()):
            self._events.emit(event)

    def _report(self, kept: K, verdict: Verdict, action: str, error: TransportError) -> None:
        at, job_id = self._clock.now(), verdict.attempt.job_id
        self._events.emit(job_events.settlement_failed(kept.delivery, job_id, action, error, at))


def _too_late() -> TransportError:
    return TransportError("SQS did not answer while the function had time")
