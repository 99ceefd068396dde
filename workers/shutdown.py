"""Shutdown of a worker: its signals, and its steps in order.

Fetching and working have separate lifetimes. First receives stop, and waiting messages go back;
then running jobs may finish; then they are interrupted, and their messages become visible again
immediately; then settlements are flushed. Every step is bounded.

`workers.process.starting` ends a process that gets a signal during its imports;
`workers.process.entry` connects the signals from then on, and `workers.worker` calls `drain`. The
first step is `Parts.close`, and the last is `Parts.flush`, after `drain`: hooks have ended, records
are written, leases given back and the client is closed. `workers.lifespan` ends the opening of
resources before all this, and bounds their closing after it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headgate.jobs.values.light_dataclass import light_dataclass

if TYPE_CHECKING:  # a supervisor needs the signals alone
    from headgate.workers.running.runner import Running
    from headgate.workers.running.settler import HoldSettler

SIGNALS = (signal.SIGTERM, signal.SIGINT)

CLEAN_UP_S = 2.0
"""Time for interrupted handlers to clean up."""

_HURRIED_CLEAN_UP_S = 0.1
"""The same in a hurry."""

FLUSH_S = 3.0
"""Time for the last settlements."""

_WHY = "the worker is stopping"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The unfinished work that a worker left when it stopped."""

    interrupted: tuple[str, ...] = ()
    """Ids of jobs that did not finish within the bound; they run again."""
    abandoned: tuple[str, ...] = ()
    """Ids of jobs whose handlers did not react to the interruption."""
    unsettled: int = 0
    """Number of messages whose settlement was not confirmed; they may be delivered again."""
    polls_cut: int = 0
    """Number of receives that did not return in time; their messages stay hidden for a while."""
    left_open: tuple[str, ...] = ()
    """The step of a resource that ignores its cancellation: its opening or its closing."""
    left_running: tuple[str, ...] = ()
    """Names of the functions that async handlers, which have ended, called in threads of the event
    loop, and that still run."""

    @property
    def clean(self) -> bool:
        """True if nothing was cut short."""
        return self == Report()


@contextmanager
def on_signals(first: Callable[[], None], again: Callable[[], None]) -> Iterator[None]:
    """Call ``first`` at the first SIGTERM or SIGINT, and ``again`` at every later one."""
    loop = asyncio.get_running_loop()
    calls = iter((first,))

    def handle() -> None:
        next(calls, again)()

    for number in SIGNALS:
        loop.add_signal_handler(number, handle)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def drain(
    running: Running,
    settler: HoldSettler,
    polls: set[asyncio.Task[None]],
    *,
    bound_s: float,
    hurry: asyncio.Event,
) -> Report:
    """Shut down in order. No more receives may be started by now.

    Args:
        running: the running jobs; its waiting messages are given back first.
        settler: the settler, which is flushed last.
        polls: the receives under way; they are awaited until interrupted jobs have cleaned up,
            since a cancelled one may have taken messages that then stay hidden.
        bound_s: how long running jobs may continue.
        hurry: ends that time, and that of the clean-up, at once when set.
    """
    running.close()
    finishing = asyncio.create_task(_finish(running, polls), name="headgate-finish")
    hurried = asyncio.create_task(hurry.wait(), name="headgate-hurry")
    await _unless_hurried(finishing, hurried, bound_s)
    running.interrupt(_WHY)
    # Receives under way get this time as well: there is nothing to lose by it, and messages else.
    await _unless_hurried(finishing, hurried, CLEAN_UP_S)
    cut = {poll for poll in polls if not poll.done()}
    for poll in cut:
        poll.cancel()
    if hurry.is_set():
        await asyncio.wait([finishing], timeout=_HURRIED_CLEAN_UP_S)
    abandoned = tuple(running.abandon(_WHY))
    settler.close()
    flushed = asyncio.create_task(_flush(settler, finishing), name="headgate-flush")
    await asyncio.wait([flushed], timeout=FLUSH_S)
    for task in (flushed, finishing, hurried):
        task.cancel()
    await asyncio.wait([flushed, finishing, hurried])
    return Report(
        interrupted=tuple(dict.fromkeys((*running.interrupted, *abandoned))),
        abandoned=abandoned,
        unsettled=len(running.unsettled) + settler.given_up,
        polls_cut=len(cut),
    )


async def _unless_hurried(
    finishing: asyncio.Task[None], hurried: asyncio.Task[bool], seconds: float
) -> None:
    """Wait until all is finished, for the given time at most, or until there is a hurry."""
    await asyncio.wait([finishing, hurried], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


async def _finish(running: Running, polls: set[asyncio.Task[None]]) -> None:
    if polls:
        await asyncio.wait(polls)
    await running.finish()


async def _flush(settler: HoldSettler, finishing: asyncio.Task[None]) -> None:
    await settler.drain()
    await asyncio.wait([finishing])
    await settler.drain()
