"""Receiving: every queue at once, and nothing that can't start soon.

While idle each queue has one long poll outstanding, so that any priority is picked up at once.
When batches come back full and slots are free, a queue gets more receivers; they leave again when
batches don't fill. All of it follows from one number, `Demand.room`.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from jobs.backoff import Backoff
from jobs.clock import Clock
from jobs.delivery import Delivery
from jobs.errors import CredentialsMissing, RegionMissing, TransportError
from jobs.events import Events, PollFailed, PollReceived
from jobs.ports import ReceivedMessage, Transport
from jobs.topology import MAX_BATCH, Priority, QueueSpec
from workers.choosing import Waiting
from workers.holding import Holdings
from workers.shares import Shares

MAX_RECEIVERS = 16
"""Receives under way at once for one queue."""

_EXTRA_WAIT_S = 1
"""Extra receivers wait this long at most; above 0, since a short poll may miss messages."""

_TURNOVER_S = 1.0
"""The window over which the rate of finished jobs is averaged."""

_LATENCIES = 5
_LEAST_ON_ITS_WAY_S = 0.1
"""A receive that takes longer than so many usual ones, and than this, waits at an empty queue."""

_OVERDUE_S = 1.0
"""How much longer than its wait a receive may take before its answer counts as late."""

_PAUSES = Backoff.exponential(base=1, factor=2, cap=30, jitter="equal")


class Demand:
    """How many messages could start soon.

    Free slots, plus those that will come free while a receive is under way, minus what waits
    already and what other receives are about to bring; or what the queue is owed of them by its
    guaranteed share, whatever waits elsewhere. Never more than its limits let start.

    Args:
        concurrency: slots in all.
        reserved: of them, those that only critical jobs may take.
        waiting: what has been received and not started.
        holdings: all that this worker is answerable for.
        shares: which queues are owed a start.
        acceptable: how many messages of a queue could start if there were slots enough.
        clock: tells the time.
        on_change: called when there may be room that there was not before.
    """

    def __init__(
        self,
        concurrency: int,
        reserved: int,
        waiting: Waiting,
        holdings: Holdings,
        shares: Shares,
        clock: Clock,
        *,
        acceptable: Callable[[QueueSpec], float],
        on_change: Callable[[], None],
    ) -> None:
        self._shares = shares
        self._acceptable = acceptable
        self._waiting = waiting
        self._holdings = holdings
        self._clock = clock
        self._on_change = on_change
        self._concurrency = concurrency
        self._reserved = reserved
        self._rate = 0.0
        self._rate_at = clock.monotonic()
        self._busy = [0 for _ in Priority]
        """By rank, the slots in use."""
        self._coming = [0 for _ in Priority]
        """By rank, the messages that receives under way will probably bring."""
        self._coming_of: Counter[str] = Counter()
        """The same by queue."""
        self.latency_s = 0.01
        """How long a receive takes that need not wait, smoothed."""
        self.answered = False
        """SQS has answered a receive, so there are credentials and a region."""

    def started(self, queue: QueueSpec) -> None:
        """A job of that queue has taken a slot."""
        self._busy[queue.priority.rank] += 1
        self._shares.started(queue.name)

    def finished(self, queue: QueueSpec) -> None:
        """Its slot has come free."""
        self._busy[queue.priority.rank] -= 1
        self._shares.finished(queue.name)
        self._rate = self._rate_now() + 1 / _TURNOVER_S

    def changed(self) -> None:
        """There may be room that there was not before."""
        self._on_change()

    def took(self, seconds: float) -> None:
        """A receive brought a full batch in that time."""
        self.latency_s += 0.1 * (seconds - self.latency_s)

    def expect(self, count: int, queue: QueueSpec) -> Expectation:
        """Reckon with what a receive will probably bring.

        One that takes much longer than usual waits at an empty queue, and must not keep others
        from receiving: then no more is expected of it, and its queue's share goes to others.
        """
        patience_s = max(_LEAST_ON_ITS_WAY_S, _LATENCIES * self.latency_s)
        return Expectation(
            partial(self._expect, queue),
            count,
            patience_s,
            on_late=partial(self._late, queue),
        )

    @property
    def busy(self) -> int:
        """Slots in use."""
        return sum(self._busy)

    def free(self, priority: Priority) -> int:
        """Slots that a job of it could take now; some are for critical jobs alone."""
        free = self._concurrency - self.busy
        if priority is Priority.CRITICAL:
            return free
        others = self.busy - self._busy[Priority.CRITICAL.rank]
        return min(free, self._concurrency - self._reserved - others)

    def has_slot(self, queue: QueueSpec) -> bool:
        """Whether a job of that queue would find a free slot."""
        return self.free(queue.priority) > 0

    def has_turn(self, queue: QueueSpec) -> bool:
        """Whether it would even if what higher priorities are about to bring came first.

        Else what happens to be buffered of lower priorities would take each slot that comes free
        before a receive can return.
        """
        return self.free(queue.priority) > sum(self._coming[: queue.priority.rank])

    def room(self, queue: QueueSpec) -> float:
        """How many messages of that queue could start soon."""
        return self._startable(queue, within_s=2 * self.latency_s)

    def limit(self, queue: QueueSpec) -> int:
        """How many to ask SQS for: what could start within about a second, 1 to 10.

        With few free slots and long jobs a full batch would only be hidden here, and given back.
        """
        startable = math.ceil(self._startable(queue, within_s=_TURNOVER_S))
        return max(1, min(MAX_BATCH, startable))

    def _startable(self, queue: QueueSpec, *, within_s: float) -> float:
        # What is settling counts as well: if SQS takes no deletes we must not receive for ever.
        bound = 2 * self._concurrency + MAX_BATCH - len(self._holdings)
        name, rank, coming = queue.name, queue.priority.rank, self._coming_of[queue.name]
        acceptable = self._acceptable(queue) - self._waiting.buffered(name) - coming
        soon = self.free(queue.priority) + self._rate_now() * within_s
        # What a lower priority is about to bring would start later, so it takes no room here.
        by_priority = soon - self._waiting.up_to(rank) - sum(self._coming[: rank + 1])
        by_share = self._shares.turns(name, soon) - self._waiting.startable(name) - coming
        return min(bound, acceptable, max(by_priority, by_share))

    def may_have_work(self, queue: QueueSpec) -> None:
        """A receive has returned: that the queue is empty is no longer known."""
        self._shares.may_have_work(queue.name)

    def _expect(self, queue: QueueSpec, change: int) -> None:
        self._coming[queue.priority.rank] += change
        self._coming_of[queue.name] += change

    def _late(self, queue: QueueSpec) -> None:
        self._shares.is_dry(queue.name)
        self._on_change()

    def _rate_now(self) -> float:
        """Finished jobs a second, decayed to now."""
        now = self._clock.monotonic()
        self._rate *= math.exp((self._rate_at - now) / _TURNOVER_S)
        self._rate_at = now
        return self._rate


class Expectation:
    """What one receive will probably bring, for as long as it can still be on its way."""

    def __init__(
        self,
        expect: Callable[[int], None],
        count: int,
        patience_s: float,
        *,
        on_late: Callable[[], None],
    ) -> None:
        self._expect = expect
        self._count = count
        self._on_late = on_late
        expect(count)
        self._timer = asyncio.get_running_loop().call_later(patience_s, self._give_up)

    def end(self) -> None:
        """The receive has returned, or never began."""
        self._timer.cancel()
        self._expect(-self._count)
        self._count = 0

    def _give_up(self) -> None:
        self.end()
        self._on_late()


@dataclass(frozen=True, slots=True)
class _Claim:
    """Room that a poller has taken for one receive."""

    limit: int
    expectation: Expectation


class Poller:
    """Receives from one queue until it is stopped."""

    def __init__(
        self,
        queue: QueueSpec,
        transport: Transport,
        demand: Demand,
        waiting: Waiting,
        deliver: Callable[[Sequence[Delivery]], None],
        *,
        wait_s: float,
        clock: Clock,
        events: Events,
        rng: random.Random,
    ) -> None:
        self.queue = queue
        self._transport = transport
        self._demand = demand
        self._waiting = waiting
        self._deliver = deliver
        self._wait_s = wait_s
        self._clock = clock
        self._events = events
        self._rng = rng
        self._extras: set[asyncio.Task[None]] = set()
        self._bell: asyncio.Future[_Claim | None] | None = None
        self._stopping = asyncio.Event()
        self._failures = 0
        self._last = 0
        """What the last receive brought."""
        self._full = False
        """It brought all that it asked for, so there is probably more."""
        self._fault: BaseException | None = None
        """What ended an extra receiver."""

    async def run(self) -> None:
        """Poll until `stop`; returns when every receive under way has returned.

        Raises:
            CredentialsMissing, RegionMissing: nothing was ever received, and nothing will be.
        """
        try:
            await self._poll()
            if self._extras:
                await asyncio.wait(self._extras)
        finally:
            for extra in self._extras:
                extra.cancel()

    def stop(self) -> None:
        """Start no more receives."""
        self._stopping.set()
        self._ring(None)

    def notice(self) -> None:
        """The demand may have changed. Pollers are to be told in the order of their priority."""
        if self._bell is None or self._bell.done():
            self._grow()
        elif claim := self._claim():
            self._ring(claim)

    async def _poll(self) -> None:
        while not self._stopping.is_set():
            if self._fault is not None:
                raise self._fault
            claim = self._claim() or await self._rung()
            if claim is None:
                continue
            if self._stopping.is_set():  # since the bell was rung
                claim.expectation.end()
                return
            try:
                await self._receive(self._wait_s, claim)
            except TransportError as error:
                await self._back_off(error)

    def _claim(self) -> _Claim | None:
        """Take room for one receive, at once, so that no other poller counts on it as well."""
        queue = self.queue
        if self._waiting.buffered(queue.name) >= MAX_BATCH or self._demand.room(queue) < 1:
            return None
        limit = self._demand.limit(queue)
        expected = limit if self._full else min(self._last, limit)
        return _Claim(limit, self._demand.expect(expected, queue))

    async def _rung(self) -> _Claim | None:
        self._bell = asyncio.get_running_loop().create_future()
        try:
            return await self._bell
        finally:
            self._bell = None

    def _ring(self, claim: _Claim | None) -> None:
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(claim)

    async def _receive(self, wait_s: float, claim: _Claim) -> None:
        self._grow()
        started = self._clock.monotonic()
        try:
            messages = await self._transport.receive(
                self.queue.name, limit=claim.limit, wait_s=wait_s
            )
        except TransportError:
            self._last, self._full = 0, False
            raise
        finally:
            claim.expectation.end()
            self._demand.may_have_work(self.queue)
        self._failures, self._demand.answered = 0, True
        self._report(len(messages), started)
        self._last, self._full = len(messages), len(messages) >= claim.limit
        self._accept(messages, started, wait_s)
        if not self._full:
            self._demand.changed()

    def _report(self, messages: int, started: float) -> None:
        took_s = self._clock.monotonic() - started
        self._events.emit(
            PollReceived(
                at=self._clock.now(), queue=self.queue.name, messages=messages, took_s=took_s
            )
        )

    def _accept(self, messages: Sequence[ReceivedMessage], started: float, wait_s: float) -> None:
        now = self._clock.monotonic()
        if self._full:
            self._demand.took(now - started)
        # An answer that lay unread while this process was suspended was given when it was due.
        received_at = min(now, started + wait_s + _OVERDUE_S)
        self._deliver(
            [
                Delivery(message=message, queue=self.queue, received_at=received_at)
                for message in messages
            ]
        )

    def _grow(self) -> None:
        """While batches come back full, receive as much at once as there is room for."""
        while (
            self._full
            and not self._stopping.is_set()
            and len(self._extras) < MAX_RECEIVERS - 1
            and (claim := self._claim())
        ):
            extra = asyncio.create_task(
                self._extra(claim), name=f"headgate-extra-{self.queue.name}"
            )
            self._extras.add(extra)
            extra.add_done_callback(self._extra_ended)

    def _extra_ended(self, extra: asyncio.Task[None]) -> None:
        self._extras.discard(extra)
        if not extra.cancelled() and (fault := extra.exception()) is not None:
            self._fault = fault
            self._ring(None)

    async def _extra(self, claim: _Claim | None) -> None:
        while claim is not None:
            try:
                await self._receive(_EXTRA_WAIT_S, claim)
            except TransportError:
                return  # the queue's first receiver meets the same fault, and reports it
            more = self._full and not self._stopping.is_set()
            claim = self._claim() if more else None

    async def _back_off(self, error: TransportError) -> None:
        hopeless = isinstance(error, CredentialsMissing | RegionMissing)
        if hopeless and not self._demand.answered:
            raise error
        self._failures += 1
        pause_s = _PAUSES.delay_s(min(self._failures, 10), self._rng)
        self._events.emit(
            PollFailed(
                at=self._clock.now(), queue=self.queue.name, error=str(error), retry_in_s=pause_s
            )
        )
        with suppress(TimeoutError):  # nothing but a stop may cut the pause short
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()
