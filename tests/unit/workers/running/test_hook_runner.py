"""Users' hooks: called in order, alongside the jobs, and never in their way."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from headgate import App, Backoff, RetryLater
from headgate.jobs.core.events import HookFailed, JobCompleted, JobDeferred, JobStalled, JobStarted
from headgate.jobs.records.items import partition
from headgate.jobs.records.lives import LIVES
from headgate.jobs.retry.policy import Retry
from tests.support.odd_errors import ODD_ERRORS, name_of
from tests.unit.workers.rig import Note, Rig, one_lane

pytestmark = pytest.mark.looptime

TWICE = Retry(max_attempts=2, backoff=Backoff.fixed(1))


async def test_a_hook_of_one_type_hears_nothing_of_another() -> None:
    app, queue = one_lane()
    heard: list[str] = []

    @queue.job("loud")
    async def loud(_note: Note) -> None: ...

    @queue.job("quiet")
    async def quiet(_note: Note) -> None: ...

    @loud.on_complete
    async def _(event: JobCompleted) -> None:  # a thread's time would not be the test's
        heard.append(event.job_type)

    rig = Rig(app)
    await rig.submit(loud)
    await rig.submit(quiet)
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    assert heard == ["loud"]


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


async def test_a_stalled_plain_function_is_told_of() -> None:
    app, queue = one_lane()
    heard: list[float] = []
    let_go = threading.Event()

    @queue.job("slow", timeout=timedelta(seconds=1))
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
    assert heard == [1]


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
    from headgate.jobs.testing import Harness

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


@pytest.mark.looptime(enabled=False)
def test_a_plain_hook_runs_in_a_thread_in_the_harness_too() -> None:
    from headgate.jobs.testing import Harness

    app = App("shop")
    where: list[threading.Thread] = []

    @app.job("send")
    async def send(_note: Note) -> None: ...

    @send.on_complete
    def plain(_event: JobCompleted) -> None:
        where.append(threading.current_thread())
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()

    @send.on_complete
    async def in_loop(_event: JobCompleted) -> None:
        where.append(threading.current_thread())

    jobs = Harness(app)
    jobs.client.submit(send, Note())
    jobs.drain()
    assert threading.main_thread() not in where[:1]
    assert where[1:] == [threading.main_thread()]


@pytest.mark.looptime(enabled=False)
def test_a_plain_hook_that_raises_stop_iteration_ends_the_harness() -> None:
    from headgate.jobs.testing import Harness

    app = App("shop")

    @app.job("send")
    async def send(_note: Note) -> None: ...

    @send.on_complete
    def odd(_event: JobCompleted) -> None:
        raise StopIteration

    jobs = Harness(app)
    jobs.client.submit(send, Note())
    with pytest.raises(RuntimeError):  # as which Python raises one in a coroutine
        jobs.drain()


# --- misbehaving hooks ---------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "said"), ODD_ERRORS, ids=name_of)
async def test_a_hook_may_raise_anything_and_the_worker_goes_on(
    error: BaseException, said: str
) -> None:
    app, queue = one_lane()

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    @app.on_start
    async def failing(_event: JobStarted) -> None:
        raise error

    rig = Rig(app)
    await rig.submit(send, "a")
    async with rig.working() as worker:
        [failed] = await rig.happens(HookFailed)
        await rig.submit(send, "b")
        await rig.happens(JobCompleted, 2)
        await rig.happens(HookFailed, 2)
        assert worker.is_receiving
    assert said in failed.error or isinstance(error, StopIteration)
    assert rig.remaining() == 0


@pytest.mark.parametrize("kind", ["async", "deaf"])
async def test_a_hook_that_hangs_at_every_call_holds_up_no_other(kind: str) -> None:
    app, queue = one_lane()
    let_go = asyncio.Event()
    heard: list[str] = []

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    async def hanging(_event: JobStarted) -> None:
        await asyncio.Event().wait()

    async def deaf(_event: JobStarted) -> None:
        while not let_go.is_set():
            try:
                await asyncio.sleep(10_000)
            except asyncio.CancelledError:
                heard.append("not yet")

    app.on_start(hanging if kind == "async" else deaf)

    @app.on_complete
    async def note(event: JobCompleted) -> None:
        heard.append(event.job_id)

    rig = Rig(app)
    ids = await rig.submit(send, *"abcdefgh")
    async with rig.working():
        await rig.happens(JobCompleted, 8)
        began = rig.clock.monotonic()
        await asyncio.sleep(20)
        assert [each for each in heard if each != "not yet"] == ids, "well before it is given up"
        failed = await rig.happens(HookFailed, 8)
        assert rig.clock.monotonic() - began < 8 * 31
        let_go.set()
    if kind != "async":
        assert sum("not called: 3 calls of it hang" in event.error for event in failed) == 5
    assert sum("TimeoutError" in event.error for event in failed) == (8 if kind == "async" else 3)


async def test_a_hook_that_hangs_keeps_nothing_unwritten_at_the_stop() -> None:
    app, queue = one_lane(records="full")

    @queue.job("send")
    async def send(_note: Note) -> None: ...

    @app.on_complete
    async def hanging(_event: JobCompleted) -> None:
        await asyncio.Event().wait()

    rig = Rig(app)
    [job_id] = await rig.submit(send)
    async with rig.working():
        await rig.happens(JobCompleted)
    marks = [item.sk for item in await rig.table.query(partition(job_id))]
    assert any(mark.endswith("#completed") for mark in marks)
    assert await rig.table.query(LIVES) == [], "its end is known to be in order"
