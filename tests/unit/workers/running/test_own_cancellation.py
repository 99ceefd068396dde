"""A handler that cancels its own task has failed; one that is cancelled with its host has not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from headgate import App, Batch, BatchContext, Retry
from headgate.jobs.core.events import (
    HookFailed,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobStarted,
)
from headgate.jobs.execution.outcome import Failed
from headgate.jobs.testing import Harness
from tests.unit.workers.rig import Note, Rig, one_lane

pytestmark = pytest.mark.looptime

ONCE = Retry(max_attempts=1)


def _cancel_this() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def at_once(_note: Note) -> None:
    _cancel_this()
    await asyncio.sleep(600)


async def by_a_timer(_note: Note) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(0.2, task.cancel)
    await asyncio.sleep(600)


async def twice(_note: Note) -> None:
    _cancel_this()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(600)
    await at_once(_note)


async def in_a_task_group(note: Note) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(600))
        await by_a_timer(note)


async def within_a_timeout(note: Note) -> None:
    async with asyncio.timeout(300):
        await by_a_timer(note)


async def and_returns(_note: Note) -> None:
    _cancel_this()


async def and_swallows_it(note: Note) -> None:
    with suppress(asyncio.CancelledError):
        await by_a_timer(note)


Handler = Callable[[Note], Awaitable[None]]
FAIL: tuple[Handler, ...] = (at_once, by_a_timer, twice, in_a_task_group, within_a_timeout)
RETURN: tuple[Handler, ...] = (and_returns, and_swallows_it)


@pytest.mark.parametrize("handler", FAIL, ids=lambda handler: str(handler.__name__))
@pytest.mark.parametrize("once", [False, True])
async def test_a_handler_that_cancels_itself_in_a_worker_has_failed(
    handler: Handler, *, once: bool
) -> None:
    app, queue = one_lane()
    job = queue.job("cancels", retry=ONCE, once=once)(handler)
    rig = Rig(app)
    await rig.submit(job)
    async with rig.working():
        [failed] = await rig.happens(JobFailed)
        await rig.happens(JobDeadLettered)
    assert failed.error_type == "CancelledError"
    assert rig.remaining() == 0


@pytest.mark.parametrize("handler", RETURN, ids=lambda handler: str(handler.__name__))
async def test_a_handler_that_cancels_itself_and_returns_is_done(handler: Handler) -> None:
    app, queue = one_lane()
    job = queue.job("cancels", retry=ONCE)(handler)
    rig = Rig(app)
    await rig.submit(job)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert rig.remaining() == 0


async def test_a_batch_that_cancels_its_own_task_fails_its_jobs() -> None:
    app, queue = one_lane()

    @queue.job("cancels", retry=ONCE, batch=Batch(size=10, wait=1))
    async def cancels(_notes: list[Note], _ctx: BatchContext) -> None:
        await at_once(Note())

    rig = Rig(app)
    await rig.submit(cancels, "a", "b")
    async with rig.working():
        failed = await rig.happens(JobFailed, 2)
        await rig.happens(JobDeadLettered, 2)
    assert {each.error_type for each in failed} == {"CancelledError"}
    assert rig.remaining() == 0


async def test_a_loop_that_ends_with_its_worker_fails_no_job() -> None:
    app, queue = one_lane()

    @queue.job("long")
    async def long(_note: Note) -> None:
        await asyncio.sleep(600)

    rig = Rig(app)
    await rig.submit(long)
    working = asyncio.create_task(rig.worker().run(), name="headgate-test")
    await rig.happens(JobStarted)
    for task in asyncio.all_tasks():
        if task.get_name().startswith("headgate"):
            task.cancel()  # as `asyncio.run` does at its end
    await asyncio.wait([working])
    assert not rig.heard(JobFailed)
    assert rig.remaining() == 1


@pytest.mark.parametrize("handler", FAIL, ids=lambda handler: str(handler.__name__))
async def test_a_handler_that_cancels_itself_in_the_harness_has_failed(handler: Handler) -> None:
    app = App("shop")
    job = app.job("cancels", retry=ONCE)(handler)
    harness = Harness(app)
    harness_outcome = await harness.arun(job, Note())
    assert isinstance(harness_outcome, Failed)
    await harness.async_client.submit(job, Note())
    await harness.adrain()
    assert len(harness.dead_lettered(job)) == 1


async def test_a_test_that_is_cancelled_ends_its_drain_and_fails_no_job() -> None:
    app = App("shop")
    ended = []

    @app.job("long")
    async def long(_note: Note) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ended.append(True)

    harness = Harness(app)
    await harness.async_client.submit(long, Note())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await harness.adrain()
    assert ended
    assert not [event for event in harness.events if isinstance(event, JobFailed)]


async def test_a_hook_that_cancels_its_own_task_is_called_again() -> None:
    app, queue = one_lane()
    heard = []

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    @app.on_start
    async def cancels(_event: JobStarted) -> None:
        heard.append(True)
        _cancel_this()

    rig = Rig(app)
    await rig.submit(send, "a", "b")
    async with rig.working():
        failed = await rig.happens(HookFailed, 2)
    assert len(heard) == 2
    assert "CancelledError" in failed[0].error
