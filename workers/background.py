"""Background tasks, and work that has to be completed although its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeVar

from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.values.own_log import OwnLog

T = TypeVar("T")

_KEYS_S = 1.0
"""Interval at which a worker looks whether the keys have to be read, in seconds."""

_log = OwnLog("headgate.worker")


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None], *, name: str) -> AsyncIterator[None]:
    """Run ``work`` while the block runs, and cancel it at the end.

    Args:
        work: a coroutine that runs until it is cancelled.
        name: its name in the log, should it fail.
    """
    task = asyncio.create_task(work, name=f"headgate-{name.replace(' ', '-')}")

    def tell(ended: asyncio.Task[None]) -> None:
        if not ended.cancelled() and (error := ended.exception()) is not None:
            _log.error("%s failed; continuing without it", name, exc_info=error)

    task.add_done_callback(tell)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def seen_through(work: asyncio.Task[T] | Coroutine[Any, Any, T]) -> T:
    """Await work to its end, and only then re-raise a cancellation that came meanwhile.

    For work that must not be left half done, such as killing and reaping a process. The work has to
    bound its own duration.

    Raises:
        asyncio.CancelledError: the caller was cancelled; the work has ended by now.
        BaseException: the work raised it.
    """
    task = asyncio.ensure_future(work)
    cut: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cut = error
    if cut is not None:
        raise cut
    return task.result()


async def refreshed(keyring: Keyring) -> NoReturn:
    """Read the keys that sign messages whenever that is due, until cancelled."""
    while True:
        await keyring.refresh()
        await asyncio.sleep(_KEYS_S)
