"""A payload that is large, or in the object store, is read before its job starts, in a thread."""

from __future__ import annotations

from functools import partial
from typing import cast

from headgate.jobs.core.ports import ObjectStore
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.call import CallBlocking
from headgate.jobs.execution.delivery import Job, validated, with_payload
from headgate.jobs.execution.outcome import Deferred
from headgate.jobs.messages.envelope import PayloadRef
from headgate.jobs.messages.large_payloads import check_address, unpacked
from headgate.jobs.retry.backoff import Backoff, job_rng

_BACKOFF = Backoff.exponential(base=5, cap=900, jitter="equal")
"""How long a job is given back for when its payload could not be asked for: after an hour or so
SQS's limit on deliveries is near."""

_STEPS = 10  # after which the backoff has long reached its cap


async def fetched(job: Job, store: ObjectStore | None, call_blocking: CallBlocking) -> Job:
    """The job with its payload, read from ``store`` if it is there.

    Unpacking and validating are done off the event loop.

    Raises:
        PayloadLost: there is no such object, it is damaged, or it can be no payload.
        PayloadInvalid: the payload doesn't fit the type's model.
        TransportError: the store could not be asked, or refused, or this host has none.
    """
    ref = job.envelope.payload_ref
    if ref is None:
        return cast("Job", await call_blocking(partial(validated, job)))
    check_address(ref)
    if store is None:
        raise TransportError("this worker was given no object store to read large payloads from")
    content = await store.get(ref.key)
    return cast("Job", await call_blocking(partial(_opened, job, ref, content)))


def _opened(job: Job, ref: PayloadRef, content: bytes | None) -> Job:
    return with_payload(job, unpacked(ref, content))


def deferred(job: Job, error: TransportError) -> Deferred:
    """What becomes of a job whose payload could not be asked for: it is given back for a while."""
    after_s = _BACKOFF.delay_s(min(job.attempt.receives, _STEPS), job_rng(job.attempt.job_id))
    return Deferred(after_s=after_s, reason=f"its payload could not be read: {error}")
