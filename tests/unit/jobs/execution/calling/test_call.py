"""A handler that has returned is done, even if its attempt was about to be ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from headgate import AsyncClient, JobContext
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.execution.calling.call import HandlerCall
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Done, Failed, Interrupted
from headgate.jobs.execution.run import Run
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.testing import LoopClock, MemorySqs
from tests.support.backends import async_over
from tests.unit.workers.rig import MAIL, Note, one_lane

pytestmark = pytest.mark.looptime

APP, MAILS = one_lane()
CLOCK = LoopClock()


@MAILS.job("plain")
def plain(note: Note) -> str:
    if note.text == "fails":
        raise ValueError(note.text)
    return note.text


@MAILS.job("parent")
async def parent(note: Note, ctx: JobContext) -> str:
    _ = ctx.submit(plain, Note())
    return note.text


class _LateSeat:
    """A place in a call that asks for the context after a while."""

    def secrets(self) -> frozenset[str]:
        return frozenset()

    async def result(self, call: HandlerCall) -> datetime:
        await asyncio.sleep(5)
        return call.ctx.deadline

    def interrupt(self) -> None:
        """Nothing is interrupted here."""


def _no_handle(*_given: object) -> None:
    """Make no handle: nothing looks the jobs up."""


def _means(**of_the_host: Any) -> Means:
    return Means(app=APP, clock=CLOCK, events=Events(), **of_the_host)


async def _run_of(job: JobType[Note, Any], text: str, means: Means) -> Run:
    sqs = MemorySqs(CLOCK)
    sqs.provision(APP.topology)
    async with AsyncClient(APP, backend=async_over(sqs, clock=CLOCK)) as client:
        await client.submit(job, Note(text=text))
    [message] = await sqs.receive(MAIL, limit=1, wait_s=0)
    queue = APP.topology.queues[0]
    return Run(Executor(means), Delivery(message=message, queue=queue, received_at=0))


@pytest.mark.parametrize(("text", "kind"), [("returns", Done), ("fails", Failed)])
async def test_a_thread_that_has_ended_counts_though_its_job_is_abandoned(
    text: str, kind: type[Any]
) -> None:
    ended = asyncio.Event()

    async def call(function: Callable[[], Any]) -> Any:
        with suppress(ValueError):
            function()
        ended.set()
        await asyncio.Event().wait()

    run = await _run_of(plain, text, _means(call_blocking=call))
    verdict = asyncio.create_task(run.verdict())
    await ended.wait()
    run.interrupt("the worker is stopping", abandon=True)
    assert isinstance((await verdict).outcome, kind)


async def test_a_thread_that_goes_on_is_interrupted() -> None:
    began = asyncio.Event()

    async def call(_function: Callable[[], Any]) -> Any:
        began.set()
        await asyncio.Event().wait()

    run = await _run_of(plain, "", _means(call_blocking=call))
    verdict = asyncio.create_task(run.verdict())
    await began.wait()
    run.interrupt("the worker is stopping", abandon=True)
    assert isinstance((await verdict).outcome, Interrupted)


@pytest.mark.parametrize("how", ["interrupted", "cancelled"])
async def test_what_a_handler_submitted_is_waited_for_once_it_has_returned(how: str) -> None:
    sent: list[asyncio.Future[Any]] = []

    def send(_submission: Submission) -> asyncio.Future[Any]:
        sent.append(asyncio.get_running_loop().create_future())
        return sent[-1]

    run = await _run_of(parent, "done", _means(send=send, handles=_no_handle))
    verdict = asyncio.create_task(run.verdict())
    await asyncio.sleep(1)
    if how == "interrupted":
        run.interrupt("the worker is stopping")
    else:
        run.cancel("a mistake")
    await asyncio.sleep(1)
    sent[0].set_result(None)
    assert (await verdict).outcome == Done(result="done")


async def test_a_worker_that_has_to_end_does_not_wait_for_what_a_handler_submitted() -> None:
    def send(_submission: Submission) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    run = await _run_of(parent, "done", _means(send=send, handles=_no_handle))
    verdict = asyncio.create_task(run.verdict())
    await asyncio.sleep(1)
    run.interrupt("the worker is stopping")
    run.interrupt("the worker is stopping", abandon=True)
    assert isinstance((await verdict).outcome, Interrupted)


async def test_a_context_that_is_asked_for_late_has_the_deadline_of_its_attempt() -> None:
    run = await _run_of(plain, "", _means())
    assert run.job is not None
    call = HandlerCall(_means(), run.job, run.delivery, {}, _LateSeat())
    began = CLOCK.now()
    outcome = await call.outcome()
    assert isinstance(outcome, Done)
    assert outcome.result == began + timedelta(seconds=run.job.timeout_s)
