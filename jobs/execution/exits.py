"""Runs of an event loop that no task beside them ends by ``sys.exit``.

asyncio raises a task's `SystemExit` out of its event loop, and not only where the task is awaited.
So a handler that calls a command's ``main()`` in a task group would end its whole process, with the
jobs that run beside it, and with exit code 0 at that. The handler gets the error in any case.
https://docs.python.org/3/library/asyncio-task.html#task-groups
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from headgate.jobs.values.own_log import OwnLog

T = TypeVar("T")

_log = OwnLog("headgate.worker")


def run_through(runner: asyncio.Runner, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and log the exits that other tasks ask for meanwhile.

    Raises:
        BaseException: the coroutine raised it, a `SystemExit` too.
    """
    begun: list[asyncio.Task[T]] = []
    try:
        return runner.run(_noted(work, begun))
    except SystemExit as error:
        if not begun or begun[0].done():
            raise
        _tell(error)
    return _resumed(runner, begun[0])


async def _noted(work: Coroutine[Any, Any, T], begun: list[asyncio.Task[T]]) -> T:
    if (task := asyncio.current_task()) is not None:
        begun.append(task)
    return await work


def _resumed(runner: asyncio.Runner, task: asyncio.Task[T]) -> T:
    """Let the event loop go on until a task has ended, as often as it takes."""
    while not task.done():
        try:
            runner.run(_end_of(task))
        except SystemExit as error:
            if not task.done():
                _tell(error)
    return task.result()


async def _end_of(task: asyncio.Task[Any]) -> None:
    """Wait for a task; Ctrl-C, for which the runner cancels this, cancels it first."""
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise


def _tell(error: SystemExit) -> None:
    _log.error("sys.exit(%s) in a task beside the main one fails what awaits that task", error.code)
