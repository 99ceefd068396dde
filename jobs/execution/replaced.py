"""A job that a later one has replaced: looked for when it would start."""

from __future__ import annotations

from headgate.jobs.core.events import ClaimFailed, JobDeduplicated
from headgate.jobs.definitions.uniqueness import place
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.call import Means
from headgate.jobs.execution.claims import answered
from headgate.jobs.execution.delivery import Delivery, Job


async def replaced_by(means: Means, job: Job, delivery: Delivery) -> str | None:
    """The id of the job that has replaced this one, if any; see `jobs.client.unique`.

    A job that can be replaced costs a read. Without an answer it is run: it may have been replaced,
    but it must not be lost.
    """
    by = job.envelope.options.unique if job.envelope.options else None
    if by is None or by.mode != "replace" or means.claims is None:
        return None
    where, job_id = place(by), job.attempt.job_id
    try:
        standing = await answered(means.claims.table.get(where.pk, where.sk))
    except TransportError as error:
        means.events.emit(
            ClaimFailed(
                at=means.clock.now(),
                queue=delivery.queue.name,
                action="look",
                job_id=job_id,
                error=str(error),
            )
        )
        return None
    if standing is None or standing.data["job"] <= job_id:
        return None
    later: str = standing.data["job"]
    means.events.emit(
        JobDeduplicated(
            at=means.clock.now(),
            job_id=job_id,
            job_type=job.type.name,
            queue=delivery.queue.group,
            priority=delivery.queue.priority,
            tenant=job.envelope.tenant,
            kept=later,
        )
    )
    return later
