"""The copies of ``client.dead_letters``: listed, shown and restored.

`AsyncCopyDesk` is the awaited form of `CopyDesk`, and its engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.jobs.client.auditing.words import in_words
from headgate.jobs.client.dead_letters.payloads import LetterPayload, payload_of
from headgate.jobs.client.dead_letters.superseding import superseded
from headgate.jobs.client.services import ClientServices
from headgate.jobs.core.immediate import drive
from headgate.jobs.dead_letters.archive import LetterArchive, LetterCopy
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.replaying.report import MAX_LISTED
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.messages.envelope import PayloadRef
from headgate.jobs.records.audit.entry import AuditAction
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass

ALL = DeadLetterFilter()


@light_dataclass(frozen=True, slots=True, kw_only=True)
class CopyPage:
    """Copies that were listed."""

    copies: Sequence[LetterCopy]
    """Those of the latest days come first; none has its letter's content."""
    complete: bool
    """False if the limit was reached, so that there may be more."""
    requests: int
    """Number of requests to S3."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class CopyDetails:
    """All that a copy tells."""

    copy: LetterCopy
    attributes: dict[str, str]
    """All message attributes."""
    payload: Any = None
    """The payload, if it was asked for: JSON values, or the whole body as text if it is not one of
    Headgate's."""
    payload_fault: str = ""
    """The reason for which the payload could not be read; empty if it could."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LettersRestored:
    """The outcome of a restore."""

    restored: int
    """Number of letters that were sent back to their dead-letter queues."""
    superseded: int = 0
    """Number of letters that were left since their jobs have gone on: completed, been replayed, or
    ended otherwise, by their records."""
    superseded_jobs: Sequence[str] = ()
    """The ids of the first hundred of these jobs."""
    failures: Sequence[str]
    """The reasons for which letters were left, a text for each."""
    requests: int
    """Number of requests to S3."""


class AsyncCopyDesk:
    """The awaited form of `CopyDesk`, which also drives this class.

    Args:
        services: the surroundings.
        client: enters the looks into the audit, and opens payloads.
    """

    def __init__(self, services: ReplayServices, client: ClientServices) -> None:
        self._copied = services
        self._client = client

    async def copies(self, wanted: DeadLetterFilter = ALL, *, limit: int = 50) -> CopyPage:
        """`CopyDesk.copies`, awaited."""
        if limit < 1:
            raise ConfigurationError(f"limit must be at least 1, got {limit}")
        archive, found = self._archive(), list[LetterCopy]()

        async def collect(copies: Sequence[LetterCopy]) -> bool:
            found.extend(each.without_content() for each in copies)
            return len(found) < limit

        await archive.walk(wanted, collect)
        return CopyPage(
            copies=found[:limit], complete=len(found) < limit, requests=archive.requests
        )

    async def show_copy(self, id: str, *, payload: bool = False) -> CopyDetails | None:  # noqa: A002 - the id of a job or of a message
        """`CopyDesk.show_copy`, awaited."""
        if not payload:
            return await self._show_copy(id)
        async with self._client.auditor.action(AuditAction.SHOW_PAYLOAD, "copy", id) as entry:
            found = await self._show_copy(id, payload=True)
            entry.count = int(found is not None)
        return found

    async def _show_copy(self, wanted_id: str, *, payload: bool = False) -> CopyDetails | None:
        archive, seen = self._archive(), list[LetterCopy]()

        async def first(copies: Sequence[LetterCopy]) -> bool:
            seen.append(copies[0])
            return False

        await archive.walk(DeadLetterFilter(ids=(wanted_id,)), first)
        if not seen:
            return None
        [copy], read = seen, LetterPayload()

        async def beside(_ref: PayloadRef) -> bytes | None:
            return await archive.payload(copy)

        if payload:
            read = await payload_of(self._client, copy.content, beside)
        return CopyDetails(
            copy=copy.without_content(),
            attributes=dict(copy.content.attributes),
            payload=read.value,
            payload_fault=read.fault,
        )

    async def restore(
        self, wanted: DeadLetterFilter, *, include_superseded: bool = False
    ) -> LettersRestored:
        """`CopyDesk.restore`, awaited."""
        archive, restored, failures = self._archive(), 0, list[str]()
        passed = list[str]()
        restoring = self._client.auditor.action(AuditAction.RESTORE, "copies", in_words(wanted))

        async def send(copies: Sequence[LetterCopy]) -> bool:
            nonlocal restored
            gone_on = [] if include_superseded else await superseded(self._copied, copies)
            passed.extend(each.letter.job_id or "" for each in gone_on)
            fit = [copy for copy in copies if copy not in gone_on]
            left = await archive.restore(fit)
            restored += len(fit) - len(left)
            failures.extend(f"{key} could not be restored: {why}" for key, why in left.items())
            restoring.count = restored
            return True

        async with restoring:
            await archive.walk(wanted, send)
            restoring.result = f"{len(failures)} could not be restored" if failures else ""
        return LettersRestored(
            restored=restored,
            superseded=len(passed),
            superseded_jobs=[*dict.fromkeys(passed)][:MAX_LISTED],
            failures=failures,
            requests=archive.requests,
        )

    def _archive(self) -> LetterArchive:
        return LetterArchive(self._copied, self._copied.store)


class CopyDesk:
    """The copies of an app's dead letters in its bucket.

    The sweep makes one of each letter that SQS is about to delete, and a purge of each that it
    deletes. S3 keeps them for a year. A listing takes a request for each thousand copies of a
    dead-letter queue, and one for each copy that is looked at.

    Every method may raise a `TransportError`.
    """

    def __init__(self, engine: AsyncCopyDesk) -> None:
        self._copies = engine

    def copies(self, wanted: DeadLetterFilter = ALL, *, limit: int = 50) -> CopyPage:
        """Return up to ``limit`` copies, those of the latest days first."""
        return drive(self._copies.copies(wanted, limit=limit))

    def show_copy(self, id: str, *, payload: bool = False) -> CopyDetails | None:  # noqa: A002 - the id of a job or of a message
        """Return one copy; None if none has the id.

        Args:
            id: the id of its job, or SQS's of its message.
            payload: include the payload, read from beside the copy if the body has its address.
        """
        return drive(self._copies.show_copy(id, payload=payload))

    def restore(
        self, wanted: DeadLetterFilter, *, include_superseded: bool = False
    ) -> LettersRestored:
        """Send letters back to the dead-letter queues that they lay in.

        From there they are replayed like all others. A payload that lay in the bucket is put back
        first; a letter is left if the object beside its copy is not its payload. SQS gives the
        letters new ids and a new retention. The copies stay, so restoring twice without a replay in
        between makes two of each letter.

        A letter is also left if its job's records say that the job has gone on since: it has
        completed, been replayed, or ended otherwise. That takes two reads of the table a letter.
        Once the records have expired, or where none are kept, nothing tells.

        Args:
            wanted: selects the letters.
            include_superseded: send those of jobs that have gone on, too. They run again when they
                are replayed, unless their types are declared with ``once=True``.
        """
        return drive(self._copies.restore(wanted, include_superseded=include_superseded))
