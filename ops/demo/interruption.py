"""Runs that a signal ends in order, and their exit codes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from rich.console import Console

from headgate.workers.process.exit_codes import EXIT_INTERRUPTED
from headgate.workers.shutdown import on_signals

EXIT_OK = 0
EXIT_FAILED = 1

_REMOVED = "interrupted: everything has been stopped and removed"


def interruptible(
    run: Coroutine[None, None, int], console: Console, *, said: str = _REMOVED
) -> int:
    """Run a coroutine in an event loop of its own, which the first signal cancels.

    Args:
        run: the coroutine.
        console: the console to print on.
        said: printed at the end if a signal came first.

    Returns:
        Its result, or 130 if a signal came first.
    """
    return asyncio.run(_interruptible(run, console, said))


async def _interruptible(run: Coroutine[None, None, int], console: Console, said: str) -> int:
    running = asyncio.create_task(run, name="demo")

    def cancel() -> None:
        running.cancel()

    # All work after the first signal is bounded, so a second one changes nothing.
    with on_signals(cancel, lambda: None):
        await asyncio.wait({running})
    if running.cancelled():
        console.print(said)
        return EXIT_INTERRUPTED
    return running.result()
