"""Errors of calls whose jobs were not all taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from headgate.jobs.core.batching import EntryRejected, HeldBack, held_back_by
from headgate.jobs.core.ports.transport import EntryFailure
from headgate.jobs.errors import HeadgateError, PartlySubmitted, Refusal, TransportError
from headgate.jobs.submission.prepare import Submission

Result = HeadgateError | Refusal | None
"""The result of one submission: the error that refused it, or None if it was taken."""


def raise_refused(submissions: Sequence[Submission], results: Sequence[Result]) -> None:
    """Raise the error of a call from the results of its submissions, if any was refused.

    Raises:
        TransportError: a single error kept all of them from being sent.
        HeadgateError: the only one's own error, such as `InlineFailed`.
        PartlySubmitted: SQS refused some of several individually, or failed after it had taken
            others.
    """
    refused = [index for index, error in enumerate(results) if error is not None]
    if not refused:
        return
    first = results[refused[0]]
    cause = first if isinstance(first, HeadgateError) else None
    alone = len(results) == 1
    if alone and isinstance(first, EntryRejected):
        only = submissions[0]
        raise EntryRejected(first.failure, entry=f"the job {only.id} for {only.queue.name}")
    if cause is not None and len(refused) == len(results) and (is_shared(first) or alone):
        raise cause
    raise PartlySubmitted(
        [_refusal(index, submissions[index].id, results[index]) for index in refused],
        submitted=len(submissions),
        sent=[
            each.duplicate_of or each.id
            for each, error in zip(submissions, results, strict=True)
            if error is None
        ],
    ) from cause


def is_shared(error: Result) -> TypeGuard[TransportError]:
    """Return True for the error of a whole request, which the next one would meet as well."""
    return isinstance(error, TransportError) and not isinstance(error, EntryRejected | HeldBack)


def behind(first: Result) -> Result:
    """Return the result of a job that is not sent since one before it in its group was refused."""
    if isinstance(first, Refusal) and first.code != HeldBack.__name__:
        failure = EntryFailure(
            index=0, code=first.code, message=first.message, sender_fault=first.sender_fault
        )
        return HeldBack(EntryRejected(failure))
    return held_back_by(first) if isinstance(first, TransportError) else first


def _refusal(index: int, job_id: str, error: Result) -> Refusal:
    if isinstance(error, Refusal):
        return replace(error, index=index, id=job_id)
    if isinstance(error, EntryRejected):
        code, sender_fault = error.failure.code, error.failure.sender_fault
        return Refusal(
            index=index,
            id=job_id,
            code=code,
            message=error.failure.message,
            sender_fault=sender_fault,
        )
    return Refusal(
        index=index,
        id=job_id,
        code=type(error).__name__,
        message=str(error),
        sender_fault=not (isinstance(error, TransportError) and error.transient),
    )
