"""Failures of attempts, as custom backoffs see them."""

from __future__ import annotations

from headgate.jobs.execution.delivery import Delivery, Job
from headgate.jobs.execution.outcome import Attempt, Crashed, Failed, Outcome
from headgate.jobs.retry.backoff_context import BackoffContext


def failure_of(job: Job, outcome: Outcome, attempt: Attempt) -> BackoffContext | None:
    """Return the failure that an outcome is; None if it is none."""
    if not isinstance(outcome, Failed | Crashed):
        return None
    tenant = job.envelope.tenant
    return BackoffContext(
        attempt=attempt.number,
        max_attempts=attempt.max_attempts,
        error=outcome.error if isinstance(outcome, Failed) else None,
        id=attempt.job_id,
        type=job.type.name,
        queue=job.envelope.queue,
        tenant=tenant.org if tenant is not None else None,
        payload=job.payload,
    )


def unrunnable_failure(delivery: Delivery, attempt: Attempt, job_type: str) -> BackoffContext:
    """Return the failure of a message to become a job of the type that it names."""
    return BackoffContext(
        attempt=attempt.number,
        max_attempts=attempt.max_attempts,
        id=attempt.job_id,
        type=job_type,
        queue=delivery.queue.group,
    )
