"""Submission of several types' jobs in one call, split by queue and by way of sending."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from headgate.jobs.definitions.job_type import JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.errors import (
    HeadgateError,
    InlineFailed,
    OptionInvalid,
    PartlySubmitted,
    PayloadTooLarge,
    Refusal,
    TransportError,
    UnknownJobType,
)
from headgate.jobs.messages.outgoing import lane_of
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.submission.refused import Result, behind, raise_refused

Deliver = Callable[[Sequence[Submission]], Awaitable[Sequence[Submission]]]
"""Sends jobs that go the same way, and returns the resulting submissions; raises the errors of
submitting."""

Lane: TypeAlias = tuple[str, str]
"""A FIFO queue, and a group of it."""


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

    The parts after one that fails are still sent, but for jobs that would overtake one of their
    FIFO group.

    Raises:
        TransportError: SQS could not be reached, or refused; it took none.
        PayloadTooLarge: a payload of the first part is too large once it is sealed.
        PartlySubmitted: it took only some; the error lists both.
    """
    became = [*submissions]
    results: list[Result] = [None] * len(submissions)
    lost: dict[Lane, Result] = {}
    for number, part in enumerate(_parts(submissions)):
        going = _not_behind(lost, part, submissions, results)
        try:
            for at, each in zip(going, await deliver([became[at] for at in going]), strict=True):
                became[at] = each
        except (TransportError, PartlySubmitted, InlineFailed, PayloadTooLarge) as error:
            if isinstance(error, PayloadTooLarge) and not number:
                raise  # nothing was sent
            for at, result in zip(going, _results(len(going), error), strict=True):
                results[at] = result
                if (lane := _lane(submissions[at])) is not None and _was_to_be_sent(result):
                    lost.setdefault(lane, result)
    raise_refused(became, results)
    return became


def _parts(submissions: Sequence[Submission]) -> Sequence[Sequence[int]]:
    """Group the positions of submissions that go the same way, ordered by the first of each.

    A way has a further part where a job would overtake one of its FIFO group in the part before.
    """
    parts: list[list[int]] = []
    latest: dict[object, int] = {}
    """The number of the latest part, by way, and by FIFO group."""
    for at, each in enumerate(submissions):
        way, lane = (each.queue.name, each.unique is not None, each.due is not None), _lane(each)
        number = latest.get(way)
        if number is None or (lane is not None and number < latest.get(lane, 0)):
            number = latest[way] = len(parts)
            parts.append([])
        parts[number].append(at)
        if lane is not None:
            latest[lane] = number
    return parts


def _lane(submission: Submission) -> Lane | None:
    """Return the queue and the FIFO group within which a job keeps its order, if it does."""
    lane = lane_of(submission.message)
    return None if lane is None or submission.due is not None else (submission.queue.name, lane)


def _not_behind(
    lost: Mapping[Lane, Result],
    part: Sequence[int],
    submissions: Sequence[Submission],
    results: list[Result],
) -> Sequence[int]:
    """Return the positions of a part whose jobs overtake none that was lost; the others fail."""
    going = []
    for at in part:
        if (first := lost.get(_lane(submissions[at]) or ("", ""))) is None:
            going.append(at)
        else:
            results[at] = behind(first)
    return going


def _was_to_be_sent(result: Result) -> bool:
    """Return True for the failure of a job that SQS was to take: one that ran in place has no order
    relative to others."""
    code = result.code if isinstance(result, Refusal) else type(result).__name__
    return result is not None and code != InlineFailed.__name__


def _results(count: int, error: HeadgateError) -> Sequence[Result]:
    if not isinstance(error, PartlySubmitted):
        return [error] * count
    refused = {refusal.index: refusal for refusal in error.refusals}
    return [refused.get(at) for at in range(count)]
