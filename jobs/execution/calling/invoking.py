"""Calling a handler in the event loop or in a thread, within its timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from headgate.jobs.errors import JobTimeout
from headgate.jobs.execution.calling.time_limits import TimeLimit
from headgate.jobs.execution.delivery import Job

CallBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a synchronous function off the event loop; returns its result or raises its error."""


async def in_loop(job: Job, called: Awaitable[Any], limit: TimeLimit) -> Any:
    """Await an async handler that has been called.

    Raises:
        JobTimeout: its time is up.
        BaseException: what it raises.
    """
    try:
        with limit:
            return await called
    except TimeoutError as error:
        if limit.expired:
            raise JobTimeout(job.type.name, job.timeout_s) from error
        raise


async def in_thread(
    call_blocking: CallBlocking,
    call: Callable[[], Any],
    ends_at: float,
    overrun: Callable[[], None],
) -> Any:
    """Call a synchronous handler in a thread.

    A thread can't be stopped. Settling the job while its thread still runs would run it twice, so
    an overrun is reported and its late result counts.

    Args:
        call_blocking: runs it in a thread.
        call: calls it.
        ends_at: the end of its time, of the event loop's clock.
        overrun: called then, if it still runs.

    Raises:
        BaseException: what it raises.
    """
    overruns = asyncio.get_running_loop().call_at(ends_at, overrun)
    ended: Future[Any] = Future()
    try:
        return await call_blocking(partial(_call_into, ended, call))
    except asyncio.CancelledError:
        if ended.done():  # the thread has finished; the loop was not notified yet
            return ended.result()
        raise
    finally:
        overruns.cancel()


def _call_into(ended: Future[Any], call: Callable[[], Any]) -> Any:
    """Call a function, and store its result or error in a future as soon as it ends."""
    try:
        ended.set_result(call())
    except BaseException as error:  # noqa: BLE001 - handed on below
        ended.set_exception(error)
    return ended.result()
