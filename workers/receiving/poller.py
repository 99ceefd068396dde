"""Receiving: from every queue at once, and only messages that can start soon.

While idle each queue has one long poll outstanding, so that any priority is picked up immediately.
When batches are full and slots are free, a queue gets more receivers; they end again when batches
are not full, hold only messages that can't start, or fail twice in a row. All of this follows from
one number, `Demand.room`. Where messages come one by one, pauses let some gather
(`workers.receiving.gathering`).
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, PollFailed, PollReceived
from headgate.jobs.core.ports.transport import AsyncTransport, ReceivedMessage
from headgate.jobs.core.topology import MAX_BATCH, QueueSpec
from headgate.jobs.errors import (
    CredentialsNotConfigured,
    QueueMissing,
    RegionMissing,
    TransportError,
)
from headgate.jobs.execution.delivery import Delivery, deliveries_of_jobs
from headgate.jobs.messages.bundles import is_bundle
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.texts import type_of
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.receiving.demand import Demand
from headgate.workers.receiving.expectation import Expectation
from headgate.workers.receiving.gathering import Gathering
from headgate.workers.receiving.lineup import Lineup

MAX_RECEIVERS = 16
"""Maximum number of concurrent receives for one queue."""

_DOUBLINGS = 4
"""Number of full batches in a row after which there are as many; before, a queue may turn out to be
short, and room is better used for others."""

_FIRST_WAIT_S = 0
"""Wait of the first receive: whatever is in the queue, its answer tells soon that the worker is
ready, and whether others may take the room that it has been given."""

_EXTRA_WAIT_S = 1
"""Longest wait of extra receivers; above 0, since a short poll may miss messages."""

_OVERDUE_S = 1.0
"""Time beyond its wait that a receive may take before its answer counts as late."""

_FADING = 0.8
"""Factor of the number of jobs expected in a message, after a receive that brought fewer."""

_PAUSES = Backoff.exponential(base=0.05, factor=3, cap=30, jitter="equal")
"""Pauses after failed receives: tiny after a single failure, and soon at their longest in an
outage."""

_LONGEST_AFTER = 10
"""Number of consecutive failures after which the pauses grow no further."""


@light_dataclass(frozen=True, slots=True)
class _Claim:
    """Room that a poller has taken for one receive."""

    limit: int
    expectation: Expectation
    is_first: bool = False
    """True if none from this queue has succeeded yet."""
    from_backlog: bool = False
    """True if the last one returned as many messages as it asked for."""


class Poller:
    """Receives from one queue until it is stopped."""

    def __init__(
        self,
        queue: QueueSpec,
        transport: AsyncTransport,
        demand: Demand,
        waiting: Waiting,
        deliver: Callable[[Sequence[Delivery]], None],
        lineup: Lineup,
        *,
        wait_s: float,
        has_bundles: bool,
        clock: Clock,
        events: Events,
        rng: random.Random,
    ) -> None:
        self.queue = queue
        self._transport = transport
        self._demand = demand
        self._waiting = waiting
        self._deliver = deliver
        self._lineup = lineup
        self._wait_s = wait_s
        # A queue that something else created may hide messages for another time than the lane's.
        self._visibility_s = None if queue.existing is None else queue.visibility_s
        self._clock = clock
        self._events = events
        self._rng = rng
        self._extras: set[asyncio.Task[None]] = set()
        self._bell: asyncio.Future[_Claim | None] | None = None
        self._stopping = asyncio.Event()
        self._failures = 0
        """Number of consecutive rounds of receives that failed; see `_count`."""
        self._failed_at = -math.inf
        self._has_received = False
        self._gathering = Gathering(queue.gather_s)
        self._last = 0
        """Number of messages of the last receive."""
        self._jobs_per_message: float = MAX_BATCH if has_bundles else 1
        """Number of jobs to expect in a message; more than one where bundles come."""
        self._full = False
        """True if the last receive returned as many as it asked for, so there are probably more."""
        self._fulls = 0
        """Number of consecutive receives that did. With each, twice as many may be concurrent."""
        self._fault: BaseException | None = None
        """The exception that ended an extra receiver."""

    @property
    def has_no_room(self) -> bool:
        """True while it receives nothing because no message could start soon."""
        return self._bell is not None and not self._bell.done()

    async def run(self) -> None:
        """Poll until `stop` is called and every receive under way has returned.

        Raises:
            CredentialsNotConfigured, RegionMissing: nothing was ever received, and nothing will be.
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

    def take_room(self) -> bool:
        """Start to receive if there is room; return True if so."""
        if not self.has_no_room or (claim := self._claim()) is None:
            return False
        self._ring(claim)
        return True

    def grow(self) -> bool:
        """Start one more receive concurrently if there is room; return True if so."""
        if not self._may_grow or (claim := self._claim()) is None:
            return False
        extra = asyncio.create_task(self._extra(claim), name=f"headgate-extra-{self.queue.name}")
        self._extras.add(extra)
        extra.add_done_callback(self._extra_ended)
        return True

    async def _poll(self) -> None:
        while not self._stopping.is_set():
            if self._fault is not None:
                raise self._fault
            claim = self._claim_in_turn() or await self._rung()
            if claim is None:
                continue
            if self._stopping.is_set():  # since the bell was rung
                claim.expectation.end()
                return
            await self._try_receive(self._wait_of_receive_s(), claim)
            if pause_s := self._gathering.pause_s():
                await self._pause(pause_s)
            elif self._last and not self._full:
                await asyncio.sleep(0)  # what came alone starts before the next request is made

    def _wait_of_receive_s(self) -> float:
        """Return the wait of a receive; short until one has succeeded, so readiness shows soon."""
        return self._wait_s if self._has_received else min(self._wait_s, _FIRST_WAIT_S)

    def _claim_in_turn(self) -> _Claim | None:
        """Take room for another receive, unless peers have waited for it longer."""
        if not self._lineup.has_others(self):
            return self._claim()
        self._demand.changed()
        return None

    def _claim(self) -> _Claim | None:
        """Take room for one receive immediately, so that no other poller counts on it as well."""
        queue = self.queue
        if self._waiting.startable(queue.name) >= MAX_BATCH or self._demand.room(queue) < 1:
            return None
        first = not self._has_received
        limit = self._demand.limit(
            queue, has_more=self._full, first=first, jobs=self._jobs_per_message
        )
        if first:
            expected = min(limit, self._demand.guess(queue))
            return _Claim(limit, self._demand.expect(expected, queue, first=True), is_first=True)
        if self._demand.is_in_vain(queue):
            return _Claim(limit, self._demand.expect(0, queue))
        expected = 2 * self._last if self._full else self._last
        expected = min(expected, limit, self._demand.guess(queue))
        surely, jobs = self._last >= MAX_BATCH, round(expected * self._jobs_per_message)
        expectation = self._demand.expect(jobs, queue, surely=surely)
        return _Claim(limit, expectation, from_backlog=self._full)

    async def _rung(self) -> _Claim | None:
        self._bell = asyncio.get_running_loop().create_future()
        self._lineup.wait(self)
        try:
            return await self._bell
        finally:
            self._bell = None

    def _ring(self, claim: _Claim | None) -> None:
        self._lineup.leave(self)
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(claim)

    async def _try_receive(self, wait_s: float, claim: _Claim) -> None:
        started = self._clock.monotonic()
        try:
            await self._receive(wait_s, claim, started)
        except Exception as error:  # noqa: BLE001 - no answer may end a worker that can continue
            self._count(started)
            await self._back_off(error)

    async def _receive(self, wait_s: float, claim: _Claim, started: float) -> None:
        if self._may_grow:
            self._demand.changed()
        try:
            messages = await self._transport.receive(
                self.queue.name,
                limit=claim.limit,
                wait_s=wait_s,
                visibility_s=self._visibility_s,
            )
        finally:
            claim.expectation.end()
            self._demand.may_have_work(self.queue)
        self._failures, self._failed_at = 0, -math.inf
        self._demand.answered = True
        self._has_received = True
        took_s, full = self._clock.monotonic() - started, len(messages) >= claim.limit
        self._report(len(messages), took_s)
        self._learn(len(messages), full)
        self._gathering.brought(len(messages), took_s=took_s, full=full)
        jobs = self._jobs_of(messages, started, wait_s)
        self._demand.brought(len(jobs), self.queue, first=claim.is_first)
        if self._full and claim.from_backlog:
            self._demand.took(started, self._clock.monotonic())
        self._deliver(jobs)
        if not self._full:
            self._demand.changed()

    def _learn(self, messages: int, full: bool) -> None:
        self._last, self._full = messages, full
        self._fulls = min(self._fulls + 1, _DOUBLINGS) if full else 0
        self._lineup.may_grow(self, may_grow=full)

    def _report(self, messages: int, took_s: float) -> None:
        self._events.emit(
            PollReceived(
                at=self._clock.now(), queue=self.queue.name, messages=messages, took_s=took_s
            )
        )

    def _jobs_of(
        self, messages: Sequence[ReceivedMessage], started: float, wait_s: float
    ) -> list[Delivery]:
        """Return the deliveries of all jobs that a receive has brought."""
        now = self._clock.monotonic()
        # An answer that stayed unread while this process was suspended counts from when it was due.
        received_at = min(now, started + wait_s + _OVERDUE_S)
        jobs: list[Delivery] = []
        for message in messages:
            delivery = Delivery(message=message, queue=self.queue, received_at=received_at)
            if is_bundle(message.body):
                jobs += deliveries_of_jobs(delivery)
            else:
                jobs.append(delivery)
        if messages:
            before = self._jobs_per_message * _FADING
            self._jobs_per_message = max(1.0, len(jobs) / len(messages), before)
        return jobs

    @property
    def _may_grow(self) -> bool:
        """True while batches are full, and no more receives run than that allows."""
        return (
            self._full
            and not self._stopping.is_set()
            and not self._gathering.is_usual
            and not self._demand.is_in_vain(self.queue)
            and self._demand.is_plentiful(self.queue)
            and len(self._extras) < min(MAX_RECEIVERS, 2**self._fulls) - 1
        )

    def _extra_ended(self, extra: asyncio.Task[None]) -> None:
        self._extras.discard(extra)
        if not extra.cancelled() and (fault := extra.exception()) is not None:
            self._fault = fault
            self._ring(None)

    async def _extra(self, claim: _Claim | None) -> None:
        while claim is not None:
            await self._try_receive(_EXTRA_WAIT_S, claim)
            more = self._full and not self._demand.is_in_vain(self.queue)
            more = more and not self._stopping.is_set()
            claim = self._claim_in_turn() if more else None

    def _count(self, started: float) -> None:
        """Count a failed receive; those that were under way together count as one failure.

        The first failure says little about the queue, so its receivers stay. After the second in a
        row one is left, until it returns full batches again.
        """
        if started >= self._failed_at:
            self._failures, self._failed_at = self._failures + 1, self._clock.monotonic()
        if self._failures > 1:
            self._learn(0, full=False)

    async def _back_off(self, error: Exception) -> None:
        hopeless = isinstance(error, CredentialsNotConfigured | RegionMissing)
        if hopeless and not self._demand.answered:
            raise error
        # The text of an error from outside the transport may quote a message.
        told = str(error) if isinstance(error, TransportError) else type_of(error)
        pause_s = _PAUSES.delay_s(min(self._failures, _LONGEST_AFTER), self._rng)
        self._events.emit(
            PollFailed(
                at=self._clock.now(),
                queue=self.queue.name,
                error=told,
                retry_in_s=pause_s,
                missing=isinstance(error, QueueMissing),
            )
        )
        await self._pause(pause_s)

    async def _pause(self, seconds: float) -> None:
        """Let time pass; only a stop cuts it short."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
