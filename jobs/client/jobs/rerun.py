"""Running a job again, as a new job with the payload of an earlier one.

The payload of a job that died is in its dead letter, and so is its FIFO group. Those of one that
ended otherwise went with its message, so the caller gives them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from headgate.jobs.client.lookup import Lookup
from headgate.jobs.client.submitting.engine import Submit
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.topology import Priority
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.letter import DeadLetter, LetterContent
from headgate.jobs.dead_letters.reading import REDRIVEN
from headgate.jobs.dead_letters.search import WITHIN, FoundLetter, LetterSearch, SearchRound
from headgate.jobs.dead_letters.walk import Look
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.errors import JobNotEnded, MessageSchemaNewer, PayloadUnknown
from headgate.jobs.execution.adoption import envelope_of
from headgate.jobs.messages.envelope import Envelope, parse
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.large_payloads import check_reference, max_packed, unpacked
from headgate.jobs.messages.sealing import opened_payload
from headgate.jobs.records.history import JobRecord
from headgate.jobs.records.state import JobState
from headgate.jobs.submission.prepare import Origin, Submission, prepare
from headgate.jobs.values.durations import Duration

_DEAD = frozenset({JobState.DEAD, JobState.QUARANTINED})

_UNDER_WAY = frozenset({JobState.RUNNING, JobState.RETRYING, JobState.DELAYED})
"""States in which a job's records tell that it has not ended. One that waits may have been moved by
SQS itself, without a record."""

_SEARCHED = timedelta(seconds=10)
"""The longest time for which a letter is looked for that there probably isn't."""


class Reruns:
    """Makes and sends the submissions that run jobs again.

    Args:
        lookup: reads the jobs' records.
        search: looks for their dead letters.
        send: sends submissions as they are.
    """

    def __init__(
        self,
        lookup: Lookup,
        search: LetterSearch,
        send: Submit,
    ) -> None:
        self._lookup = lookup
        self._services = lookup.services
        self._search = search
        self._send = send

    async def run(self, job_id: str, payload: Any, overrides: SubmitOptions) -> Submission:
        """Submit a job again; returns the submission, once SQS has it.

        Raises:
            JobNotEnded: the job waits or runs, or nothing is known of it.
            UnknownJobType: the app has its type no more.
            PayloadUnknown: none is given, and no message of the job is left.
            PayloadLost: its message names an object in the bucket that is gone or damaged.
            MessageError: its message can't be read here.
            PayloadInvalid: the type can't read the payload.
            TransportError: AWS could not be asked, or refused.
        """
        record = await self._lookup.history(job_id, None)
        found: FoundLetter | None = None
        if not record.state.is_final:
            found = await self._moved(record)
            record = _told(record, found)
        declared = self._services.app.find_type(record.type or "")
        options = self._options(record, declared)
        lacks_payload = payload is None and declared.payload is not None
        # Another payload may be of another group, where the type tells it by the payload.
        keeps_group = payload is None or declared.group_by is None
        lacks_group = keeps_group and "group" not in overrides and self._is_fifo(declared)
        if found is None and (lacks_payload or lacks_group):
            found = await self._dead(record)
        if lacks_payload:
            if found is None:
                raise PayloadUnknown(record.id, state=record.state)
            letter, content = found.letter, found.content
            envelope = _envelope_of(self._services.app, declared, letter, content)
            payload = await self._payload(declared, envelope)
        if lacks_group and found is not None and found.content.group:
            options["group"] = found.content.group
        submission = self._submission(record, declared, payload, {**options, **overrides})
        await self._send([submission])
        return submission

    def _is_fifo(self, declared: JobType[Any, Any]) -> bool:
        return self._services.app.queues[declared.queue].fifo

    def _options(self, record: JobRecord, declared: JobType[Any, Any]) -> SubmitOptions:
        """Return the options that the job had, as far as they still can be."""
        priorities = self._services.app.queues[declared.queue].lanes
        kept = record.priority in priorities
        return {
            "priority": Priority(record.priority) if kept and record.priority else None,
            "tenant": record.tenant,
            "unique": False,  # whoever runs a job again wants it beside its like
        }

    def _submission(
        self,
        record: JobRecord,
        declared: JobType[Any, Any],
        payload: Any,
        options: SubmitOptions,
    ) -> Submission:
        now = self._services.clock.now()
        return prepare(
            self._services.app,
            self._services.app.topology,
            declared,
            payload,
            options,
            now=now,
            job_id=new_job_id(now),
            origin=Origin(parent=UUID(record.id)),
        )

    async def _moved(self, record: JobRecord) -> FoundLetter:
        """Return the letter of a job that SQS itself has moved, which nobody has recorded.

        Raises:
            JobNotEnded: there is none.
        """
        if record.state in _UNDER_WAY:
            raise JobNotEnded(record.id, state=record.state)
        found, look = await self._searched(record.id, reasons=(REDRIVEN,), within=_SEARCHED)
        if found is None or found.letter.job_id != record.id:
            raise JobNotEnded(record.id, state=record.state, unseen=sum(look.unseen.values()))
        return found

    async def _dead(self, record: JobRecord) -> FoundLetter | None:
        """Return the dead letter of a job that has ended; None if there is none."""
        return (await self._searched(record.id))[0] if record.state in _DEAD else None

    async def _searched(
        self, job_id: str, *, reasons: tuple[str, ...] = (), within: Duration = WITHIN
    ) -> tuple[FoundLetter | None, Look]:
        found: list[FoundLetter] = []

        async def first(seen: SearchRound) -> Collection[str]:
            found.append(seen.letters[0].of_job(job_id))
            seen.stop()
            return ()

        wanted = DeadLetterFilter(ids=(job_id,), reasons=reasons)
        look = await self._search.run(wanted, first, within=within)
        return (found[0] if found else None), look

    async def _payload(self, declared: JobType[Any, Any], envelope: Envelope) -> Any:
        """Return the payload of a message, as its handler would get it."""
        if envelope.schema_ > declared.schema:
            raise MessageSchemaNewer(
                f"the payload of {declared.name!r} is of schema {envelope.schema_}; this app reads "
                f"up to {declared.schema}"
            )
        value = envelope.payload
        if (ref := envelope.payload_ref) is not None:
            check_reference(ref, envelope.id)
            packed = await self._services.store.get(ref.key, max_bytes=max_packed(ref))
            value = await self._services.concurrency.aside(lambda: unpacked(ref, packed))
        if envelope.sealed is not None:
            value = await opened_payload(self._services.seals, envelope, value)
        return declared.load(value, envelope.schema_)


def _told(record: JobRecord, found: FoundLetter) -> JobRecord:
    """Return what is known of a job that SQS has moved: its letter tells what no record does."""
    letter = found.letter
    return replace(
        record,
        type=record.type or letter.job_type,
        priority=record.priority or letter.priority,
        tenant=record.tenant or parse(found.content.body).tenant,
    )


def _envelope_of(
    app: App, declared: JobType[Any, Any], letter: DeadLetter, content: LetterContent
) -> Envelope:
    """Return the envelope of a dead letter, also of one that was no message of Headgate's."""
    queue = next(each for each in app.topology.queues if each.group == declared.queue)
    message = ReceivedMessage(
        message_id=letter.message_id,
        receipt="",
        body=content.body,
        receive_count=1,
        sent_at=letter.sent_at,
        attributes=content.attributes,
        group=content.group,
    )
    envelope, _ = envelope_of(app, message, queue)
    return envelope
