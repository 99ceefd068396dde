"""Stopping: signals, and the order in which a worker lets go.

Fetching and working have separate lifetimes. First no more receives, and what waits goes back; then
running jobs may finish; then they are interrupted, their messages shown again at once; then
settlements are flushed. Every step is bounded.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headgate.workers.running.runner import Running
from headgate.workers.running.settler import Settler

SIGNALS = (signal.SIGTERM, signal.SIGINT)

CLEAN_UP_S = 2.0
"""How long an interrupted handler may take to clean up."""

FLUSH_S = 3.0
"""How long the last settlements may take."""

_WHY = "the worker is stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker left behind when it stopped."""

    interrupted: tuple[str, ...] = ()
    """Ids of jobs that did not finish within the bound; they run again."""
    abandoned: tuple[str, ...] = ()
    """Ids of jobs whose handlers did not even react to being interrupted."""
    unsettled: int = 0
    """Messages whose settlement was not confirmed; they may be delivered again."""
    polls_cut: int = 0
    """Receives that did not return in time; what they brought is hidden for a while."""

    @property
    def clean(self) -> bool:
        """Whether nothing was cut short."""
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
    settler: Settler,
    polls: set[asyncio.Task[None]],
    *,
    bound_s: float,
    hurry: asyncio.Event,
) -> Report:
    """Let go of everything, in order. No more receives may be started by now.

    Args:
        running: what runs; its waiting messages are given back first.
        settler: flushed last.
        polls: the receives under way; they are awaited, since a cancelled one may have taken
            messages that then stay hidden.
        bound_s: how long running jobs may go on.
        hurry: ends that at once.
    """
    running.close()
    finishing = asyncio.create_task(_finish(running, polls), name="headgate-finish")
    hurried = asyncio.create_task(hurry.wait(), name="headgate-hurry")
    await asyncio.wait([finishing, hurried], timeout=bound_s, return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    cut = {poll for poll in polls if not poll.done()}
    for poll in cut:
        poll.cancel()
    running.interrupt(_WHY)
    await asyncio.wait([finishing], timeout=0.1 if hurry.is_set() else CLEAN_UP_S)
    abandoned = tuple(running.abandon(_WHY))
    settler.close()
    flushed = asyncio.create_task(_flush(settler, finishing), name="headgate-flush")
    await asyncio.wait([flushed], timeout=FLUSH_S)
    for task in (flushed, finishing):
        task.cancel()
    await asyncio.wait([flushed, finishing, hurried])
    return Report(
        interrupted=tuple(dict.fromkeys((*running.interrupted, *abandoned))),
        abandoned=abandoned,
        unsettled=len(running.unsettled) + settler.given_up,
        polls_cut=len(cut),
    )


async def _finish(running: Running, polls: set[asyncio.Task[None]]) -> None:
    if polls:
        await asyncio.wait(polls)
    await running.finish()


async def _flush(settler: Settler, finishing: asyncio.Task[None]) -> None:
    await settler.drain()
    await asyncio.wait([finishing])
    await settler.drain()
