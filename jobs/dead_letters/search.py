"""Searches of an app's dead letters: a look through its queues, read and filtered."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.ports import AsyncTransport
from headgate.jobs.core.topology import Topology
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.letter import DeadLetter, LetterContent
from headgate.jobs.dead_letters.reading import content_of, read_letter
from headgate.jobs.dead_letters.walk import HeldLetter, Look, Walk
from headgate.jobs.deployment.sweep_plan import ParkingQueue, parking_queues
from headgate.jobs.values.durations import Duration, duration

WITHIN = timedelta(seconds=90)
"""Default of the longest time for which a search receives."""

_MARGIN = timedelta(seconds=30)
"""Time for giving back, in which messages are still hidden."""

_LONGEST = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLetter:
    """A letter that a search has selected, and holds."""

    letter: DeadLetter
    content: LetterContent
    receipt: str


class SearchRound:
    """The letters of a search's round, from which its visitor may end the search."""

    def __init__(self, letters: Sequence[FoundLetter], stop: Callable[[], None]) -> None:
        self.letters = letters
        self.stop = stop


OnFound = Callable[[SearchRound], Awaitable[Collection[str]]]
"""Called with what is found. Returns the receipts of letters that it deleted: the others are given
back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSearch:
    """Searches the dead letters of one app, over ports that are awaited."""

    topology: Topology
    transport: AsyncTransport
    concurrency: Parallelism
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]
    rng: random.Random
    wait_s: float
    """Seconds that a receive waits for a message."""

    @property
    def queues(self) -> Sequence[ParkingQueue]:
        """The app's queues of dead letters."""
        return [*parking_queues(self.topology, has_bridge=True)]

    async def run(
        self, wanted: DeadLetterFilter, on_found: OnFound, *, within: Duration = WITHIN
    ) -> Look:
        """Call ``on_found`` with all letters that are selected.

        Args:
            wanted: selects them.
            on_found: see `OnFound`; not called for rounds in which there are none.
            within: the longest time to receive for; an hour at most. If the process is killed,
                letters show again half a minute after it at the latest.

        Raises:
            SettingsInvalid: ``within`` is not such a time.
            TransportError: a queue could not be asked, or does not exist.
        """
        walk = self._walk(duration("within", within, positive=True))
        now = self.clock.now()

        async def visit(fresh: Sequence[HeldLetter]) -> Collection[str]:
            read = (self._read(held) for held in fresh)
            found = [each for each in read if wanted.matches(each.letter, now=now)]
            return await on_found(SearchRound(found, walk.stop)) if found else ()

        places = [queue for queue in self.queues if _may_hold(queue, wanted)]
        return await walk.through(places, visit)

    def _walk(self, within: timedelta) -> Walk:
        within = min(within, _LONGEST)
        return Walk(
            self.transport,
            concurrency=self.concurrency,
            clock=self.clock,
            sleep=self.sleep,
            rng=self.rng,
            within=within,
            hold=within + _MARGIN,
            wait_s=self.wait_s,
        )

    def _read(self, held: HeldLetter) -> FoundLetter:
        letter = read_letter(held.message, held.queue, self.topology)
        return FoundLetter(
            letter=letter.without_content(),
            content=content_of(held.message),
            receipt=held.message.receipt,
        )


def _may_hold(queue: ParkingQueue, wanted: DeadLetterFilter) -> bool:
    """Return False for a dead-letter queue of which no letter can be wanted."""
    named = set(wanted.queues)
    return (
        not named
        or queue.kind != "dead-letters"
        or bool(named & {queue.name, queue.label, queue.home})
    )
