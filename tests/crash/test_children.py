"""Handlers in child processes: their faults affect their own job, and nothing else."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from headgate import AsyncClient
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import (
    Event,
    Events,
    JobCancelled,
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobDiscarded,
    JobFailed,
    JobInterrupted,
    JobProgress,
    JobQuarantined,
    JobStarted,
)
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.testing import MemorySqs
from headgate.testing import MemoryBackend
from headgate.workers.configuration import WorkerSettings
from headgate.workers.shutdown import on_signals
from headgate.workers.worker import Worker
from tests.support import isolated_app
from tests.support.backends import async_over
from tests.support.isolated_app import TRIES, Work, app
from tests.support.journal import GENEROUS_S, whole_lines

E = TypeVar("E", bound=Event)

QUEUE = "isolated-work-normal"
DEAD = "isolated-work-normal-dlq"


class Bench:
    """A worker in real time over in-memory queues; its children are real processes."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.sqs = MemorySqs(self.clock)
        self.sqs.provision(app.topology)
        self.events: list[Event] = []
        self._news = asyncio.Event()

    @asynccontextmanager
    async def working(self, **settings: Any) -> AsyncIterator[Worker]:
        others = {each.pid for each in children()}  # other tests' servers, in the same process
        worker = Worker(
            app,
            async_over(self.sqs, rng=random.Random(1)),  # noqa: S311 - spreads pauses
            WorkerSettings(**({"children": 2, "concurrency": 8} | settings)),
            events=Events(self._hear),
        )
        run = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.hurry()
            await asyncio.wait_for(run, GENEROUS_S)
        left = [each for each in children() if each.pid not in others]
        assert not left, "no child process outlives its worker"

    async def submit(self, job: JobType[Work, Any], *works: Work) -> None:
        async with AsyncClient(app, backend=async_over(self.sqs)) as client:
            await client.submit_many(job, works or [Work()])

    def heard(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def happens(self, kind: type[E], times: int = 1) -> list[E]:
        async with asyncio.timeout(GENEROUS_S):
            while len(self.heard(kind)) < times:
                self._news.clear()
                await self._news.wait()
        return self.heard(kind)

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()


def children() -> list[psutil.Process]:
    """Return the running processes that this one has started."""
    found = psutil.Process().children()
    return [each for each in found if each.status() != psutil.STATUS_ZOMBIE]


async def gone(pid: int) -> None:
    """Wait until a process has ended."""
    async with asyncio.timeout(GENEROUS_S):
        while _lives(pid):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.05)


async def lines(path: Path, count: int = 1) -> list[str]:
    """Wait until a file has that many lines; return them."""
    async with asyncio.timeout(GENEROUS_S):
        while len(whole_lines(path)) < count:  # noqa: ASYNC110 - another process writes them
            await asyncio.sleep(0.05)
    return whole_lines(path)


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_children_and_signals_work_in_uvloop_s_event_loop(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop has no release for Windows")

    async def story() -> None:
        bench = Bench()
        await bench.submit(isolated_app.echo, Work(path=tmp_path / "said"))
        async with bench.working() as worker:
            with on_signals(worker.stop, worker.hurry):
                await bench.happens(JobCompleted)
                await bench.submit(isolated_app.segfault)
                await bench.happens(JobCrashed)
                signal.raise_signal(signal.SIGTERM)
                async with asyncio.timeout(GENEROUS_S):
                    while worker.is_receiving:  # noqa: ASYNC110 - until the loop has the signal
                        await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())


async def test_jobs_run_in_children_that_are_used_again(tmp_path: Path) -> None:
    bench, said = Bench(), tmp_path / "said"
    await bench.submit(isolated_app.echo, *[Work(path=said)] * 20)
    async with bench.working():
        await bench.happens(JobCompleted, 20)
    pids = {int(line) for line in await lines(said, 20)}
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids


async def test_a_child_runs_a_job_without_a_payload() -> None:
    bench = Bench()
    async with AsyncClient(app, backend=async_over(bench.sqs)) as client:
        await client.submit(isolated_app.nightly)
    async with bench.working():
        await bench.happens(JobCompleted)
    assert bench.heard(JobFailed) == []


async def test_a_child_tells_its_progress_and_submits_further_jobs(tmp_path: Path) -> None:
    bench, said = Bench(), tmp_path / "said"
    await bench.submit(isolated_app.async_echo, Work(path=said))
    await bench.submit(isolated_app.reporting, Work(path=said))
    async with bench.working():
        await bench.happens(JobCompleted, 4)
    assert {(event.percent, event.note) for event in bench.heard(JobProgress)} == {
        (40, "half"),
        (70, "nearly"),
        (80, "\\udc00"),
    }
    assert bench.heard(JobFailed) == []
    details = {event.percent: event.data for event in bench.heard(JobProgress)}
    assert (details[70], details[80]) == ({"path": str(said), "odd": None, "others": [1]}, {})
    assert set(await lines(said, 2)) == {"child of a child", "of a plain one"}


async def test_the_next_job_does_not_tell_the_progress_of_one_that_left_a_thread(
    tmp_path: Path,
) -> None:
    bench, said = Bench(), tmp_path / "said"
    async with bench.working(children=1):
        await bench.submit(isolated_app.leaving, Work(path=said))
        await bench.happens(JobCompleted)
        await bench.submit(isolated_app.following)
        await bench.happens(JobCompleted, 3)
    assert [(each.percent, each.note) for each in bench.heard(JobProgress)] == [(10, "its own")]
    assert await lines(said, 1) == ["of its thread"]


async def test_a_thread_that_a_job_has_left_in_its_child_may_still_submit(tmp_path: Path) -> None:
    bench, said = Bench(), tmp_path / "said"
    async with bench.working(children=1):
        await bench.submit(isolated_app.leaving, Work(path=said))
        await bench.happens(JobCompleted)
        said.touch()
        await bench.happens(JobCompleted, 2)
    assert await lines(said, 1) == ["of its thread"]


@pytest.mark.parametrize(
    ("job", "how"),
    [
        (isolated_app.segfault, "SIGSEGV"),
        (isolated_app.exit_at_once, "exited with code 3"),
        (isolated_app.killed, "SIGKILL"),
        (isolated_app.greedy, "memory limit of 200 MB exceeded"),
    ],
    ids=["segfault", "os._exit", "SIGKILL", "out of memory"],
)
async def test_a_child_that_dies_costs_its_own_job_alone(
    job: JobType[Work, Any], how: str, tmp_path: Path
) -> None:
    bench, said = Bench(), tmp_path / "said"
    await bench.submit(job)
    await bench.submit(isolated_app.echo, *[Work(path=said)] * 30)
    await bench.submit(isolated_app.neighbour, *[Work(path=said, text="here")] * 30)
    async with bench.working():
        crashed = await bench.happens(JobCrashed, TRIES)
        [quarantined] = await bench.happens(JobQuarantined)
        await bench.happens(JobCompleted, 60)
    assert all(how in event.detail for event in crashed)
    assert how in quarantined.detail
    assert [event.attempt for event in bench.heard(JobStarted) if event.job_type == job.name] == [
        *range(1, TRIES + 1)
    ]
    assert len(bench.sqs.messages("isolated-quarantine")) == 1
    assert bench.sqs.messages(QUEUE) == []
    assert bench.heard(JobFailed) == []


async def test_a_handler_past_its_timeout_is_killed_and_fails(tmp_path: Path) -> None:
    bench, said = Bench(), tmp_path / "said"
    await bench.submit(isolated_app.endless, Work(path=said))
    async with bench.working():
        failed = await bench.happens(JobFailed, TRIES)
        [dead] = await bench.happens(JobDeadLettered)
        for line in await lines(said, TRIES):
            await gone(int(line))
    assert {event.error_type for event in failed} == {"JobTimeout"}
    assert dead.reason == "attempts-exhausted"


async def test_what_a_handler_started_is_killed_with_it(tmp_path: Path) -> None:
    bench, said = Bench(), tmp_path / "said"
    await bench.submit(isolated_app.with_child, Work(path=said))
    async with bench.working():
        await bench.happens(JobFailed)
        [pid, *_] = await lines(said)
        await gone(int(pid))


async def test_what_a_handler_raises_arrives_as_what_it_is(tmp_path: Path) -> None:
    bench = Bench()
    await bench.submit(isolated_app.failing, Work(text="no such thing"))
    await bench.submit(
        isolated_app.steering,
        *(Work(text=text) for text in ("discard", "do-not-retry", "exit")),
        Work(text="later", path=tmp_path / "said"),
    )
    async with bench.working():
        [discarded] = await bench.happens(JobDiscarded)
        await bench.happens(JobDeadLettered, 3)
        await bench.happens(JobDeferred)
        await bench.happens(JobCompleted)
    assert discarded.reason == "not needed"
    found = {(dead.error_type, dead.error_message) for dead in bench.heard(JobDeadLettered)}
    assert ("LookupError", "no such thing") in found
    assert ("SystemExit", "enough") in found
    assert {dead.reason for dead in bench.heard(JobDeadLettered)} >= {"do-not-retry"}
    failed = [event for event in bench.heard(JobFailed) if event.error_type == "LookupError"]
    assert "isolated_app.py" in failed[0].traceback


async def test_a_result_that_can_not_leave_its_process_is_a_permanent_failure() -> None:
    bench = Bench()
    await bench.submit(isolated_app.unsendable)
    async with bench.working():
        [dead] = await bench.happens(JobDeadLettered)
    assert (dead.reason, dead.error_type) == ("permanent-error", "ResultNotSerializable")
    assert "returned an object that can't leave its process" in dead.error_message
    assert len(bench.heard(JobStarted)) == 1


async def test_a_result_leaves_its_process_as_its_annotation_writes_it() -> None:
    backend, done = MemoryBackend(app, clock=SystemClock()), asyncio.Event()
    settings = WorkerSettings(children=1, concurrency=1)
    worker = Worker(app, backend, settings, events=Events(lambda event: _completes(event, done)))
    async with AsyncClient(app, backend=backend) as client:
        handle = await client.submit(isolated_app.annotated, Work(text="hunter2"))
        run = asyncio.create_task(worker.run())
        try:
            await asyncio.wait_for(done.wait(), GENEROUS_S)
            [token] = await handle.result(timeout=GENEROUS_S)
        finally:
            worker.hurry()
            await asyncio.wait_for(run, GENEROUS_S)
    assert token.get_secret_value() == "hunter2"


def _completes(event: Event, done: asyncio.Event) -> None:
    if isinstance(event, JobCompleted):
        done.set()


async def test_a_worker_that_stops_ends_its_children_and_gives_their_jobs_back(
    tmp_path: Path,
) -> None:
    bench, said = Bench(), tmp_path / "said"
    await bench.submit(isolated_app.sleeping, Work(path=said))
    async with bench.working() as worker:
        [pid, *_] = await lines(said)
        worker.hurry()
        await bench.happens(JobInterrupted)
        await gone(int(pid))
    [message] = bench.sqs.messages(QUEUE)
    assert message.state.name == "VISIBLE"
    assert "cancelled" in await lines(said, 2)


@pytest.mark.parametrize(
    "job",
    [isolated_app.sleeping, isolated_app.busy, isolated_app.swallowing],
    ids=["async", "plain", "swallowing"],
)
async def test_a_cancelled_child_ends_and_its_job_is_done_with(
    job: JobType[Work, Any], tmp_path: Path
) -> None:
    bench, said = Bench(), tmp_path / "said"
    await bench.submit(job, Work(path=said))
    async with bench.working() as worker:
        [pid, *_] = await lines(said)
        [hold] = worker._parts.running.unfinished
        hold.run.cancel("a mistake")
        [cancelled] = await bench.happens(JobCancelled)
        if job is isolated_app.busy:
            await gone(int(pid))  # the other one ended by itself, and its child is used again
        await bench.submit(isolated_app.echo)
        await bench.happens(JobCompleted)
    assert cancelled.reason == "a mistake"
    assert bench.sqs.messages(QUEUE) == bench.sqs.messages(DEAD) == []
    assert bench.heard(JobCrashed) == []


async def test_no_more_jobs_start_than_there_are_children_for(tmp_path: Path) -> None:
    bench, said = Bench(), tmp_path / "said"
    await bench.submit(isolated_app.sleeping, *[Work(path=said)] * 6)
    async with bench.working(children=2) as worker:
        await lines(said, 2)
        await bench.submit(isolated_app.neighbour, *[Work(path=said, text="goes on")] * 3)
        await bench.happens(JobCompleted, 3)
        assert worker.active() == [("sleeping", "work")] * 2
