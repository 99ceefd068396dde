"""Time limits that share a timer bound a block as `asyncio.timeout_at` does."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from headgate.jobs.execution.calling.time_limits import TimeLimit, TimeLimits

pytestmark = pytest.mark.looptime


def _limit(limits: TimeLimits, seconds: float) -> TimeLimit:
    task = asyncio.current_task()
    assert task is not None
    return TimeLimit(limits, asyncio.get_running_loop().time() + seconds, task)


async def _sleeps(limits: TimeLimits, seconds: float, *, limit_s: float) -> float:
    """Sleep under a limit; return the time at which that ended, below 0 if the limit ended it."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        with _limit(limits, limit_s):
            await asyncio.sleep(seconds)
    except TimeoutError:
        return began - loop.time()
    return loop.time() - began


async def _sleeps_and_fails(limits: TimeLimits) -> str:
    """Fail after the limit has passed; return the text of the error that counts."""
    try:
        with _limit(limits, 1):
            try:
                await asyncio.sleep(60)
            finally:
                _ = 1 / 0
    except ZeroDivisionError as error:
        return str(error)
    return ""


async def test_each_block_ends_at_its_own_limit_in_whatever_order_they_were_entered() -> None:
    limits = TimeLimits()
    wanted = [30.0, 5.0, 10.0, 5.0, 60.0]
    ended = await asyncio.gather(*(_sleeps(limits, 3600, limit_s=each) for each in wanted))
    assert ended == [pytest.approx(-each, abs=0.01) for each in wanted]


async def test_a_block_that_ends_in_time_is_not_cancelled_later() -> None:
    limits = TimeLimits()
    assert await _sleeps(limits, 1, limit_s=5) == pytest.approx(1, abs=0.01)
    assert await _sleeps(limits, 100, limit_s=200) == pytest.approx(100, abs=0.01)


async def test_a_limit_that_is_past_already_ends_a_block_at_its_first_pause() -> None:
    assert await _sleeps(TimeLimits(), 100, limit_s=-1) == pytest.approx(0, abs=0.01)


async def test_limits_of_one_length_set_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, loop, timers = TimeLimits(), asyncio.get_running_loop(), list[float]()
    call_at = loop.call_at

    def counted(when: float, *arguments: Any, **options: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *arguments, **options)

    monkeypatch.setattr(loop, "call_at", counted)
    for _ in range(100):
        with _limit(limits, 900):
            pass
    assert len(timers) == 1


async def test_what_a_block_returns_or_raises_after_its_limit_counts() -> None:
    limits = TimeLimits()
    with _limit(limits, 1) as _, suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    assert await _sleeps_and_fails(limits) == "division by zero"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_task_that_was_cancelled_from_outside_as_well_stays_cancelled() -> None:
    limits = TimeLimits()

    async def slow_to_leave() -> None:
        with _limit(limits, 1):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                task.cancel()  # as a worker that stops would
                raise

    task = asyncio.create_task(slow_to_leave())
    with pytest.raises(asyncio.CancelledError):
        await task
