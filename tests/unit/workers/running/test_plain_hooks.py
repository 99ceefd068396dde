"""Synchronous hooks, in threads and so in real time: virtual time waits for none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial

import pytest

from headgate import App, Backoff, JobContext
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import (
    HookFailed,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobProgress,
    JobQuarantined,
    JobRetryScheduled,
    JobStarted,
)
from headgate.jobs.execution import hook_runner
from headgate.jobs.execution.hook_runner import _Line, _Threads
from headgate.jobs.retry.policy import Retry
from headgate.workers.worker import Worker
from tests.support.odd_errors import ODD_ERRORS, name_of
from tests.unit.workers.rig import Note, Rig, one_lane

TWICE = Retry(max_attempts=2, backoff=Backoff.fixed(1))


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """The event that hanging hooks wait for; set at the end in any case."""
    event = threading.Event()
    yield event
    event.set()


def _rig(app: App) -> Rig:
    return Rig(app, clock=SystemClock())


def _working(rig: Rig) -> AbstractAsyncContextManager[Worker]:
    return rig.working(receive_wait=timedelta(seconds=1))


async def test_hooks_of_app_and_type_hear_of_each_step_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook_runner, "_MOMENT_S", 60)
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

    rig = _rig(app)
    await rig.submit(send)
    async with _working(rig):
        await rig.happens(JobDeadLettered)
    first = ["app start 1", "type start 1", "progress 50 half", "failed ConnectionError"]
    second = ["app start 2", "type start 2", "progress 50 half", "failed ConnectionError"]
    assert heard == [*first, "retry in 1", *second, "dead after 2"]


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

    rig = _rig(app)
    [job_id] = await rig.submit(send)
    async with _working(rig):
        [failed] = await rig.happens(HookFailed)
    assert failed.error == "ZeroDivisionError: in the hook"
    assert failed.hook.endswith("broken")
    assert failed.event == "job.completed"
    assert heard == [job_id]
    assert rig.remaining() == 0


async def test_a_plain_hook_runs_in_a_thread_of_its_own() -> None:
    app, queue = one_lane()
    threads: list[str] = []

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    @app.on_complete
    def _(_event: JobCompleted) -> None:
        threads.append(threading.current_thread().name)

    rig = _rig(app)
    await rig.submit(send)
    async with _working(rig):
        await rig.happens(JobCompleted)
    assert threads == ["headgate-hook_0"]


@pytest.mark.parametrize(("error", "said"), ODD_ERRORS, ids=name_of)
async def test_a_plain_hook_may_raise_anything_and_the_worker_goes_on(
    error: BaseException, said: str
) -> None:
    app, queue = one_lane()

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    @app.on_start
    def failing(_event: JobStarted) -> None:
        raise error

    rig = _rig(app)
    await rig.submit(send, "a")
    async with _working(rig) as worker:
        [failed] = await rig.happens(HookFailed)
        await rig.submit(send, "b")
        await rig.happens(JobCompleted, 2)
        await rig.happens(HookFailed, 2)
        assert worker.is_receiving
    assert said in failed.error or isinstance(error, StopIteration)
    assert rig.remaining() == 0


async def test_a_hook_that_is_an_object_or_a_partial_is_called_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook_runner, "_MOMENT_S", 60)
    app, queue = one_lane()
    heard: list[str] = []

    class Telling:
        async def __call__(self, event: JobCompleted) -> None:
            heard.append(f"object {event.name}")
            raise ValueError

    def told(prefix: str, event: JobCompleted) -> None:
        heard.append(f"{prefix} {event.name}")
        raise ValueError

    async def late(event: JobCompleted) -> None:
        heard.append(f"awaited {event.name}")
        raise ValueError

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    app.on_complete(Telling())
    app.on_complete(partial(told, "partial"))
    app.on_complete(lambda event: late(event))  # noqa: PLW0108 - so that it is a plain one
    rig = _rig(app)
    await rig.submit(send)
    async with _working(rig):
        failed = await rig.happens(HookFailed, 3)
    assert heard == [f"{kind} job.completed" for kind in ("object", "partial", "awaited")]
    assert [event.hook.rpartition(".")[2] for event in failed] == ["Telling", "told", "<lambda>"]
    assert {event.error for event in failed} == {"ValueError: "}


async def test_a_plain_hook_that_hangs_silences_no_other(
    let_go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_runner, "_MOMENT_S", 0.05)
    monkeypatch.setattr(hook_runner, "_LONGEST_S", 0.3)
    app, queue = one_lane()
    heard: list[str] = []

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    @app.on_start
    def hanging(_event: JobStarted) -> None:
        let_go.wait(60)

    @app.on_complete
    def note(event: JobCompleted) -> None:
        heard.append(event.job_id)
        if len(heard) == 8:
            all_heard.set()

    rig, all_heard = _rig(app), threading.Event()
    ids = await rig.submit(send, *"abcdefgh")
    failed: list[HookFailed] = []
    async with _working(rig):
        while len(failed) < 8:
            await rig.happens(HookFailed, len(rig.heard(HookFailed)) + 1)
            # On a busy machine the other one may take too long as well; it is called all the same.
            failed = [each for each in rig.heard(HookFailed) if each.hook.endswith("hanging")]
        assert await asyncio.to_thread(all_heard.wait, 60)
        let_go.set()
    assert sorted(heard) == sorted(ids)
    assert sum("TimeoutError" in event.error for event in failed) == 3
    assert sum("not called: 3 calls of it hang" in event.error for event in failed) == 5


async def test_a_plain_hook_whose_calls_have_come_back_is_called_again(
    let_go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_runner, "_LONGEST_S", 0.2)
    app, queue = one_lane()
    came = threading.Semaphore(0)
    heard: list[str] = []

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    @app.on_complete
    def note(event: JobCompleted) -> None:
        let_go.wait(60)
        heard.append(event.job_id)
        came.release()

    rig = _rig(app)
    first = await rig.submit(send, *"abcd")
    async with _working(rig):
        await rig.happens(HookFailed, 4)
        monkeypatch.setattr(hook_runner, "_LONGEST_S", 60)
        let_go.set()
        for _ in range(3):
            assert await asyncio.to_thread(came.acquire, timeout=60)
        [later] = await rig.submit(send, "e")
        assert await asyncio.to_thread(came.acquire, timeout=60)
    assert heard[3] == later
    assert len(rig.heard(HookFailed)) == 4
    assert set(heard[:3]) < set(first)


def test_a_thread_of_a_hook_that_hangs_lets_the_process_end() -> None:
    threads = _Threads(1)
    hanging = threading.Event()
    own: list[threading.Thread] = []

    def hang() -> None:
        own.append(threading.current_thread())
        hanging.wait()

    async def call() -> None:
        calling = asyncio.create_task(threads.call(hang, _Line()))
        while not own:  # noqa: ASYNC110 - set by the thread
            await asyncio.sleep(0.001)
        calling.cancel()
        await calling

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(call())
    [thread] = own
    assert thread.name.startswith("headgate-hook")
    assert thread.daemon
    hanging.set()
    threads.close()
