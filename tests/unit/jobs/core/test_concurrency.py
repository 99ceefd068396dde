"""Several concurrent coroutines of one call, in threads and in tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headgate.jobs.core.concurrency import Parallelism, Tasks, Threads, UnderWay, running_loop
from headgate.jobs.core.immediate import drive
from headgate.jobs.errors import Throttled

Run = Callable[[Coroutine[Any, Any, Any]], Any]

both = pytest.mark.parametrize(
    ("concurrency", "run"), [(Threads(), drive), (Tasks(), asyncio.run)], ids=["Threads", "Tasks"]
)


@both
def test_answers_come_in_the_order_of_the_items(concurrency: Parallelism, run: Run) -> None:
    async def double(item: int) -> int:
        return 2 * item

    for items in ([], [1], [*range(50)]):
        assert run(concurrency.each(double, items, at_once=4)) == [2 * item for item in items]


@both
def test_the_first_error_is_raised(concurrency: Parallelism, run: Run) -> None:
    async def refuse(item: int) -> int:
        if item == 3:
            raise Throttled("busy")
        return item

    with pytest.raises(Throttled, match="busy"):
        run(concurrency.each(refuse, [*range(9)], at_once=2))


@both
def test_no_more_calls_are_under_way_than_allowed(concurrency: Parallelism, run: Run) -> None:
    counting = threading.Lock()
    under_way: set[int] = set()
    most = 0

    async def count(item: int) -> None:
        nonlocal most
        with counting:
            under_way.add(item)
            most = max(most, len(under_way))
        if isinstance(concurrency, Tasks):
            await asyncio.sleep(0)
        with counting:
            under_way.remove(item)

    run(concurrency.each(count, [*range(50)], at_once=4))
    assert 1 <= most <= 4
    assert not under_way


@both
def test_a_call_is_made_again_and_again_until_the_block_ends(
    concurrency: Parallelism, run: Run
) -> None:
    calls: list[int] = []
    enough = threading.Event()

    async def call() -> None:
        calls.append(1)
        if len(calls) == 3:
            enough.set()

    async def block() -> int:
        async with concurrency.meanwhile(call, every_s=0.001):
            if isinstance(concurrency, Tasks):
                await asyncio.to_thread(enough.wait, 30)
            else:
                assert enough.wait(30)
        return len(calls)

    made = run(block())
    assert made == len(calls) >= 3


@both
def test_beside_a_quick_block_nothing_is_called(concurrency: Parallelism, run: Run) -> None:
    async def never() -> None:
        raise AssertionError("called")

    async def block() -> str:
        async with concurrency.meanwhile(never, every_s=3600):
            return "done"

    assert run(block()) == "done"


def test_what_takes_long_leaves_the_thread_of_the_event_loop() -> None:
    async def thread() -> tuple[int, int]:
        return await Tasks().aside(threading.get_ident), threading.get_ident()

    aside, own = asyncio.run(thread())
    assert aside != own
    assert drive(Threads().aside(threading.get_ident)) == threading.get_ident()


@pytest.mark.looptime
async def test_what_is_cancelled_at_the_end_has_ended_when_the_end_is_over() -> None:
    ended: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.1)
            ended.append("cancelled")

    async def quick() -> None:
        await asyncio.sleep(1)
        ended.append("in time")

    under_way = UnderWay[None]()
    for work in (stubborn(), quick()):
        under_way.add(asyncio.create_task(work))
    await under_way.close()
    assert ended == ["in time", "cancelled"]
    assert not under_way


async def test_the_running_loop_is_that_of_the_calling_thread_alone() -> None:
    assert running_loop() is asyncio.get_running_loop()
    assert await asyncio.to_thread(running_loop) is None


def test_without_an_event_loop_none_runs() -> None:
    assert running_loop() is None


# --- calls that go on beside ----------------------------------------------------------------------


@both
def test_whoever_waits_for_a_call_beside_gets_its_error(concurrency: Parallelism, run: Run) -> None:
    async def refuse() -> None:
        raise Throttled("busy")

    async def block() -> None:
        call = concurrency.begin(refuse, name="refuse")
        for _ in range(2):
            with pytest.raises(Throttled, match="busy"):
                await call.wait(None)
        assert call.is_over

    # Python reports what a thread ends with besides, for those that nobody waits for.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading, "excepthook", lambda _told: None)
        run(block())


@both
def test_a_call_beside_goes_on_once_nobody_waits(concurrency: Parallelism, run: Run) -> None:
    may_end, ended = threading.Event(), list[str]()

    async def call() -> None:
        if isinstance(concurrency, Tasks):
            await asyncio.to_thread(may_end.wait, 30)
        assert may_end.wait(30)
        ended.append("ended")

    async def block() -> None:
        begun = concurrency.begin(call, name="call")
        await begun.wait(0)
        assert not begun.is_over
        may_end.set()
        await begun.wait(None)
        assert begun.is_over

    run(block())
    assert ended == ["ended"]


async def test_the_end_of_a_task_beside_is_waited_for() -> None:
    ended: list[str] = []

    async def call() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("ended")

    begun = Tasks().begin(call, name="call")
    await begun.wait(0)
    await begun.end()
    await begun.end()
    assert ended == ["ended"]
    await begun.wait(None)  # a cancelled call is no error to those who waited for it
