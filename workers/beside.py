"""Tasks that stand beside the work: when one fails, that is told, and the work goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

_log = logging.getLogger("headgate.worker")


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None], *, name: str) -> AsyncIterator[None]:
    """Run ``work`` while the block runs, and cancel it at the end.

    Args:
        work: goes on until it is cancelled.
        name: says in the log what has failed.
    """
    task = asyncio.create_task(work, name=f"headgate-{name.replace(' ', '-')}")

    def tell(ended: asyncio.Task[None]) -> None:
        if not ended.cancelled() and (error := ended.exception()) is not None:
            _log.error("%s failed, and is done without", name, exc_info=error)

    task.add_done_callback(tell)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
