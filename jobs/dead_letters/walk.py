"""Looks through queues of dead letters, several at once, without keeping any message.

Each message is hidden while the look lasts, so that none comes twice, and given back at its end,
unless the visitor has acted upon it: purging and replaying delete what they were shown. If the
process is killed, SQS refuses or giving back takes too long, messages show again by themselves once
their ``hold`` is over.

A look goes in rounds: up to `AT_ONCE` receives at once, more of them for longer queues, then one
call of the visitor with all that is new, and so on until a queue has nothing new. So a visitor is
never called twice at a time, and no more than a round's messages are in memory. Besides them a look
remembers ids and receipts.

What a look can't see, and says in `Look.unseen`: what others hold meanwhile; more than ten messages
of a FIFO queue's group, since SQS hands out no more of it while some are held; and more than
120,000 messages of a queue at a time.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from operator import itemgetter

from headgate.jobs.core.batching import TRIES, pause_s
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.ports.transport import AsyncReceiver, ReceivedMessage, VisibilityChange
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.deployment.sweep_plan import ParkingQueue
from headgate.jobs.errors import QueueMissing, TransportError
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog

AT_ONCE = 16
"""Maximum number of requests of a look at the same time."""

_log = OwnLog("headgate.dead_letters")


@light_dataclass(frozen=True, slots=True, kw_only=True)
class HeldLetter:
    """A message that a look holds, and its queue."""

    queue: ParkingQueue
    message: ReceivedMessage


Visit = Callable[[Sequence[HeldLetter]], Awaitable[Collection[str]]]
"""Called with the messages that are new. Returns the receipts of those that it has acted upon, and
which are not to be given back."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The extent of a look."""

    seen: int
    """Number of messages that were seen."""
    requests: int
    """Number of requests to SQS, those of the visitor not counted."""
    unseen: Mapping[str, int]
    """Approximate number of messages that were not seen, by their queue's physical name."""

    @property
    def complete(self) -> bool:
        """True if everything was seen, as far as SQS's approximate counts tell."""
        return not self.unseen


@dataclass(slots=True, kw_only=True, eq=False)
class _Place:
    """A queue, as far as it was looked through."""

    queue: ParkingQueue
    expected: int
    """All messages that SQS counted at first, hidden ones too."""
    seen: set[str] = field(default_factory=set)
    failures: int = 0

    @property
    def lanes(self) -> int:
        """Number of receives that what is left may fill."""
        return max(1, -(-(self.expected - len(self.seen)) // MAX_BATCH))


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Receive:
    place: _Place
    limit: int


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """The receipts of one receive that are to be given back."""

    queue: str
    ends_s: float
    """The time until which they are certainly hidden."""
    receipts: dict[str, None]
    """In the order in which they came."""


class Walk:
    """A look through queues of dead letters; use it once.

    Args:
        queues: the queue service.
        concurrency: makes several requests at once.
        clock: tells the time.
        sleep: pauses before a receive that failed is repeated.
        rng: spreads the pauses.
        within: the longest time to receive for; a visitor may take longer.
        hold: the time for which messages are hidden from others if they can't be given back; longer
            than ``within``, so that none is received twice.
        wait_s: seconds that a receive waits for a message.
        at_once: maximum number of requests at the same time.
    """

    def __init__(
        self,
        queues: AsyncReceiver,
        *,
        concurrency: Parallelism,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
        within: timedelta,
        hold: timedelta,
        wait_s: float,
        at_once: int = AT_ONCE,
    ) -> None:
        self._queues = queues
        self._concurrency = concurrency
        self._clock = clock
        self._sleep = sleep
        self._rng = rng
        self._until_s = clock.monotonic() + within.total_seconds()
        self._hold_s = int(hold.total_seconds())
        self._wait_s = wait_s
        self._at_once = at_once
        self._requests = self._received = 0
        self._stopped = False
        self._held: list[_Batch] = []

    def stop(self) -> None:
        """End the look after this round; what was received is given back. For the visitor."""
        self._stopped = True

    async def through(
        self,
        parking: Sequence[ParkingQueue],
        visit: Visit,
        *,
        limit: int | None = None,
        skip_empty: bool = False,
    ) -> Look:
        """Call ``visit`` with the messages of some queues, and give back the others.

        Args:
            parking: the queues. One for failed firings may be missing: not every app has it.
            visit: see `Visit`; an error from it ends the look and propagates.
            limit: the maximum number of messages; None for no limit.
            skip_empty: ask no queue for messages that SQS counts as empty. The count is
                approximate: what came a moment ago may not be counted yet.

        Raises:
            TransportError: a queue could not be asked, or does not exist.
        """
        places = await self._counted(parking)
        going = [each for each in places if each.expected or not skip_empty]
        try:
            while going and (receives := self._next(going, limit)):
                fresh = await self._receive(receives, going)
                if fresh:
                    self._let_go(await visit(fresh))
        finally:
            await self._give_back()
        unseen = {each.queue.name: each.expected - len(each.seen) for each in places}
        return Look(
            seen=sum(len(each.seen) for each in places),
            requests=self._requests,
            unseen={name: count for name, count in unseen.items() if count > 0},
        )

    async def _counted(self, parking: Sequence[ParkingQueue]) -> list[_Place]:
        self._requests += len(parking)
        found = await self._concurrency.each(self._count, parking, at_once=self._at_once)
        return [place for place in found if place is not None]

    async def _count(self, queue: ParkingQueue) -> _Place | None:
        try:
            depth = await self._queues.depth(queue.name)
        except QueueMissing:
            if queue.kind == "unsubmitted":
                return None
            raise
        return _Place(queue=queue, expected=depth.total)

    def _next(self, going: Sequence[_Place], limit: int | None) -> list[_Receive]:
        """Return the receives of the next round; none if the look is over."""
        if self._stopped or self._clock.monotonic() >= self._until_s:
            return []
        room = MAX_BATCH * self._at_once if limit is None else limit - self._received
        return _allotted(going, room, self._at_once)

    async def _receive(self, receives: Sequence[_Receive], going: list[_Place]) -> list[HeldLetter]:
        """Make the receives of a round; return what is new, and drop queues with nothing new."""
        asked_s = self._clock.monotonic()
        self._requests += len(receives)
        answers = await self._concurrency.each(self._ask, receives, at_once=len(receives))
        fresh: list[HeldLetter] = []
        errors: dict[_Place, TransportError] = {}
        lively: set[_Place] = set()
        for place, answer in zip((each.place for each in receives), answers, strict=True):
            if isinstance(answer, TransportError):
                errors[place] = answer
            elif new := self._new(place, answer, asked_s):
                fresh += new
                lively.add(place)
        for place in {each.place for each in receives} - lively - errors.keys():
            going.remove(place)
        await self._bear(errors, lively)
        return fresh

    async def _ask(self, receive: _Receive) -> Sequence[ReceivedMessage] | TransportError:
        try:
            return await self._queues.receive(
                receive.place.queue.name,
                limit=receive.limit,
                wait_s=self._wait_s,
                visibility_s=self._hold_s,
            )
        except TransportError as error:  # the round's other receives go on
            return error

    def _new(
        self, place: _Place, messages: Sequence[ReceivedMessage], asked_s: float
    ) -> list[HeldLetter]:
        """Hold what was received; return those that have not been seen before."""
        self._received += len(messages)
        receipts = dict.fromkeys(message.receipt for message in messages)
        ends_s = asked_s + self._hold_s
        self._held.append(_Batch(queue=place.queue.name, ends_s=ends_s, receipts=receipts))
        fresh = [
            HeldLetter(queue=place.queue, message=message)
            for message in {each.message_id: each for each in messages}.values()
            if message.message_id not in place.seen
        ]
        place.seen.update(each.message.message_id for each in fresh)
        return fresh

    async def _bear(
        self, errors: Mapping[_Place, TransportError], lively: Collection[_Place]
    ) -> None:
        """Pause if receives failed that may succeed later; otherwise raise the first error."""
        for place in lively:
            place.failures = 0
        for place, error in errors.items():
            place.failures += 1
            if not error.transient or place.failures >= TRIES:
                raise error
        if errors:
            tries = max(place.failures for place in errors)
            await self._sleep(pause_s(tries, self._rng, answered=False))

    def _let_go(self, kept: Collection[str]) -> None:
        """Forget the receipts of the last round that the visitor has acted upon."""
        for batch in self._held[-self._at_once :]:
            for receipt in batch.receipts.keys() & kept:
                del batch.receipts[receipt]

    async def _give_back(self) -> None:
        """Make everything that is held visible again."""
        held = [each for each in self._held if each.receipts]
        shown = await self._concurrency.each(self._show, held, at_once=self._at_once)
        self._requests += sum(each is not None for each in shown)
        if kept := sum(each or 0 for each in shown):
            _log.warning(
                "%d dead letters show again by themselves in at most %d s", kept, self._hold_s
            )

    async def _show(self, batch: _Batch) -> int | None:
        """Make a receive's messages visible; return how many stay hidden for now.

        None: they show by themselves by now, and may be somebody else's.
        """
        if self._clock.monotonic() >= batch.ends_s:
            return None
        changes = [VisibilityChange(receipt=receipt, timeout_s=0) for receipt in batch.receipts]
        try:
            return len(await self._queues.change_visibility(batch.queue, changes))
        except TransportError:
            return len(changes)


def _allotted(going: Sequence[_Place], room: int, at_once: int) -> list[_Receive]:
    """Return up to ``at_once`` receives for ``room`` messages, by turns for each queue."""
    turns = sorted(
        ((turn, place) for place in going for turn in range(min(place.lanes, at_once))),
        key=itemgetter(0),
    )
    receives: list[_Receive] = []
    for _, place in turns[:at_once]:
        if room <= 0:
            break
        receives.append(_Receive(place=place, limit=min(MAX_BATCH, room)))
        room -= MAX_BATCH
    return receives
