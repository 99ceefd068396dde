"""Submissions that one-time schedules hold until they are due."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.errors import TransportError
from headgate.jobs.schedules.delayed_jobs import DelayedJobs
from headgate.jobs.submission.prepare import Submission

_AT_ONCE = 10
"""Concurrent requests of one submission of many jobs."""


async def hold_all(
    delayed: DelayedJobs, submissions: Sequence[Submission], concurrency: Parallelism
) -> Sequence[TransportError | None]:
    """Hold jobs, several at once; return each one's error, or None."""
    return await concurrency.each(partial(_held, delayed), submissions, at_once=_AT_ONCE)


async def hold_in_turn(
    delayed: DelayedJobs, submissions: Sequence[Submission]
) -> Sequence[TransportError | None]:
    """Hold jobs one after the other, up to the first error, which then is that of the rest too."""
    results: list[TransportError | None] = []
    for submission in submissions:
        if (error := await _held(delayed, submission)) is not None:
            return [*results, *[error] * (len(submissions) - len(results))]
        results.append(None)
    return results


async def _held(delayed: DelayedJobs, submission: Submission) -> TransportError | None:
    try:
        await delayed.hold(submission.delayed())
    except TransportError as error:
        return error
    return None
