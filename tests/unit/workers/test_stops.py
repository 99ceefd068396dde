"""A handler asked to end: the errors that it then raises end neither worker nor thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Client, JobContext, Retry
from headgate.errors import InlineFailed, ServiceUnavailable, Stopped
from headgate.events import HookFailed, JobCancelled, JobCompleted, JobFailed, JobInterrupted
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.testing import Harness, MemorySqs, VirtualClock
from tests.support.backends import over
from tests.unit.workers.rig import Note, Rig, one_lane

_LIMIT_S = 30.0
_ONCE = Retry(max_attempts=1)


async def test_a_thread_that_swallows_exceptions_is_cancelled_and_not_completed() -> None:
    app, mail = one_lane()
    begun = threading.Event()

    @mail.job("render")
    def render(note: Note, ctx: JobContext) -> None:
        while note.text == "long":
            begun.set()
            try:
                ctx.raise_if_cancelled()
            except Exception:  # noqa: BLE001 - as handlers do around each item of their work
                return

    rig = Rig(app, clock=SystemClock())
    await rig.submit(render, "long")
    async with asyncio.timeout(_LIMIT_S), rig.working(concurrency=1) as worker:
        await asyncio.to_thread(begun.wait, _LIMIT_S)
        [hold] = worker._parts.running.unfinished
        hold.run.cancel("a mistake")
        await rig.happens(JobCancelled)
        assert not rig.heard(JobCompleted)
        await rig.submit(render)
        await rig.happens(JobCompleted)  # in the same thread


@pytest.mark.looptime
async def test_an_async_handler_may_end_by_a_stop_where_it_was_cancelled() -> None:
    app, mail = one_lane()

    @mail.job("render")
    async def render(_note: Note, ctx: JobContext) -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ctx.raise_if_cancelled()

    rig = Rig(app)
    await rig.submit(render)
    async with rig.working() as worker:
        await asyncio.sleep(1)
        [hold] = worker._parts.running.unfinished
        hold.run.cancel("a mistake")
        await rig.happens(JobCancelled)
    assert not rig.heard(JobCompleted)


@pytest.mark.looptime
async def test_a_task_group_whose_tasks_stop_gives_the_job_back_uncounted() -> None:
    app, mail = one_lane(retry=_ONCE)
    begun = asyncio.Event()

    async def work(ctx: JobContext) -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ctx.raise_if_cancelled()

    @mail.job("render")
    async def render(_note: Note, ctx: JobContext) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(2):
                tasks.create_task(work(ctx))

    rig = Rig(app)
    await rig.submit(render)
    async with rig.working(drain=timedelta(seconds=1)):
        await begun.wait()
    assert len(rig.heard(JobInterrupted)) == 1
    assert not rig.heard(JobFailed)
    assert rig.remaining() == 1


def _plain(_note: Note) -> None:
    raise Stopped


async def _async(_note: Note) -> None:
    raise Stopped


async def _beside(_note: Note) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_async(_note))


_STOPPING = pytest.mark.parametrize("handler", [_plain, _async, _beside])


@_STOPPING
async def test_a_stop_that_nobody_asked_for_fails_its_job_alone(
    handler: Callable[..., Any],
) -> None:
    app, mail = one_lane(retry=_ONCE)
    stops = mail.job("stops")(handler)

    @mail.job("next")
    def after(_note: Note) -> None: ...

    rig = Rig(app, clock=SystemClock())
    await rig.submit(stops)
    async with asyncio.timeout(_LIMIT_S), rig.working(concurrency=1):
        [failed] = await rig.happens(JobFailed)
        await rig.submit(after)
        await rig.happens(JobCompleted)
    assert failed.error_type in {"Stopped", "BaseExceptionGroup"}


@_STOPPING
def test_a_stop_in_the_harness_and_inline_is_the_jobs_own_failure(
    handler: Callable[..., Any],
) -> None:
    app = App("shop")
    stops = app.job("stops", retry=_ONCE)(handler)
    jobs = Harness(app)
    jobs.client.submit(stops, Note())
    jobs.drain()
    assert len(jobs.dead_letters(stops)) == 1
    sqs = MemorySqs(VirtualClock())
    sqs.faults.raise_on("send", ServiceUnavailable("no connection"), times=1000)
    with pytest.raises(InlineFailed):
        Client(app, fallback="inline", backend=over(sqs.sync)).submit(stops, Note())


@pytest.mark.parametrize("hook", [_plain, _async])
async def test_a_stop_in_a_hook_is_told_and_ends_no_worker(hook: Callable[..., Any]) -> None:
    app, mail = one_lane()

    @mail.job("render")
    async def render(_note: Note) -> None: ...

    render.on_complete(hook)
    rig = Rig(app, clock=SystemClock())
    await rig.submit(render)
    async with asyncio.timeout(_LIMIT_S), rig.working(drain=timedelta(seconds=1)):
        [failed] = await rig.happens(HookFailed)
        await rig.submit(render)
        await rig.happens(JobCompleted, 2)
    assert "Stopped" in failed.error
