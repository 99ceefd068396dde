"""Reads payloads that are large, or in the object store, in a thread before their jobs start."""

from __future__ import annotations

from functools import partial
from typing import cast

from headgate.jobs.core.ports import AsyncObjectStore
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.calling.call import CallBlocking
from headgate.jobs.execution.delivery import Job, validated, with_payload
from headgate.jobs.execution.outcome import Deferred
from headgate.jobs.messages.envelope import PayloadRef
from headgate.jobs.messages.large_payloads import check_reference, max_packed, unpacked
from headgate.jobs.retry.backoff import Backoff, job_rng

_BACKOFF = Backoff.exponential(base=5, cap=900, jitter="equal")
"""Backoff of a job whose payload could not be fetched: long enough that SQS's limit on deliveries
comes near only after about an hour."""

_STEPS = 10  # by then the backoff has long reached its cap


async def fetched(job: Job, store: AsyncObjectStore | None, call_blocking: CallBlocking) -> Job:
    """Return the job with its payload, read from ``store`` if it is there.

    Unpacking and validation run off the event loop.

    Raises:
        PayloadLost: the object doesn't exist, is damaged, or can't be this job's payload.
        PayloadInvalid: the payload doesn't fit the type's model.
        TransportError: the store could not be reached, or refused, or this host has none.
    """
    ref = job.envelope.payload_ref
    if ref is None:
        return cast("Job", await call_blocking(partial(validated, job)))
    check_reference(ref, job.envelope.id)
    if store is None:
        raise TransportError("this worker was given no object store to read large payloads from")
    content = await store.get(ref.key, max_bytes=max_packed(ref))
    return cast("Job", await call_blocking(partial(_opened, job, ref, content)))


def _opened(job: Job, ref: PayloadRef, content: bytes | None) -> Job:
    return with_payload(job, unpacked(ref, content))


def deferred(job: Job, error: TransportError) -> Deferred:
    """Return the outcome of a job whose payload could not be fetched: a delayed redelivery."""
    after_s = _BACKOFF.delay_s(min(job.attempt.receives, _STEPS), job_rng(job.attempt.job_id))
    return Deferred(after_s=after_s, reason=f"its payload could not be read: {error}")
