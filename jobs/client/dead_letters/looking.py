"""The looks of ``client.dead_letters``: lists, counts, shows, exports, imports and purges.

`AsyncLetterDesk` is the awaited form of `LetterDesk`, and its engine.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

from headgate.jobs.client.auditing.words import in_words
from headgate.jobs.client.dead_letters.answers import (
    LetterCounts,
    LetterDetails,
    LetterPage,
    LettersExported,
    LettersPurged,
)
from headgate.jobs.client.dead_letters.payloads import LetterPayload, payload_of
from headgate.jobs.client.lookup import Lookup
from headgate.jobs.client.private_files import reading, writing
from headgate.jobs.core.immediate import drive
from headgate.jobs.dead_letters.copies import as_json
from headgate.jobs.dead_letters.counting import CountBy, LetterCounter
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.importing import ROUND, LetterSender, read_lines
from headgate.jobs.dead_letters.letter import DeadLetter, LetterContent
from headgate.jobs.dead_letters.purging import LetterPurge
from headgate.jobs.dead_letters.search import ACTING, WITHIN, LetterSearch, SearchRound
from headgate.jobs.errors import ConfigurationError, RecordsOff, TransportError
from headgate.jobs.handles.handle import check_id
from headgate.jobs.messages.envelope import PayloadRef
from headgate.jobs.messages.large_payloads import max_packed
from headgate.jobs.records.audit.entry import AuditAction
from headgate.jobs.records.history import JobRecord
from headgate.jobs.values.durations import Duration

ALL = DeadLetterFilter()


class AsyncLetterDesk:
    """The awaited form of `LetterDesk`, which also drives this class.

    Args:
        search: looks through the queues.
        lookup: reads records.
    """

    def __init__(self, search: LetterSearch, lookup: Lookup) -> None:
        self._search = search
        self._services = search.services
        self._lookup = lookup
        self._client = lookup.services

    async def list(
        self, wanted: DeadLetterFilter = ALL, *, limit: int = 50, within: Duration = WITHIN
    ) -> LetterPage:
        """`LetterDesk.list`, awaited."""
        if limit < 1:
            raise ConfigurationError(f"limit must be at least 1, got {limit}")
        letters: builtins.list[DeadLetter] = []

        async def collect(found: SearchRound) -> Collection[str]:
            letters.extend(each.letter for each in found.letters[: limit - len(letters)])
            if len(letters) >= limit:
                found.stop()
            return ()

        look = await self._search.run(wanted, collect, within=within)
        letters.sort(key=lambda letter: letter.died_at, reverse=True)
        return LetterPage(letters=letters, look=look)

    async def count(
        self,
        by: Sequence[CountBy] = ("type", "reason"),
        wanted: DeadLetterFilter = ALL,
        *,
        within: Duration = WITHIN,
    ) -> LetterCounts:
        """`LetterDesk.count`, awaited."""
        counter = LetterCounter(by)

        async def add(found: SearchRound) -> Collection[str]:
            for each in found.letters:
                counter.add(each.letter)
            return ()

        look = await self._search.run(wanted, add, within=within)
        return LetterCounts(total=counter.total, groups=counter.counts(), look=look)

    async def show(
        self,
        id: str,  # noqa: A002 - the id of a job or of a message
        *,
        payload: bool = False,
        within: Duration = WITHIN,
    ) -> LetterDetails | None:
        """`LetterDesk.show`, awaited."""
        if not payload:
            return await self._show(id, within)
        async with self._client.auditor.action(
            AuditAction.SHOW_PAYLOAD, "dead letter", id
        ) as entry:
            found = await self._show(id, within, payload=True)
            entry.count = int(found is not None)
        return found

    async def _show(
        self, wanted_id: str, within: Duration, *, payload: bool = False
    ) -> LetterDetails | None:
        seen: builtins.list[tuple[DeadLetter, LetterContent]] = []

        async def first(found: SearchRound) -> Collection[str]:
            letter = found.letters[0].of_job(wanted_id)
            seen.append((letter.letter, letter.content))
            found.stop()
            return ()

        await self._search.run(DeadLetterFilter(ids=(wanted_id,)), first, within=within)
        if not seen:
            return None
        letter, content = seen[0]
        record, record_fault = await self._record(letter)
        read = LetterPayload()
        if payload:
            read = await payload_of(self._client, content, self._packed)
        return LetterDetails(
            letter=letter,
            attributes=dict(content.attributes),
            record=record,
            record_fault=record_fault,
            payload=read.value,
            payload_schema=read.schema,
            payload_fault=read.fault,
        )

    async def export(
        self, wanted: DeadLetterFilter = ALL, *, to: str | Path | TextIO, within: Duration = WITHIN
    ) -> LettersExported:
        """`LetterDesk.export`, awaited."""
        exported = 0
        auditor, chosen = self._client.auditor, in_words(wanted)
        async with auditor.action(AuditAction.EXPORT, "dead letters", chosen) as exporting:
            with writing(to) as file:

                async def write(found: SearchRound) -> Collection[str]:
                    nonlocal exported
                    for each in found.letters:
                        file.write(as_json(each.letter, each.content) + "\n")
                    exporting.count = exported = exported + len(found.letters)
                    return ()

                look = await self._search.run(wanted, write, within=within)
        return LettersExported(exported=exported, look=look)

    async def import_(self, path: str | Path) -> int:
        """`LetterDesk.import_`, awaited."""
        names = {queue.name for queue in self._search.services.parking}
        with reading(path) as file:
            for _ in read_lines(file, names):  # all are checked before any is sent
                pass
        sender = LetterSender(
            self._services.transport, sleep=self._services.sleep, rng=self._services.rng
        )
        imported = 0
        importing = self._client.auditor.action(
            AuditAction.IMPORT, "dead letters", f"of {Path(path).name}"
        )
        async with importing:
            with reading(path) as file:
                letters = iter(read_lines(file, names))
                while batch := [*islice(letters, ROUND)]:
                    await sender.send(batch)
                    imported += len(batch)
                    importing.count = imported
        return imported

    async def purge(
        self, wanted: DeadLetterFilter, *, copy: bool = True, within: Duration = WITHIN
    ) -> LettersPurged:
        """`LetterDesk.purge`, awaited."""
        purge = LetterPurge(
            transport=self._services.transport,
            store=self._client.store if copy else None,
            concurrency=self._services.concurrency,
        )
        purging = self._client.auditor.action(
            AuditAction.PURGE,
            "dead letters",
            in_words(wanted),
            detail="" if copy else "without copies",
        )
        async with purging:
            try:
                # The other jobs of a bundle were not asked for.
                look = await self._search.run(
                    wanted, purge.purge, within=within, margin=ACTING, into_bundles=False
                )
            finally:
                purging.count = purge.purged
            purging.result = "it ended early" if purge.failures else ""
        return LettersPurged(
            purged=purge.purged,
            copied=purge.copied,
            failures=purge.failures,
            requests=purge.requests,
            look=look,
        )

    async def _record(self, letter: DeadLetter) -> tuple[JobRecord | None, str]:
        try:
            job_id = check_id(letter.job_id or "")
            declared = self._client.app.types.get(letter.job_type or "")
            return await self._lookup.history(job_id, declared), ""
        except (ValueError, RecordsOff):  # nobody has kept any
            return None, ""
        except TransportError as error:
            return None, str(error)

    async def _packed(self, ref: PayloadRef) -> bytes | None:
        return await self._client.store.get(ref.key, max_bytes=max_packed(ref))


class LetterDesk:
    """An app's dead letters: in its dead-letter queues, the quarantine and among failed firings.

    Nothing but `purge` takes a letter out of its queue. All others look at the messages, which are
    hidden from others meanwhile, and give them back; letters that others hold, as a sweep does for
    a moment, are not seen. ``look`` says what was looked at, and how many requests it took: a count
    and at least one receive for each queue, and one receive and one release for each ten messages.
    ``within`` is the longest time to look, in seconds or as a timedelta; up to an hour. Letters are
    hidden for at most five seconds longer than that, or thirty where they are purged.

    Every method may raise a `TransportError`.
    """

    def __init__(self, engine: AsyncLetterDesk) -> None:
        self._desk = engine

    def list(
        self, wanted: DeadLetterFilter = ALL, *, limit: int = 50, within: Duration = WITHIN
    ) -> LetterPage:
        """Return up to ``limit`` letters; of more than that, those that SQS hands out first."""
        return drive(self._desk.list(wanted, limit=limit, within=within))

    def count(
        self,
        by: Sequence[CountBy] = ("type", "reason"),
        wanted: DeadLetterFilter = ALL,
        *,
        within: Duration = WITHIN,
    ) -> LetterCounts:
        """Count letters by what they have in common, with the times of each group's first and last.

        Args:
            by: any of ``type``, ``reason``, ``error``, ``queue``, ``tenant`` and ``hour``.
            wanted: selects the letters.
            within: see the class.

        Raises:
            ConfigurationError: letters are not counted by that.
        """
        return drive(self._desk.count(by, wanted, within=within))

    def show(
        self,
        id: str,  # noqa: A002 - the id of a job or of a message
        *,
        payload: bool = False,
        within: Duration = WITHIN,
    ) -> LetterDetails | None:
        """Return all that is known of one letter; None if no letter that can be seen has the id.

        Args:
            id: the id of its job, or SQS's of its message. That of a job in a bundle shows this
                job alone.
            payload: include the payload, read from the bucket if it is there, and opened if it is
                sealed, for which KMS has to permit it.
            within: see the class.
        """
        return drive(self._desk.show(id, payload=payload, within=within))

    def export(
        self, wanted: DeadLetterFilter = ALL, *, to: str | Path | TextIO, within: Duration = WITHIN
    ) -> LettersExported:
        """Write letters to a file, one JSON object a line, as `import_` reads them.

        They have the whole body, and so the payload, sealed if it is. Of a payload in the bucket
        they have the address.

        Args:
            wanted: selects the letters.
            to: a path, at which there is no file yet and which only its owner can read, or an open
                text file.
            within: see the class.

        Raises:
            ConfigurationError: there is a file at the path, or none can be written there.
        """
        return drive(self._desk.export(wanted, to=to, within=within))

    def import_(self, path: str | Path) -> int:
        """Send exported letters to the dead-letter queues that they came from; return their number.

        SQS gives them new ids and a new retention. Importing twice makes two of each.

        Raises:
            ConfigurationError: the file can't be read, or has a line that is no letter of this
                app's; nothing was sent.
        """
        return drive(self._desk.import_(path))

    def purge(
        self, wanted: DeadLetterFilter, *, copy: bool = True, within: Duration = WITHIN
    ) -> LettersPurged:
        """Delete letters, each once its copy is in the app's bucket.

        It ends early if a letter can't be copied or deleted; that letter stays where it is.

        Args:
            wanted: selects the letters; ``DeadLetterFilter()`` all of them. A bundle goes whole, so
                the id of one of its jobs doesn't select it: SQS's of the message does.
            copy: False deletes without a copy: what is gone is gone.
            within: see the class.
        """
        return drive(self._desk.purge(wanted, copy=copy, within=within))
