"""Searches of an app's dead letters: a look through its queues, read and filtered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta

from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.letter import DeadLetter, LetterContent
from headgate.jobs.dead_letters.reading import content_of
from headgate.jobs.dead_letters.surroundings import LetterServices
from headgate.jobs.dead_letters.walk import HeldLetter, Look
from headgate.jobs.deployment.sweep_plan import ParkingQueue
from headgate.jobs.messages.bundles import job_in
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass

WITHIN = timedelta(seconds=90)
"""Default of the longest time for which a search receives."""

LOOKING = timedelta(seconds=5)
"""Time for giving back what was only looked at, in which messages are still hidden. What has not
been given back by then shows by itself."""

ACTING = timedelta(seconds=30)
"""Likewise of a search whose visitor deletes messages, which others must not get meanwhile."""

_LONGEST = timedelta(hours=1)


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class FoundLetter:
    """A letter that a search has selected, and holds."""

    letter: DeadLetter
    content: LetterContent
    receipt: str

    def of_job(self, job_id: str) -> FoundLetter:
        """Return the letter of one job of a bundle, which names the others' number; of any other
        message itself."""
        if (body := job_in(self.content.body, job_id)) is None:
            return self
        letter = replace(self.letter, job_id=job_id)
        return replace(self, letter=letter, content=replace(self.content, body=body))


class SearchRound:
    """The letters of a search's round, from which its visitor may end the search."""

    def __init__(self, letters: Sequence[FoundLetter], stop: Callable[[], None]) -> None:
        self.letters = letters
        self.stop = stop


OnFound = Callable[[SearchRound], Awaitable[Collection[str]]]
"""Called with what is found. Returns the receipts of letters that it deleted: the others are given
back."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class LetterSearch:
    """Searches the dead letters of one app."""

    services: LetterServices

    async def run(
        self,
        wanted: DeadLetterFilter,
        on_found: OnFound,
        *,
        within: Duration = WITHIN,
        margin: timedelta = LOOKING,
        into_bundles: bool = True,
    ) -> Look:
        """Call ``on_found`` with all letters that are selected.

        Args:
            wanted: selects them.
            on_found: see `OnFound`; not called for rounds in which there are none.
            within: the longest time to receive for; an hour at most.
            margin: the time after that for which letters may still be hidden: `ACTING` if
                ``on_found`` deletes any.
            into_bundles: whether the id of a job in a bundle selects the bundle.

        Raises:
            SettingsInvalid: ``within`` is not such a time.
            TransportError: a queue could not be asked, or does not exist.
        """
        bound = min(duration("within", within, positive=True), _LONGEST)
        walk = self.services.walk(within=bound, hold=bound + margin)
        now = self.services.clock.now()

        async def visit(fresh: Sequence[HeldLetter]) -> Collection[str]:
            read = [(held, self.services.read(held)) for held in fresh]
            found = [
                _found(held, letter)
                for held, letter in read
                if wanted.matches(letter if into_bundles else letter.without_content(), now=now)
            ]
            return await on_found(SearchRound(found, walk.stop)) if found else ()

        places = [queue for queue in self.services.parking if may_hold(queue, wanted)]
        return await walk.through(places, visit)


def _found(held: HeldLetter, letter: DeadLetter) -> FoundLetter:
    return FoundLetter(
        letter=letter.without_content(),
        content=content_of(held.message),
        receipt=held.message.receipt,
    )


def may_hold(queue: ParkingQueue, wanted: DeadLetterFilter) -> bool:
    """Return False for a dead-letter queue of which no letter can be wanted."""
    named = set(wanted.queues)
    return (
        not named
        or queue.kind != "dead-letters"
        or bool(named & {queue.name, queue.label, queue.home})
    )
