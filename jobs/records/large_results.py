"""Results that take a request before they can be recorded: to be sealed, or stored elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from headgate.jobs.core.concurrency import UnderWay
from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.errors import PayloadTooLarge, ResultNotKept, TransportError
from headgate.jobs.messages.envelope import PayloadRef
from headgate.jobs.messages.large_payloads import parcel
from headgate.jobs.messages.sealing import About, Seals
from headgate.jobs.records.result_keys import result_key
from headgate.jobs.records.results import MAX_RESULT_BYTES
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import text_of

ROOM_BYTES = 32 * 2**20
"""Approximate limit on the bytes under way; a larger result travels alone."""

_LEAST = 1_024
"""Bytes that the smallest result counts as while it is under way."""

_PUT_S = 30.0
"""Seconds that the store has for each result."""

_log = OwnLog("headgate.worker")

Kept = Callable[[dict[str, Any] | ResultNotKept], None]
"""Called once, with the record's fields that stand for the result, or why it is not kept."""


async def put_result(
    store: AsyncObjectStore | None,
    job_id: str,
    job_type: str,
    value: Any,
    size: int,
    *,
    seals: Seals | None = None,
) -> dict[str, Any]:
    """Seal a result, store a large one, and return the record's fields that stand for it.

    Raises:
        ResultNotKept: there is no store, it or KMS can't be asked, or the result is too large for
            it too.
    """
    if seals is None:
        return await _put(store, job_id, job_type, value, size)
    try:
        async with asyncio.timeout(_PUT_S):
            about = About(kind="result", type=job_type, of=job_id)
            sealed = await seals.seal(about, value)
    except TimeoutError as error:
        raise _not_kept(size, f"KMS has not answered within {_PUT_S:g} s") from error
    except (PayloadTooLarge, TransportError) as error:
        raise _not_kept(size, f"it could not be sealed: {error}") from error
    text = sealed.text or ""
    if len(text) <= MAX_RESULT_BYTES:
        return {"result_sealed": sealed.model_dump(exclude_none=True)}
    stored = await _put(store, job_id, job_type, text, size)
    return stored | {"result_sealed": sealed.model_dump(exclude_none=True, exclude={"text"})}


async def _put(
    store: AsyncObjectStore | None, job_id: str, job_type: str, value: Any, size: int
) -> dict[str, Any]:
    if store is None:
        raise ResultNotKept(
            f"the result has {size:,} bytes as JSON and is not kept: a record holds "
            f"{MAX_RESULT_BYTES:,}, and there is no bucket for more here: give store="
        )
    try:
        ref, content = await asyncio.to_thread(_packed, result_key(job_id, job_type), value)
        async with asyncio.timeout(_PUT_S):
            await store.put(ref.key, content)
    except TimeoutError as error:
        raise _not_kept(size, f"the store has not answered within {_PUT_S:g} s") from error
    except (PayloadTooLarge, TransportError) as error:
        raise _not_kept(size, str(error)) from error
    return {"result_ref": ref.model_dump()}


def _packed(key: str, value: Any) -> tuple[PayloadRef, bytes]:
    """Return an object's address and content; takes 20 ms per MiB, too long for the event loop."""
    kept = parcel(key, value)
    return kept.ref, kept.packed()


class LargeResults:
    """Results being sealed or stored, beside the jobs, within the bound of `ROOM_BYTES`.

    Args:
        store: the store for large results; without it none is kept.
        seals: seals the results; None keeps them as they are.
    """

    def __init__(self, store: AsyncObjectStore | None, seals: Seals | None = None) -> None:
        self._store = store
        self._seals = seals
        self._bytes = 0
        self._under_way = UnderWay[dict[str, Any]]()

    def put(self, job_id: str, job_type: str, value: Any, size: int, kept: Kept) -> None:
        """Start to store a result of ``size`` bytes; ``kept`` is called with the outcome."""
        size = max(size, _LEAST)
        if self._under_way and self._bytes + size > ROOM_BYTES:
            kept(_not_kept(size, "too many others are on their way to the store"))
            return
        self._bytes += size
        putting = asyncio.create_task(
            put_result(self._store, job_id, job_type, value, size, seals=self._seals),
            name="headgate-result",
        )
        self._under_way.add(putting)
        putting.add_done_callback(partial(self._ended, size, kept))

    async def flush(self) -> None:
        """Return when nothing is under way; if cancelled, what is under way goes on."""
        await self._under_way.flush()

    async def close(self) -> None:
        """Wait for what is under way for a bounded time; what is left then is not kept."""
        await self._under_way.close()

    def _ended(self, size: int, kept: Kept, putting: asyncio.Task[dict[str, Any]]) -> None:
        self._bytes -= size
        if putting.cancelled():
            kept(_not_kept(size, "its worker has ended before the store took it"))
        elif (error := putting.exception()) is None:
            kept(putting.result())
        elif isinstance(error, ResultNotKept):
            kept(error)
        else:
            _log.error("unexpected error while storing a result", exc_info=error)  # a fault of ours
            kept(_not_kept(size, text_of(error)))


def _not_kept(size: int, why: str) -> ResultNotKept:
    return ResultNotKept(f"the result of {size:,} bytes as JSON is not kept: {why}")
