"""Results that are too large for a record: in the app's bucket, and their address in the record."""

from __future__ import annotations

import asyncio
from typing import Any

from jobs.errors import PayloadTooLarge, ResultNotKept, TransportError
from jobs.offloading import parcel
from jobs.ports import ObjectStore
from jobs.returns import MAX_RESULT_BYTES
from jobs.topology import RESULTS


def result_key(job_id: str) -> str:
    """Where the result of a job stands; it expires as payloads do."""
    return f"{RESULTS}{job_id}"


async def put_result(
    store: ObjectStore | None, job_id: str, value: Any, size: int
) -> dict[str, Any]:
    """Keep a large result; returns what its record says in its place.

    Raises:
        ResultNotKept: there is no store, it can't be asked, or the result is too large for it too.
    """
    if store is None:
        raise ResultNotKept(
            f"the result has {size:,} bytes as JSON and is not kept: a record holds "
            f"{MAX_RESULT_BYTES:,}, and there is no bucket for more here: give store="
        )
    try:
        kept = parcel(result_key(job_id), value)
        content = await asyncio.to_thread(kept.packed)  # 20 ms a MiB, which others must not wait
        await store.put(kept.ref.key, content)
    except (PayloadTooLarge, TransportError) as error:
        raise ResultNotKept(f"the result of {size:,} bytes as JSON is not kept: {error}") from error
    return {"result_ref": kept.ref.model_dump()}
