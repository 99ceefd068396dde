"""Sealing of submissions, on their way out: what waits, is stored or is sent is sealed by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headgate.jobs.messages.outgoing import message_of
from headgate.jobs.messages.sealing import Seals, about_payload
from headgate.jobs.messages.signatures import reserved_as
from headgate.jobs.schedules.delayed_job import check_input
from headgate.jobs.submission.prepare import Submission


async def sealed(seals: Seals | None, submissions: Sequence[Submission]) -> Sequence[Submission]:
    """Return submissions with their payloads sealed; as they are if the app seals nothing.

    Raises:
        TransportError: KMS can't be asked for a data key, or refuses.
        PayloadTooLarge: a payload is too large to be sealed, or to wait in a schedule then.
    """
    if seals is None:
        return submissions
    return [await _sealed(seals, each) for each in submissions]


async def sealed_for(seals: Seals | None, submission: Submission, source: str) -> Submission:
    """Return a submission whose payload each job of a schedule has, bound to that schedule.

    Args:
        seals: as for `sealed`.
        submission: one of its jobs.
        source: the ``source`` of its jobs.

    Raises:
        TransportError, PayloadTooLarge: as for `sealed`.
    """
    return submission if seals is None else await _sealed(seals, submission, of=source)


async def _sealed(seals: Seals, submission: Submission, of: str | None = None) -> Submission:
    envelope = submission.envelope
    if envelope.is_elsewhere:
        return submission
    payload = await seals.seal(about_payload(envelope), envelope.payload, of=of)
    closed = envelope.model_copy(update={"payload": None, "sealed": payload})
    body = reserved_as(message_of(closed).body, submission.message.body)
    message = replace(submission.message, body=body)
    sealed_one = replace(submission, envelope=closed, message=message)
    if sealed_one.due is not None:  # a ciphertext is larger than what `prepare` has checked
        check_input(f"the delayed job of {envelope.type!r}", sealed_one.delayed().to_input())
    return sealed_one
