"""Resources of an attempt and code around it, in child processes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headgate import AsyncClient
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import Event, Events, JobProgress
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import ChildFailed
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Done, Failed, Interrupted, Outcome
from headgate.jobs.execution.run import Run
from headgate.jobs.testing import MemorySqs
from headgate.workers.isolation.child_pool import ChildPool
from tests.support import surrounded_app
from tests.support.backends import async_over
from tests.support.isolated_app import Work
from tests.support.journal import GENEROUS_S
from tests.support.surrounded_app import app

CLOCK = SystemClock()

BOTH = pytest.mark.parametrize("job", [surrounded_app.run_plainly, surrounded_app.run])


@asynccontextmanager
async def one_child(**options: Any) -> AsyncIterator[ChildPool]:
    pool = ChildPool(
        "tests.support.surrounded_app:app",
        size=1,
        clock=CLOCK,
        rng=random.Random(1),  # noqa: S311 - spreads pauses
        on_fault=pytest.fail,
        **options,
    )
    await pool.start()
    try:
        yield pool
    finally:
        await pool.close()


async def begun(
    pool: ChildPool, job: JobType[Work, Any], text: str = "", *hear: Callable[[Event], None]
) -> Run:
    sqs = MemorySqs(CLOCK)
    sqs.provision(app.topology)
    async with AsyncClient(app, backend=async_over(sqs)) as client:
        await client.submit(job, Work(text=text))
    queue = app.topology.queue("work", job.priority)
    [message] = await sqs.receive(queue.name, limit=1, wait_s=0)
    means = Means(app=app, clock=CLOCK, events=Events(*hear), call_isolated=pool.call)
    delivery = Delivery(message=message, queue=queue, received_at=CLOCK.monotonic())
    return Run(Executor(means), delivery)


async def outcome(pool: ChildPool, job: JobType[Work, Any], text: str = "") -> Outcome:
    async with asyncio.timeout(GENEROUS_S):
        run = await begun(pool, job, text)
        return (await run.verdict()).outcome


@BOTH
async def test_a_child_opens_attempt_resources_per_job_and_keeps_process_ones(
    job: JobType[Work, Any],
) -> None:
    async with one_child() as pool:
        first, second = await outcome(pool, job), await outcome(pool, job)
    for number, ended in enumerate((first, second), start=1):
        wanted = {"told": "around", "log": ["async"], "here": True, "number": number}
        assert ended == Done(result=wanted)


@BOTH
async def test_arounds_of_a_child_translate_and_swallow(job: JobType[Work, Any]) -> None:
    async with one_child() as pool:
        failed = await outcome(pool, job, "fail")
        swallowed = await outcome(pool, job, "swallow")
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, ChildFailed)
    assert str(failed.error) == f"translated it of {job.name}"
    assert swallowed == Done(result=None)


@BOTH
@pytest.mark.parametrize("text", ["exit", "stop-iteration"])
async def test_an_odd_exception_within_an_around_is_its_own_jobs_failure(
    job: JobType[Work, Any], text: str
) -> None:
    async with one_child() as pool:
        odd, next_one = await outcome(pool, job, text), await outcome(pool, job)
    assert isinstance(odd, Failed)
    assert isinstance(next_one, Done)
    assert next_one.result["number"] == 2  # in the same process


async def test_at_the_timeout_a_child_is_killed_and_nothing_is_closed_there() -> None:
    async with one_child() as pool:
        ended = await outcome(pool, surrounded_app.endless)
        assert isinstance(await outcome(pool, surrounded_app.run), Done)
    assert isinstance(ended, Failed)
    assert "ran past its timeout of 1 s" in str(ended.error)


async def test_an_interrupted_child_leaves_what_is_around_its_handler() -> None:
    told: list[str] = []
    news = asyncio.Event()

    def hear(event: Event) -> None:
        if isinstance(event, JobProgress):
            told.append(event.note)
            news.set()

    async with one_child() as pool, asyncio.timeout(GENEROUS_S):
        run = await begun(pool, surrounded_app.sleeping, "", hear)
        running = asyncio.create_task(run.verdict())
        await news.wait()
        run.interrupt("the worker stops")
        verdict = await running
    assert isinstance(verdict.outcome, Interrupted)
    assert told == ["sleeping", "handler", "around"]


async def test_a_synchronous_handler_within_an_around_submits_and_waits_for_sqs() -> None:
    sent: list[Any] = []

    async def take(message: Any) -> None:
        sent.append(message)

    async with one_child(answers={"submit": take}) as pool:
        assert await outcome(pool, surrounded_app.submitting) == Done(result=None)
    assert len(sent) == 1
