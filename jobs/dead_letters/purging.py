"""Purging: dead letters are copied to the bucket, and deleted once their copy is there.

Cut off anywhere, a letter that is gone from its queue has a copy in the bucket: each round copies
its letters first, and deletes only those whose copy S3 has confirmed. A copy always has the same
key and content, so copying again changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.ports.transport import AsyncTransport
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.dead_letters.copies import save_copy
from headgate.jobs.dead_letters.search import FoundLetter, SearchRound
from headgate.jobs.dead_letters.walk import AT_ONCE
from headgate.jobs.errors import TransportError


@dataclass(slots=True, kw_only=True)
class LetterPurge:
    """Purges what a search finds; its method `purge` is the search's visitor."""

    transport: AsyncTransport
    store: AsyncObjectStore | None
    """The bucket for the copies; None deletes without one."""
    concurrency: Parallelism
    purged: int = 0
    copied: int = 0
    requests: int = 0
    """Number of requests to SQS."""
    failures: list[str] = field(default_factory=list)
    """The reasons for which letters were left, a text for each."""

    async def purge(self, found: SearchRound) -> Collection[str]:
        """Purge the letters of one round; ends the search if one could not be."""
        ready = found.letters
        if self.store is not None:
            copying = partial(self._copy, self.store)
            are_kept = await self.concurrency.each(copying, ready, at_once=AT_ONCE)
            ready = [each for each, is_kept in zip(ready, are_kept, strict=True) if is_kept]
            self.copied += len(ready)
        gone: set[str] = set()
        for batch in _by_queue(ready):
            gone |= await self._delete(batch)
        self.purged += len(gone)
        if len(gone) < len(found.letters):
            found.stop()
        return gone

    async def _copy(self, store: AsyncObjectStore, each: FoundLetter) -> bool:
        try:
            await save_copy(store, each.letter, each.content)
        except TransportError as error:
            self.failures.append(f"{each.letter.message_id} could not be copied: {error}")
            return False
        return True

    async def _delete(self, batch: Sequence[FoundLetter]) -> set[str]:
        """Delete letters of one queue; return the receipts of those that are gone."""
        self.requests += 1
        receipts = [each.receipt for each in batch]
        try:
            failed = await self.transport.delete(batch[0].letter.queue, receipts)
        except TransportError as error:
            self.failures += [
                f"{each.letter.message_id} could not be deleted: {error}" for each in batch
            ]
            return set()
        for each in failed:
            self.failures.append(
                f"{batch[each.index].letter.message_id} could not be deleted: "
                f"{each.code}: {each.message}"
            )
        return set(receipts) - {receipts[each.index] for each in failed}


def _by_queue(letters: Sequence[FoundLetter]) -> list[list[FoundLetter]]:
    """Return batches of letters that lie in one queue each."""
    queues: dict[str, list[FoundLetter]] = {}
    for each in letters:
        queues.setdefault(each.letter.queue, []).append(each)
    return [
        those[start : start + MAX_BATCH]
        for those in queues.values()
        for start in range(0, len(those), MAX_BATCH)
    ]
