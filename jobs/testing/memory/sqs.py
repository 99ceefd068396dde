"""SQS in memory: its semantics as documented, on a clock under the test's control."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports.transport import (
    EntryFailure,
    OutgoingMessage,
    QueueDepth,
    ReceivedMessage,
    Transport,
    VisibilityChange,
)
from headgate.jobs.core.topology import QUARANTINE_RETENTION, Topology
from headgate.jobs.errors import QueueMissing, Throttled
from headgate.jobs.testing.clock import VirtualClock
from headgate.jobs.testing.inspection import Call, StoredMessage, stored
from headgate.jobs.testing.memory import sqs_limits
from headgate.jobs.testing.memory.faults import Action, FailedEntries, Faults
from headgate.jobs.testing.memory.ordering import Message, MessageState
from headgate.jobs.testing.memory.queue import MemoryQueue, QueueSettings
from headgate.jobs.values.durations import Duration, duration

_Entry = TypeVar("_Entry")

_MOMENT_S = 0.001


class MemorySqs:
    """A queue service in memory: an `AsyncTransport` for any number of loops, and by ``sync`` a
    synchronous one.

    On `SystemClock` and `LoopClock` long polls wait in the loop's time. On a `VirtualClock` only
    `advance`, or an arriving message, ends a long poll: nothing happens by itself there.

    ``old_receipts_work`` chooses between the two ways in which SQS may treat the receipt of a past
    delivery on a standard queue. False (AWS's reference): a delete reports success and deletes
    nothing, a change of visibility fails. True (SQS's behaviour in LocalStack's recordings): both
    act on the message, even if it is in flight elsewhere by now. Leases have to survive either.

    ``declared`` returns the topology of an app whose queues are created as they are first used: one
    may declare its job types later than this service is made. None leaves all to `create_queue`.

    Not simulated: short polls that miss messages, duplicates, the reordering of fair queues (a
    group on a standard queue is stored and returned), throughput limits.

    >>> sqs = MemorySqs(SystemClock())
    >>> sqs.create_queue("orders", visibility=5)
    >>> await sqs.send("orders", [OutgoingMessage(body="{}")])
    []
    """

    def __init__(
        self,
        clock: Clock,
        *,
        in_flight_limit: int = 120_000,
        old_receipts_work: bool = False,
        declared: Callable[[], Topology] | None = None,
    ) -> None:
        self.faults = Faults()
        self.calls: list[Call] = []
        self._clock = clock
        self._in_flight_limit = in_flight_limit
        self._old_receipts_work = old_receipts_work
        self._declared = declared
        self._queues: dict[str, MemoryQueue] = {}
        self._made: set[str] = set()
        """The names of all queues that were created: one that was deleted since stays missing."""
        self._lock = threading.Lock()
        if isinstance(clock, VirtualClock):
            clock.subscribe(self._ring_all)

    # --- provisioning ---------------------------------------------------------------------------

    def create_queue(
        self,
        name: str,
        *,
        visibility: Duration = 30,
        delay: Duration = 0,
        retention: Duration = 345_600,
        dlq: str | None = None,
        max_receive_count: int | None = None,
        fifo: bool = False,
    ) -> None:
        """Create a queue, with SQS's defaults; idempotent for the same settings, as on SQS.

        Durations are in seconds or timedeltas; SQS takes whole seconds, so a fraction is cut off.
        ``delay`` is for messages without a delay of their own. A FIFO queue is in high-throughput
        mode, as Headgate provisions it: deduplication ids hold within a group, for five minutes.

        Raises:
            ValueError: it exists with other settings, only one of ``dlq`` and
                ``max_receive_count`` is given, the DLQ does not exist or is of the other type,
                the name of a FIFO queue does not end in ``.fifo``, or that of another queue does.
        """
        settings = QueueSettings(
            visibility_s=_whole_s("visibility", visibility),
            delay_s=_whole_s("delay", delay),
            retention_s=_whole_s("retention", retention),
            dlq=dlq,
            max_receive_count=max_receive_count,
            fifo=fifo,
        )
        self._check_settings(name, settings)
        self._made.add(name)
        if name not in self._queues:
            self._queues[name] = MemoryQueue(
                name,
                settings,
                dlq=None if dlq is None else self._queues[dlq],
                in_flight_limit=self._in_flight_limit,
                old_receipts_work=self._old_receipts_work,
            )

    def provision(self, topology: Topology) -> None:
        """Create all queues of an app, their dead-letter queues and the quarantine."""
        for spec in topology.queues:
            self.create_queue(spec.dlq_name, retention=spec.dlq_retention, fifo=spec.fifo)
            self.create_queue(
                spec.name,
                visibility=spec.lane.visibility,
                retention=spec.retention,
                dlq=spec.dlq_name,
                max_receive_count=spec.max_receive_count,
                fifo=spec.fifo,
            )
        self.create_queue(topology.quarantine_name, retention=QUARANTINE_RETENTION)

    # --- the transport --------------------------------------------------------------------------

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        await _suspend()
        return self.send_now(queue, messages)

    async def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        sqs_limits.check_receive(limit, wait_s, visibility_s)
        await _suspend()
        with self._record("receive", queue, limit):
            return await self._poll(self._get(queue), limit, wait_s, visibility_s)

    async def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]:
        await _suspend()
        return self.delete_now(queue, receipts)

    async def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]:
        await _suspend()
        return self.change_visibility_now(queue, changes)

    async def depth(self, queue: str) -> QueueDepth:
        await _suspend()
        return self.depth_now(queue)

    @property
    def sync(self) -> Transport:
        """The same service for synchronous code, from any thread."""
        return _Sqs(self)

    # --- inspection -----------------------------------------------------------------------------

    def messages(self, queue: str) -> list[StoredMessage]:
        """Return a snapshot of a queue's messages, in order of arrival; not counted as a `Call`."""
        with self._ticked(queue) as (store, now_s):
            now = self._clock.now()
            return [stored(message, now=now, now_s=now_s) for message in store.messages]

    # --- internals ------------------------------------------------------------------------------

    def send_now(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        """Do `send` synchronously; this and the next four methods are for `sync`."""
        sqs_limits.check_batch(messages)
        delays_s = tuple(message.delay_s for message in messages)
        with self._record("send", queue, len(messages), delays_s=delays_s) as fault:
            sqs_limits.check_size(messages)
            return self._each(queue, messages, fault, self._store)

    def receive_now(
        self, queue: str, limit: int, visibility_s: int | None
    ) -> list[ReceivedMessage]:
        """Receive the messages that are visible, without a wait."""
        with self._record("receive", queue, limit), self._ticked(queue) as (store, now_s):
            return store.receive(limit, visibility_s, now_s, self._clock.now())

    def delete_now(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]:
        """Do `delete` synchronously."""
        sqs_limits.check_batch(receipts)
        with self._record("delete", queue, len(receipts)) as fault:
            return self._each(queue, receipts, fault, lambda to, receipt, _: to.delete(receipt))

    def change_visibility_now(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]:
        """Do `change_visibility` synchronously."""
        sqs_limits.check_batch(changes)
        timeouts_s = tuple(change.timeout_s for change in changes)
        with self._record("change_visibility", queue, len(changes), timeouts_s=timeouts_s) as fault:
            return self._each(queue, changes, fault, MemoryQueue.change_visibility)

    def depth_now(self, queue: str) -> QueueDepth:
        """Do `depth` synchronously."""
        with self._record("depth", queue, 0), self._ticked(queue) as (store, _):
            return QueueDepth(
                visible=store.count(MessageState.VISIBLE),
                in_flight=store.count(MessageState.IN_FLIGHT),
                delayed=store.count(MessageState.DELAYED),
            )

    def _store(self, to: MemoryQueue, outgoing: OutgoingMessage, now_s: float) -> None:
        sqs_limits.check_message(outgoing, fifo=to.settings.fifo)
        message = Message(
            id=str(uuid.uuid4()),
            content=replace(outgoing, attributes=dict(sorted(outgoing.attributes.items()))),
            sent_at=self._clock.now(),
            sent_s=now_s,
        )
        to.send(message, now_s)

    def _each(
        self,
        queue: str,
        entries: Sequence[_Entry],
        fault: FailedEntries | None,
        apply: Callable[[MemoryQueue, _Entry, float], None],
    ) -> list[EntryFailure]:
        """Apply every entry that no fault hits, and collect the failures."""
        failures: list[EntryFailure] = []
        with self._ticked(queue) as (store, now_s):
            for index, entry in enumerate(entries):
                if fault and (failure := fault.of(index)):
                    failures.append(failure)
                    continue
                try:
                    apply(store, entry, now_s)
                except sqs_limits.EntryRefused as refusal:
                    failures.append(_refused(index, refusal))
            store.bell.ring()
        return failures

    async def _poll(
        self, store: MemoryQueue, limit: int, wait_s: float, visibility_s: int | None
    ) -> list[ReceivedMessage]:
        deadline_s = self._clock.monotonic() + wait_s
        with store.bell.listening() as rung:
            while True:
                rung.clear()
                with self._ticked(store.name) as (_, now_s):
                    received = store.receive(limit, visibility_s, now_s, self._clock.now())
                    _refuse_short_poll(store, wait_s, received)
                    next_s = min(deadline_s, store.next_appearance_s())
                if received or now_s >= deadline_s:
                    return received
                await self._wait(rung, next_s - now_s)

    async def _wait(self, rung: asyncio.Event, timeout_s: float) -> None:
        """Wait for a change of the queue, or until something is due on the clock."""
        if isinstance(self._clock, VirtualClock):  # the loop's time is unrelated to this clock
            await rung.wait()
            return
        with suppress(TimeoutError):
            # At least a moment: a remainder of 1e-16 s is lost when it is added to the loop's time.
            async with asyncio.timeout(max(timeout_s, _MOMENT_S)):
                await rung.wait()

    @contextmanager
    def _record(
        self,
        action: Action,
        queue: str,
        entries: int,
        *,
        delays_s: tuple[int, ...] = (),
        timeouts_s: tuple[int, ...] = (),
    ) -> Iterator[FailedEntries | None]:
        self.calls.append(
            Call(
                action=action,
                queue=queue,
                entries=entries,
                at=self._clock.now(),
                delays_s=delays_s,
                timeouts_s=timeouts_s,
            )
        )
        with self.faults.around(action, queue) as fault:
            yield fault

    @contextmanager
    def _ticked(self, queue: str) -> Iterator[tuple[MemoryQueue, float]]:
        """Yield the queue, locked and with everything due applied, and the time."""
        store = self._get(queue)
        with self._lock:
            now_s = self._clock.monotonic()
            store.tick(now_s)
            yield store, now_s

    def _get(self, queue: str) -> MemoryQueue:
        if queue not in self._made and self._declared is not None:
            with self._lock:
                self.provision(self._declared())
        if queue not in self._queues:
            raise QueueMissing(queue)
        return self._queues[queue]

    def _check_settings(self, name: str, settings: QueueSettings) -> None:
        known = self._queues.get(name)
        if known is not None and known.settings != settings:
            raise ValueError(f"the queue {name!r} exists with other settings: {known.settings}")
        if name.endswith(".fifo") is not settings.fifo:
            raise ValueError(f"{name!r}: a FIFO queue's name ends in '.fifo', and no other's does")
        if (settings.dlq is None) is not (settings.max_receive_count is None):
            raise ValueError(f"{name!r}: dlq and max_receive_count only work together")
        if settings.dlq is not None:
            dlq = self._queues.get(settings.dlq)
            if dlq is None or dlq.settings.fifo is not settings.fifo:
                raise ValueError(f"{name!r}: there is no queue {settings.dlq!r} of the same type")

    def _ring_all(self) -> None:
        for store in self._queues.values():
            store.bell.ring()


class _Sqs:
    """`MemorySqs` as a `jobs.core.ports.transport.Transport`."""

    def __init__(self, sqs: MemorySqs) -> None:
        self._sqs = sqs

    def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        """Send up to ten messages."""
        return self._sqs.send_now(queue, messages)

    def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        """Take the visible messages without a wait: a thread can't wait on a test's clock."""
        sqs_limits.check_receive(limit, wait_s, visibility_s)
        return self._sqs.receive_now(queue, limit, visibility_s)

    def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]:
        """Delete up to ten messages."""
        return self._sqs.delete_now(queue, receipts)

    def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]:
        """Hide or show up to ten deliveries."""
        return self._sqs.change_visibility_now(queue, changes)

    def depth(self, queue: str) -> QueueDepth:
        """Return the numbers of messages."""
        return self._sqs.depth_now(queue)


async def _suspend() -> None:
    # A call over a network always suspends. One that never did would hide races from the tests,
    # and a loop of short polls would starve every other task.
    await asyncio.sleep(0)


def _refuse_short_poll(
    store: MemoryQueue, wait_s: float, received: Sequence[ReceivedMessage]
) -> None:
    """Raise OverLimit for a short poll of a full standard queue; any other just returns nothing."""
    if store.is_full and not received and not wait_s and not store.settings.fifo:
        raise Throttled(f"OverLimit: too many messages of {store.name!r} are in flight")


def _refused(index: int, refusal: sqs_limits.EntryRefused) -> EntryFailure:
    return EntryFailure(index=index, code=refusal.code, message=refusal.message, sender_fault=True)


def _whole_s(name: str, value: Duration) -> int:
    return int(duration(name, value).total_seconds())
