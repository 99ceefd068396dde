"""The users' own code at what happens: called in order, beside the jobs, and never in their way."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from jobs import App, Backoff, JobContext, RetryLater
from jobs.events import (
    HookFailed,
    JobCompleted,
    JobDeadLettered,
    JobDeferred,
    JobFailed,
    JobProgress,
    JobQuarantined,
    JobRetryScheduled,
    JobStalled,
    JobStarted,
)
from jobs.retry import Retry
from tests.unit.worker.rig import Note, Rig, one_lane

pytestmark = pytest.mark.looptime

TWICE = Retry(attempts=2, backoff=Backoff.fixed(1))


async def test_hooks_of_app_and_type_hear_of_each_step_in_order() -> None:
    app, queue = one_lane(retry=TWICE)
    heard: list[str] = []

    @queue.job("send")
    async def send(_note: Note, ctx: JobContext) -> None:
        await ctx.progress(50, "half")
        raise ConnectionError("down")

    @app.on_start
    async def _(event: JobStarted) -> None:
        heard.append(f"app start {event.attempt}")

    @send.on_start
    def _(event: JobStarted) -> None:
        heard.append(f"type start {event.attempt}")

    @send.on_progress
    def _(event: JobProgress) -> None:
        heard.append(f"progress {event.percent} {event.note}")

    @app.on_failed
    def _(event: JobFailed) -> None:
        heard.append(f"failed {event.error_type}")

    @app.on_retry
    async def _(event: JobRetryScheduled) -> None:
        heard.append(f"retry in {event.delay_s}")

    @send.on_dead
    async def _(event: JobDeadLettered | JobQuarantined) -> None:
        heard.append(f"dead after {event.attempt}")

    rig = Rig(app)
    await rig.submit(send)
    async with rig.working():
        await rig.happens(JobDeadLettered)
    first = ["app start 1", "type start 1", "progress 50 half", "failed ConnectionError"]
    second = ["app start 2", "type start 2", "progress 50 half", "failed ConnectionError"]
    assert heard == [*first, "retry in 1", *second, "dead after 2"]


async def test_a_hook_of_one_type_hears_nothing_of_another() -> None:
    app, queue = one_lane()
    heard: list[str] = []

    @queue.job("loud")
    async def loud(_note: Note) -> None: ...

    @queue.job("quiet")
    async def quiet(_note: Note) -> None: ...

    @loud.on_complete
    def _(event: JobCompleted) -> None:
        heard.append(event.job_type)

    rig = Rig(app)
    await rig.submit(loud)
    await rig.submit(quiet)
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    assert heard == ["loud"]


async def test_a_hook_that_raises_is_reported_and_changes_nothing() -> None:
    app, queue = one_lane()
    heard: list[str] = []

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    @app.on_complete
    def broken(_event: JobCompleted) -> None:
        raise ZeroDivisionError("in the hook")

    @app.on_complete
    async def sound(event: JobCompleted) -> None:
        heard.append(event.job_id)

    rig = Rig(app)
    [job_id] = await rig.submit(send)
    async with rig.working():
        [failed] = await rig.happens(HookFailed)
    assert failed.error == "ZeroDivisionError: in the hook"
    assert failed.hook.endswith("broken")
    assert failed.event == "job.completed"
    assert heard == [job_id]
    assert rig.remaining() == 0


async def test_a_hook_that_hangs_is_given_up_and_holds_up_no_job() -> None:
    app, queue = one_lane()

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    @app.on_start
    async def hanging(_event: JobStarted) -> None:
        await asyncio.Event().wait()

    rig = Rig(app)
    await rig.submit(send, "a", "b", "c")
    async with rig.working():
        completed = await rig.happens(JobCompleted, 3)
        [failed, *_] = await rig.happens(HookFailed, 1)
    assert failed.at - completed[-1].at > timedelta(seconds=20)
    assert "TimeoutError" in failed.error


async def test_a_plain_hook_runs_in_a_thread_of_its_own() -> None:
    app, queue = one_lane()
    threads: list[str] = []

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    @app.on_complete
    def _(_event: JobCompleted) -> None:
        threads.append(threading.current_thread().name)

    rig = Rig(app)
    await rig.submit(send)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert threads == ["headgate-hook_0"]


async def test_a_stalled_plain_function_is_told_of() -> None:
    app, queue = one_lane()
    heard: list[float] = []
    let_go = threading.Event()

    @queue.job("slow", timeout=timedelta(seconds=5))
    def slow(_note: Note) -> None:
        let_go.wait(60)

    @app.on_stalled
    async def _(event: JobStalled) -> None:
        heard.append(event.timeout_s)
        let_go.set()

    rig = Rig(app)
    await rig.submit(slow)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert heard == [5]


async def test_a_deferral_is_no_failure_and_calls_no_hook_for_one() -> None:
    app, queue = one_lane()
    heard: list[str] = []

    @queue.job("poll")
    async def poll(_note: Note) -> None:
        if not rig.heard(JobDeferred):
            raise RetryLater(timedelta(seconds=3), "not yet")

    for register in (app.on_failed, app.on_retry, app.on_dead):
        register(lambda event: heard.append(event.name))

    rig = Rig(app)
    await rig.submit(poll)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert heard == []


def test_the_harness_calls_hooks_too_and_shows_what_they_raise() -> None:
    from jobs.testing import Harness

    app = App("shop")

    @app.job("send")
    def send(_note: Note) -> None: ...

    @send.on_complete
    def broken(_event: JobCompleted) -> None:
        raise ZeroDivisionError

    jobs = Harness(app)
    jobs.client.submit(send, Note())
    with pytest.raises(ZeroDivisionError):
        jobs.drain()
