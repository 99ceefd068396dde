"""Threads for synchronous handlers: context variables, abandoned threads, and the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from headgate.jobs.execution.calling.handler_threads import HandlerThreads

BOUND_S = 30

request: ContextVar[str] = ContextVar("request", default="none")


class Stuck:
    """A function that blocks its thread until it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.ended = threading.Event()
        self._may_end = threading.Event()

    def __call__(self) -> None:
        self.began.set()
        self._may_end.wait(BOUND_S)
        self.ended.set()

    def let_go(self) -> None:
        self._may_end.set()


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    stuck = Stuck()
    yield stuck
    stuck.let_go()


async def began(stuck: Stuck, threads: HandlerThreads) -> asyncio.Task[None]:
    task = asyncio.create_task(threads(stuck))
    assert await asyncio.to_thread(stuck.began.wait, BOUND_S)
    return task


async def test_a_function_runs_in_a_thread_with_the_callers_context_variables() -> None:
    threads = HandlerThreads(1)
    request.set("r-1")
    assert await threads(threading.get_ident) != threading.get_ident()
    assert await threads(request.get) == "r-1"
    await threads(lambda: request.set("r-2"))
    assert request.get() == "r-1"
    threads.close()


async def test_a_thread_that_outlives_its_cancelled_call_still_counts_as_busy(
    stuck: Stuck,
) -> None:
    threads = HandlerThreads(1)
    task = await began(stuck, threads)
    task.cancel()
    await asyncio.wait([task])
    assert threads.busy
    threads.close()


async def test_after_a_renewal_a_stuck_thread_takes_no_ones_place(stuck: Stuck) -> None:
    threads = HandlerThreads(1)
    task = await began(stuck, threads)
    threads.renew()
    assert await asyncio.wait_for(threads(lambda: "next"), BOUND_S) == "next"
    assert not stuck.ended.is_set()
    stuck.let_go()
    await task
    assert not threads.busy
    threads.close()


async def test_closed_threads_take_no_more_work() -> None:
    threads = HandlerThreads(1)
    threads.close()
    threads.close()
    with pytest.raises(RuntimeError):
        await threads(lambda: None)


async def test_a_call_that_is_cancelled_before_a_thread_takes_it_leaves_none_busy(
    stuck: Stuck,
) -> None:
    threads = HandlerThreads(1)
    first = await began(stuck, threads)
    second = asyncio.create_task(threads(threading.get_ident))
    await asyncio.sleep(0)
    second.cancel()
    stuck.let_go()
    await asyncio.wait([first, second])
    assert second.cancelled()
    assert not threads.busy
    threads.close()
