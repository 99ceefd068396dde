"""The copies of dead letters in the app's bucket: listed, read, and sent back.

A copy is found by its key, which names its queue, its day and its message, and then read to be
filtered: one request lists a thousand, and each that may be wanted takes another one. The latest
days come first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from headgate.jobs.core.naming import DEAD_LETTERS, DEAD_LETTERS_KEPT
from headgate.jobs.core.ports.object_store import AsyncObjectStore, StoredObject
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.dead_letters.copies import (
    LETTER,
    SavedLetter,
    payload_key,
    payload_ref_of,
    read_copy,
)
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.importing import LetterSender
from headgate.jobs.dead_letters.letter import DeadLetter, LetterContent
from headgate.jobs.dead_letters.search import may_hold
from headgate.jobs.dead_letters.surroundings import LetterServices
from headgate.jobs.dead_letters.walk import AT_ONCE, HeldLetter
from headgate.jobs.deployment.sweep_plan import ParkingQueue
from headgate.jobs.errors import MessageError, PayloadLost
from headgate.jobs.messages.large_payloads import max_packed
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass
from headgate.jobs.values.listing.time_bounds import moment_of
from headgate.jobs.values.own_log import OwnLog

_SLACK = timedelta(days=1)
"""Time by which the clocks of workers and SQS, and their days, may differ."""

_log = OwnLog("headgate.dead_letters")


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LetterCopy:
    """A copy of a dead letter in the bucket."""

    letter: DeadLetter
    """The letter as it was; `CopyPage` and `CopyDetails` leave out its content."""
    key: str
    """The key of the object."""
    stored_at: datetime
    """The time at which it was copied last; aware."""

    @property
    def expires_at(self) -> datetime:
        """The time from which S3 deletes the copy."""
        return self.stored_at + DEAD_LETTERS_KEPT

    @property
    def content(self) -> LetterContent:
        """The letter's message."""
        if self.letter.content is None:
            raise ValueError(f"the copy {self.key} was listed without its content")
        return self.letter.content

    @property
    def saved(self) -> SavedLetter:
        """The letter as it is sent back to its queue."""
        return SavedLetter(
            queue=self.letter.queue,
            message_id=self.letter.message_id,
            sent_at=self.letter.sent_at,
            content=self.content,
        )

    def without_content(self) -> LetterCopy:
        """Return it without the letter's content, which may have a MiB."""
        return replace(self, letter=self.letter.without_content())


@light_dataclass(frozen=True, slots=True)
class _Place:
    """A copy as its key names it."""

    queue: ParkingQueue
    day: date
    stored: StoredObject


OnCopies = Callable[[Sequence[LetterCopy]], Awaitable[bool]]
"""Called with a few copies at a time. Returns False to end there."""


class LetterArchive:
    """The copies of an app's dead letters.

    Args:
        services: the surroundings.
        store: the bucket.
    """

    def __init__(self, services: LetterServices, store: AsyncObjectStore) -> None:
        self._services = services
        self._store = store
        self.requests = 0
        """Number of requests to S3."""

    async def walk(self, wanted: DeadLetterFilter, visit: OnCopies) -> None:
        """Call ``visit`` with the copies that are selected, those of the latest days first.

        Args:
            wanted: selects them.
            visit: see `OnCopies`.

        Raises:
            TransportError: S3 could not be asked.
        """
        now = self._services.clock.now()
        since = moment_of(wanted.since, now)
        first = None if since is None else (since - _SLACK).date()  # nothing dies after it was sent
        queues = [queue for queue in self._services.parking if may_hold(queue, wanted)]
        places = [place for queue in queues for place in await self._places(queue, first)]
        places.sort(key=lambda place: (place.day, place.stored.stored_at), reverse=True)
        for start in range(0, len(places), AT_ONCE):
            batch = places[start : start + AT_ONCE]
            self.requests += len(batch)
            read = await self._services.concurrency.each(self._read, batch, at_once=AT_ONCE)
            copies = [each for each in read if each is not None]
            found = [each for each in copies if wanted.matches(each.letter, now=now)]
            if found and not await visit(found):
                return

    async def payload(self, copy: LetterCopy) -> bytes | None:
        """Return the packed payload beside a copy, whose body has its address; None if it is gone.

        Raises:
            PayloadLost: the object is larger than the body says.
            TransportError: S3 could not be asked.
        """
        if (ref := payload_ref_of(copy.content.body)) is None:
            return None
        self.requests += 1
        return await self._store.get(payload_key(copy.key), max_bytes=max_packed(ref))

    async def restore(self, copies: Sequence[LetterCopy]) -> dict[str, str]:
        """Send letters back to the dead-letter queues that they lay in, their payloads first.

        Returns:
            the keys of the copies that were left, because the object beside them is not the payload
            that was copied, each with the reason.

        Raises:
            TransportError: S3 or SQS could not be asked; some may have been sent.
        """
        services = self._services
        faults = await services.concurrency.each(self._restore_payload, copies, at_once=AT_ONCE)
        left = {copy.key: fault for copy, fault in zip(copies, faults, strict=True) if fault}
        sender = LetterSender(services.transport, sleep=services.sleep, rng=services.rng)
        await sender.send([copy.saved for copy in copies if copy.key not in left])
        return left

    async def _restore_payload(self, copy: LetterCopy) -> str:
        """Put the payload beside a copy back; return the reason if that is not possible."""
        try:
            packed = await self.payload(copy)
        except PayloadLost as error:
            return str(error)
        ref = payload_ref_of(copy.content.body)
        if ref is not None and packed is not None:  # it may have been gone when this was copied
            self.requests += 1
            await self._store.create(ref.key, packed)  # it may have outlived the letter
        return ""

    async def _places(self, queue: ParkingQueue, first: date | None) -> list[_Place]:
        """Return the copies of a queue's letters of a day and later, by their keys."""
        prefix, found = f"{DEAD_LETTERS}{queue.name}/", list[_Place]()
        after = f"{prefix}{first}" if first else prefix
        while after:
            self.requests += 1
            page = await self._store.page(prefix, after=after)
            found += _read_keys(queue, prefix, page.objects)
            after = page.after
        return found

    async def _read(self, place: _Place) -> LetterCopy | None:
        """Return a copy; None if it is gone by now, or none that Headgate has made."""
        key = place.stored.key
        try:
            saved = await read_copy(self._store, key)
        except MessageError as error:
            _log.warning("the object %s is no copy of a dead letter: %s", key, error)
            return None
        return None if saved is None else self._copy(place, saved)

    def _copy(self, place: _Place, saved: SavedLetter) -> LetterCopy:
        message = ReceivedMessage(
            message_id=saved.message_id,
            receipt="",
            body=saved.content.body,
            receive_count=1,
            sent_at=saved.sent_at or place.stored.stored_at,
            attributes=saved.content.attributes,
            group=saved.content.group,
        )
        letter = self._services.read(HeldLetter(queue=place.queue, message=message))
        stored = place.stored
        return LetterCopy(letter=letter, key=stored.key, stored_at=stored.stored_at)


def _read_keys(
    queue: ParkingQueue, prefix: str, objects: Sequence[StoredObject]
) -> Iterator[_Place]:
    """Yield the copies among a queue's objects: payloads are beside them."""
    for stored in objects:
        day, slash, name = stored.key.removeprefix(prefix).partition("/")
        if not slash or not name.endswith(LETTER):
            continue
        try:
            yield _Place(queue, date.fromisoformat(day), stored)
        except ValueError:
            _log.warning(
                "the object %s is no copy of a dead letter: its key has no day", stored.key
            )
