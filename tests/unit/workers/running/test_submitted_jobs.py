"""The handles of the jobs that handlers submit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

from headgate import App, AsyncJobHandle, Discard, JobContext, JobHandle, Retry, Unique
from headgate.errors import (
    AccessDenied,
    ConfigurationError,
    JobDead,
    ResultTimeout,
    ServiceUnavailable,
    TransportError,
)
from headgate.jobs.client.child_handles import child_handles
from headgate.jobs.core.events import JobCompleted, JobDeadLettered, JobFailed
from headgate.jobs.definitions.handlers.resources import OpenResources
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.messages.envelope import parse
from headgate.jobs.records.state import JobState
from headgate.testing import Harness
from headgate.workers.isolation import child_main
from tests.unit.workers.rig import Note, Rig, one_lane

pytestmark = pytest.mark.looptime


class Bench:
    """An app with a job ``length``, for the handlers of others to submit."""

    def __init__(self) -> None:
        self.app, self.queue = one_lane(Retry(max_attempts=1))
        self.got: list[Any] = []

        @self.queue.job("length")
        async def length(note: Note) -> int:
            if note.text == "fails":
                raise ValueError("no")
            return len(note.text)

        self.length: JobType[Note, int] = length

    async def run(self, parent: JobType[Note, Any]) -> Rig:
        rig = Rig(self.app)
        await rig.submit(parent, "p")
        async with rig.working(concurrency=4):
            await rig.happens(JobCompleted, 2)
        return rig


async def test_an_async_handler_awaits_the_results_of_what_it_submits() -> None:
    bench = Bench()

    @bench.queue.job("parent")
    async def parent(_note: Note, ctx: JobContext) -> None:
        job = await ctx.submit(bench.length, Note(text="four"))
        bench.got += [job, await job.result(timeout=60), await job.state(), ctx.id]
        bench.got.append((await job.history()).parent)

    await bench.run(parent)
    job, result, state, own, named = bench.got
    assert type(job) is AsyncJobHandle
    assert (job.type, job.is_duplicate) == ("length", False)
    assert (result, state) == (4, JobState.COMPLETED)
    assert named == own, "its record names the job that submitted it"


async def test_a_synchronous_handler_waits_for_them_in_its_thread() -> None:
    bench = Bench()

    @bench.queue.job("parent")
    def parent(_note: Note, ctx: JobContext) -> None:
        job = ctx.submit(bench.length, Note(text="four"))
        bench.got += [job, job.result(timeout=60), job.state(), threading.current_thread()]

    await bench.run(parent)
    job, result, state, thread = bench.got
    assert isinstance(job, JobHandle)
    assert (result, state) == (4, JobState.COMPLETED)
    assert thread is not threading.main_thread()


async def test_a_handler_is_told_of_its_childs_death_and_of_its_own_timeout() -> None:
    bench = Bench()

    @bench.queue.job("parent")
    async def parent(_note: Note, ctx: JobContext) -> None:
        dead = await ctx.submit(bench.length, Note(text="fails"))
        with pytest.raises(JobDead, match="no"):
            await dead.result(timeout=60)
        late = await ctx.submit(bench.length, Note(text="later"), delay=600)
        with pytest.raises(ResultTimeout):
            await late.result(timeout=5)
        await late.cancel("not needed any more")
        bench.got.append(await late.state())

    rig = Rig(bench.app)
    await rig.submit(parent, "p")
    async with rig.working(concurrency=4):
        await rig.happens(JobCompleted)
    assert bench.got
    assert [each.job_type for each in rig.heard(JobDeadLettered)] == ["length"]


async def test_its_methods_do_not_block_the_event_loop_but_say_what_to_await() -> None:
    bench = Bench()

    @bench.queue.job("parent")
    async def parent(_note: Note, ctx: JobContext) -> None:
        job = ctx.submit(bench.length, Note(text="four"))
        assert job.id
        with pytest.raises(ConfigurationError, match=r"write job = await ctx\.submit"):
            job.result()
        bench.got.append((await job).id == job.id)

    await bench.run(parent)
    assert bench.got == [True]


@pytest.mark.parametrize("plain", [False, True])
async def test_the_handle_of_a_duplicate_is_that_of_the_job_that_counts(*, plain: bool) -> None:
    bench = Bench()
    once = Unique(within=60)

    if plain:

        @bench.queue.job("parent")
        def by_thread(_note: Note, ctx: JobContext) -> None:
            for _ in range(2):
                job = ctx.submit(bench.length, Note(text="four"), unique=once)
                bench.got.append((job.id, job.is_duplicate))

        await bench.run(by_thread)
    else:

        @bench.queue.job("parent")
        async def by_loop(_note: Note, ctx: JobContext) -> None:
            for _ in range(2):
                job = await ctx.submit(bench.length, Note(text="four"), unique=once)
                bench.got.append((job.id, job.is_duplicate))

        await bench.run(by_loop)
    [(first, counts), (second, again)] = bench.got
    assert (first, counts, again) == (second, False, True)


async def test_a_submission_that_sqs_refuses_raises_where_it_is_awaited() -> None:
    bench = Bench()

    @bench.queue.job("parent")
    async def parent(_note: Note, ctx: JobContext) -> None:
        rig.sqs.faults.raise_on("send", AccessDenied("no"), times=1)
        with pytest.raises(AccessDenied):
            await ctx.submit(bench.length, Note(text="four"))

    rig = Rig(bench.app)
    await rig.submit(parent, "p")
    async with rig.working():
        await rig.happens(JobFailed)


async def test_a_handler_that_waits_no_longer_completes_once_sqs_has_what_it_submitted() -> None:
    bench = Bench()
    rig = Rig(bench.app)

    @bench.queue.job("parent")
    async def parent(_note: Note, ctx: JobContext) -> None:
        rig.wire.requests["send"] = lambda: asyncio.sleep(2)
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await ctx.submit(bench.length, Note(text="four"))
        bench.got.append("waits no longer")

    await rig.submit(parent, "p")
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    assert bench.got == ["waits no longer"], "one attempt"
    assert rig.heard(JobFailed) == []


def test_in_a_harness_a_handler_follows_what_it_submits() -> None:
    app = App("shop")
    got: list[Any] = []
    child = app.define("child")

    @app.job("parent")
    async def parent(ctx: JobContext) -> None:
        job = await ctx.submit(child, keep=60)
        got.append(await job.state())
        await job.cancel("changed its mind")

    @child.handler
    async def run() -> None:
        got.append("it ran")

    harness = Harness(app)
    harness.client.submit(parent)
    harness.drain()
    assert got[0] is JobState.WAITING


# --- child processes -----------------------------------------------------------------------------


class Channel:
    """A child's channel, whose worker keeps another job in the place of each that it is sent."""

    def __init__(self, kept: str | None) -> None:
        self.kept = kept

    def request(self, kind: str, _data: object) -> Future[Any]:
        assert kind == "submit"
        answer: Future[Any] = Future()
        answer.set_result(self.kept)
        return answer


class Children:
    """An app with a completed job, and hosts of another in a child process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.app = App("shop")

        @self.app.job("child")
        async def child() -> int:
            return 7

        self.child: JobType[None, int] = child
        self.harness = harness = Harness(self.app)
        monkeypatch.setattr(child_main, "_handles", lambda _app: child_handles(harness.client))
        harness.client.submit(child)
        [message] = harness.sqs.messages("shop-jobs-normal")
        self.parent = parse(message.body)
        harness.drain()

    def host(self, kept: str | None, loop: Any) -> child_main._Host:
        channel: Any = Channel(kept)
        return child_main._Host(self.app, self.parent, channel, loop)


@pytest.mark.looptime(enabled=False)
def test_in_a_child_process_a_synchronous_handler_follows_the_job_that_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children = Children(monkeypatch)
    kept = str(children.parent.id)
    with asyncio.Runner() as runner:
        job = children.host(kept, runner.get_loop()).submit(children.child, None, {})
        own = children.host(None, runner.get_loop()).submit(children.child, None, {})
    assert (job.id, job.is_duplicate, job.result(timeout=1)) == (kept, True, 7)
    assert (own.id == kept, own.is_duplicate) == (False, False)


@pytest.mark.looptime(enabled=False)
def test_in_a_child_process_an_async_handler_follows_the_job_that_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children = Children(monkeypatch)
    kept = str(children.parent.id)

    async def handler() -> tuple[str, bool, int]:
        host = children.host(kept, asyncio.get_running_loop())
        job = await host.submit(children.child, None, {})
        return job.id, job.is_duplicate, await job.result(timeout=1)

    assert asyncio.run(handler()) == (kept, True, 7)


@pytest.mark.looptime(enabled=False)
def test_in_a_child_process_a_submission_outlives_those_who_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children = Children(monkeypatch)
    answer: Future[Any] = Future()

    async def handler() -> None:
        host = children.host(None, asyncio.get_running_loop())
        monkeypatch.setattr(host._channel, "request", lambda _kind, _data: answer)
        job = host.submit(children.child, None, {})
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await job
        answer.set_result(None)
        host.all_taken()

    asyncio.run(handler())


@pytest.mark.looptime(enabled=False)
@pytest.mark.parametrize(
    ("error", "failures"), [(ServiceUnavailable("down"), 0), (AccessDenied("no"), 1)]
)
@pytest.mark.parametrize("around", [False, True])
def test_a_discarded_job_loses_nothing_that_it_has_submitted(
    error: TransportError, failures: int, *, around: bool
) -> None:
    app = App("shop")
    length = app.define("length", Note)
    length.handler(_nothing)

    @app.job("parent", retry=Retry(max_attempts=1))
    async def parent(ctx: JobContext) -> None:
        if not around:
            _ = ctx.submit(length, Note())
        raise Discard("done")

    if around:

        @app.around
        async def submits(ctx: JobContext) -> AsyncIterator[None]:
            if ctx.type == "parent":
                _ = ctx.submit(length, Note())
            yield

    harness = Harness(app)
    harness.client.submit(parent)
    harness.sqs.faults.raise_on("send", error, times=1)
    harness.drain()
    assert len(harness.completed(length)) == 1 - failures
    assert len(harness.dead_lettered(parent)) == failures


async def _nothing(_note: Note) -> None: ...


@pytest.mark.looptime(enabled=False)
@pytest.mark.parametrize("error", [None, ServiceUnavailable("down")])
def test_in_a_child_process_a_discard_waits_for_what_was_submitted(
    error: ServiceUnavailable | None,
) -> None:
    app, told = App("shop"), list[str]()

    class Answers:
        on_cancel: Any = None

        def request(self, _kind: str, _data: object) -> Future[Any]:
            answer: Future[Any] = Future()
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(None)
            return answer

        def send(self, frame: bytes) -> None:
            told.append(frame.decode("latin-1"))

    @app.job("parent")
    async def parent(_note: Note, ctx: JobContext) -> None:
        _ = ctx.submit(parent, Note())
        raise Discard("done")

    harness = Harness(app)
    harness.client.submit(parent, Note())
    [message] = harness.sqs.messages("shop-jobs-normal")
    order = {"body": message.body, "queue": "jobs", "attempt": 1, "max_attempts": 1}
    order["deadline"] = harness.clock.now().isoformat()
    channel: Any = Answers()
    with asyncio.Runner() as runner:
        resources = OpenResources()
        frame = (
            child_main._Attempt(app, order, channel, runner, resources).frame().decode("latin-1")
        )
    assert ("ServiceUnavailable" in frame) == (error is not None)
    assert ("done" in frame) == (error is None)
