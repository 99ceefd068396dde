"""Claims of uniqueness keys, as a job's runner reads and ends them.

`jobs.client.submitting.unique` writes them. If the table doesn't answer the job is treated as if it
were not unique: nothing is lost for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from headgate.jobs.core.events import ClaimFailed, ItemsSkipped
from headgate.jobs.errors import TransportError
from headgate.jobs.execution import job_events
from headgate.jobs.execution.calling.claims import answered
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery, Job
from headgate.jobs.execution.outcome import DropKind, Dropped
from headgate.jobs.submission.unique_keys import place
from headgate.jobs.values.stored import text

_LONGEST_ID = 64


async def replaced_by(means: Means, job: Job, delivery: Delivery) -> Dropped | None:
    """Return the outcome of a job that a later one has replaced; None of any other.

    `jobs.client.submitting.unique` replaces jobs. This costs a read for every job that can be
    replaced. If the table doesn't answer the job runs: it may have been replaced, but it must not
    be lost.
    """
    by = job.envelope.options.unique if job.envelope.options else None
    if by is None or by.mode != "replace" or means.claims is None:
        return None
    where, job_id = place(by), job.attempt.job_id
    try:
        standing = await answered(means.claims.table.get(where.pk, where.sk))
    except TransportError as error:
        _tell_failed(means, job, delivery, "look", error)
        return None
    if standing is None:
        return None
    if (later := text(standing.data.get("job"), _LONGEST_ID)) is None:
        told = ItemsSkipped(at=means.clock.now(), kind="unique key", items=1, job_id=job_id)
        means.events.emit(told)
        return None
    if later <= job_id:
        return None
    return Dropped(kind=DropKind.REPLACED, reason=f"replaced by the job {later}")


async def drop(
    means: Means, job: Job, delivery: Delivery, outcome: Dropped, names: dict[str, Any]
) -> None:
    """Emit the event of a job that ends unrun. The key of one that has expired is free again."""
    means.events.emit(job_events.dropped(names, outcome, means.clock.now()))
    if outcome.kind is DropKind.EXPIRED:
        await _end_claim(means, job, delivery)


async def _end_claim(means: Means, job: Job, delivery: Delivery) -> None:
    """Release a job's uniqueness key for the next submission, unless another job has it."""
    by = job.envelope.options.unique if job.envelope.options else None
    if by is None or by.mode != "first" or means.claims is None:
        return  # with the last one's key gone, an earlier job could run after all
    table, where = means.claims.table, place(by)
    try:
        standing = await answered(table.get(where.pk, where.sk))
        if standing is not None and standing.data.get("job") == job.attempt.job_id:
            ended = replace(standing, version=standing.version + 1, expires_at=means.clock.now())
            await answered(table.replace(ended))
    except TransportError as error:
        _tell_failed(means, job, delivery, "release", error)


def _tell_failed(
    means: Means,
    job: Job,
    delivery: Delivery,
    action: Literal["look", "release"],
    error: TransportError,
) -> None:
    means.events.emit(
        ClaimFailed(
            at=means.clock.now(),
            queue=delivery.queue.name,
            action=action,
            job_id=job.attempt.job_id,
            error=str(error),
        )
    )
