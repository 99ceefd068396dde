"""Submission of several types' jobs in one call, split by queue and by way of sending."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from headgate.jobs.definitions.job_type import JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.errors import (
    InlineFailed,
    OptionInvalid,
    PartlySubmitted,
    TransportError,
    UnknownJobType,
)
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.submission.refused import Result, raise_refused

Deliver = Callable[[Sequence[Submission]], Awaitable[Sequence[Submission]]]
"""Sends jobs that go the same way, and returns the resulting submissions; raises the errors of
submitting."""


def listed(jobs: Iterable[Any], overrides: SubmitOptions) -> list[NewJob[Any]]:
    """Return the jobs of a call that names no type.

    Raises:
        OptionInvalid: the call has options, or a type without payloads.
        UnknownJobType: an item of the list is not a `NewJob`.
    """
    if overrides or isinstance(jobs, JobType | NewJob):
        raise OptionInvalid(
            "submit_many takes a type with its payloads and options, or a list of jobs, each with "
            "its own: submit_many(greet, [a, b], tenant=...) or submit_many([greet.new(a)])"
        )
    found = [*jobs]
    for each in found:
        if not isinstance(each, NewJob):
            raise UnknownJobType(
                f"{each!r} is not a job: a list without its type holds what .new(...) of a type "
                "returns, as in submit_many([greet.new(payload)])"
            )
    return found


async def deliver_mixed(
    submissions: Sequence[Submission], deliver: Deliver
) -> Sequence[Submission]:
    """Send the jobs of one call, part by part, each in its order.

    The parts after one that fails are still sent.

    Raises:
        TransportError: SQS could not be reached, or refused; it took none.
        PartlySubmitted: it took only some; the error lists both.
    """
    became = [*submissions]
    results: list[Result] = [None] * len(submissions)
    for part in _parts(submissions):
        try:
            for at, each in zip(part, await deliver([became[at] for at in part]), strict=True):
                became[at] = each
        except (TransportError, PartlySubmitted, InlineFailed) as error:
            for at, result in zip(part, _results(len(part), error), strict=True):
                results[at] = result
    raise_refused(became, results)
    return became


def _parts(submissions: Sequence[Submission]) -> Sequence[Sequence[int]]:
    """Group the positions of submissions that go the same way, ordered by the first of each."""
    parts: dict[object, list[int]] = {}
    for at, each in enumerate(submissions):
        way = each.queue.name, each.unique is not None, each.due is not None
        parts.setdefault(way, []).append(at)
    return list(parts.values())


def _results(
    count: int, error: TransportError | PartlySubmitted | InlineFailed
) -> Sequence[Result]:
    if not isinstance(error, PartlySubmitted):
        return [error] * count
    refused = {refusal.index: refusal for refusal in error.refusals}
    return [refused.get(at) for at in range(count)]
