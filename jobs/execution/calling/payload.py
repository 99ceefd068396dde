"""Reads payloads that are large, sealed, or in the object store, before their jobs start."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.calling.invoking import CallBlocking
from headgate.jobs.execution.delivery import LARGE, Job, validated, with_payload
from headgate.jobs.execution.outcome import Deferred
from headgate.jobs.messages.envelope import PayloadRef
from headgate.jobs.messages.large_payloads import check_reference, max_packed, unpacked
from headgate.jobs.messages.sealing import Seals, opened_payload
from headgate.jobs.retry.backoff import Backoff, job_rng

_BACKOFF = Backoff.exponential(base=5, cap=900, jitter="equal")
"""Backoff of a job whose payload could not be fetched: long enough that SQS's limit on deliveries
comes near only after about an hour."""

_STEPS = 10  # by then the backoff has long reached its cap


async def fetched(
    job: Job, store: AsyncObjectStore | None, call_blocking: CallBlocking, seals: Seals | None
) -> Job:
    """Return the job with its payload, read from ``store`` if it is there, and opened by ``seals``.

    A large one is unpacked, opened and validated off the event loop.

    Raises:
        PayloadLost: the object doesn't exist, is damaged, or can't be this job's payload.
        PayloadUnopenable: it is sealed, and nothing here will ever open it.
        PayloadInvalid: the payload doesn't fit the type's model.
        TransportError: the store or KMS could not be reached, or refused, or this host has no
            store.
    """
    envelope = job.envelope
    if not envelope.is_elsewhere:
        return cast("Job", await call_blocking(partial(validated, job)))
    value = None
    if (ref := envelope.payload_ref) is not None:
        check_reference(ref, envelope.id)
        value = await _stored(ref, store, call_blocking)
    if envelope.sealed is not None:
        value = await opened_payload(seals, envelope, value)
        if len(envelope.sealed.text or "") < LARGE and envelope.payload_ref is None:
            return with_payload(job, value)  # a moment's work
    return cast("Job", await call_blocking(partial(with_payload, job, value)))


async def _stored(
    ref: PayloadRef, store: AsyncObjectStore | None, call_blocking: CallBlocking
) -> Any:
    """Return the JSON value of an object."""
    if store is None:
        raise TransportError("this worker was given no object store to read large payloads from")
    content = await store.get(ref.key, max_bytes=max_packed(ref))
    return await call_blocking(partial(unpacked, ref, content))


def deferred(job: Job, error: TransportError) -> Deferred:
    """Return the outcome of a job whose payload could not be fetched: a delayed redelivery."""
    after_s = _BACKOFF.delay_s(min(job.attempt.receives, _STEPS), job_rng(job.attempt.job_id))
    return Deferred(after_s=after_s, reason=f"its payload could not be read: {error}")
