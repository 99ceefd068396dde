"""Jobs that need more time than their function has: they fail, and don't come back for ever."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Backoff, Batch, BatchContext, JobContext, Priority, Retry
from headgate.jobs.core.events import (
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobInterrupted,
    JobStarted,
)
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.core.topology import Lane
from headgate.jobs.records.items import partition
from headgate.jobs.testing import MessageState
from tests.support.functions import Function, Note, function_of_mail, submitted

THREE = Retry(max_attempts=3, backoff=Backoff.fixed(10))
WHY = "'send' ran past its timeout of 27 s: the function has no more for a job"


def mail(send: Callable[..., Any], **options: Any) -> Any:
    """Return a function of 30 s, of which jobs have 27."""
    return function_of_mail(send, **{"retry": THREE, "visibility_s": 180, **options})


def errors(deployed: Function) -> list[str]:
    return [each.error_message for each in deployed.events if isinstance(each, JobFailed)]


@pytest.mark.parametrize(
    ("once", "records"), [(False, "outcomes"), (True, "outcomes"), (False, "off"), (True, "off")]
)
def test_a_job_that_needs_more_than_the_function_has_is_given_up_after_its_attempts(
    once: bool, records: RecordsLevel
) -> None:
    async def send(_note: Note) -> None:
        await asyncio.sleep(60)

    with mail(send, once=once, records=records) as deployed:
        submitted(deployed, "long")
        deployed.drain()
        assert errors(deployed) == [WHY] * 3
        assert deployed.heard(JobInterrupted) == 0
        [dead] = [each for each in deployed.events if isinstance(each, JobDeadLettered)]
        assert (dead.reason, dead.error_type) == ("attempts-exhausted", "JobTimeout")


def test_a_job_that_began_late_is_given_back_at_no_attempt() -> None:
    attempts: list[int] = []

    async def send(_note: Note, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        await asyncio.sleep(20)

    with mail(send, options={"concurrency": 1}) as deployed:
        submitted(deployed, "a", "b")
        deployed.drain()
        assert (deployed.heard(JobInterrupted), deployed.heard(JobFailed)) == (1, 0)
        assert deployed.heard(JobCompleted) == 2
    assert attempts == [1, 1, 1]


def test_a_job_that_ends_in_time_after_all_has_not_failed() -> None:
    async def send(note: Note) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if note.text != "saved":
                raise

    with mail(send) as deployed:
        submitted(deployed, "saved")
        assert deployed.invoke() == {"batchItemFailures": []}
        assert (deployed.heard(JobCompleted), deployed.heard(JobFailed)) == (1, 0)


def test_behind_one_of_a_fifo_group_that_ran_out_of_time_no_attempt_is_used() -> None:
    attempts: Counter[str] = Counter()
    lane = Lane(visibility=timedelta(seconds=180), start_within=timedelta(0), share=0)
    app = App("shop", records="outcomes")
    queue = app.queue(
        "mail",
        priorities=[Priority.NORMAL],
        lanes={Priority.NORMAL: lane},
        retry=Retry(max_attempts=1),
        fifo=True,
    )

    @queue.job("send", group_by=lambda _: "g")
    async def send(note: Note) -> None:
        attempts[note.text] += 1
        await asyncio.sleep(60 if note.text == "long" else 1)

    deployed = Function(app, app.topology.queues[-1].name)
    submitted(deployed, "long", "b", "c")
    deployed.drain()
    deployed.close()
    assert attempts == {"long": 1, "b": 1, "c": 1}
    assert deployed.heard(JobCompleted) == 2


def test_jobs_that_share_a_call_have_the_time_for_themselves_before_they_fail() -> None:
    calls: list[list[str]] = []

    async def send(items: list[Note], _ctx: BatchContext) -> None:
        calls.append([item.text for item in items])
        await asyncio.sleep(sum(40 if item.text == "long" else 12 for item in items))

    app = App("shop")
    lane = Lane(visibility=timedelta(seconds=180), start_within=timedelta(0), share=0)
    queue = app.queue("mail", priorities=["normal"], lanes={Priority.NORMAL: lane})
    queue.job("send", batch=Batch(3), retry=Retry(max_attempts=1))(send)
    deployed = Function(app, app.topology.queues[-1].name)
    submitted(deployed, "a", "long", "b")
    deployed.drain()
    deployed.close()
    assert (sorted(calls[0]), sorted(calls[1:])) == (["a", "b", "long"], [["a"], ["b"], ["long"]])
    assert (deployed.heard(JobCompleted), errors(deployed)) == (2, [WHY])


# --- synchronous handlers ------------------------------------------------------------------------


def pass_time(deployed: Function, seconds: float) -> None:
    """Let time pass in a handler's thread."""
    deployed.clock.advance(seconds)
    deployed.loop.call_soon_threadsafe(lambda: None)


def until_cancelled(ctx: JobContext) -> None:
    while not ctx.cancelled:
        threading.Event().wait(0.001)


@pytest.mark.parametrize(
    ("timeout", "why"), [(None, WHY), (20, "'send' ran past its timeout of 20 s")]
)
def test_a_plain_handler_that_can_not_be_stopped_has_failed_and_stays_hidden(
    timeout: int | None, why: str
) -> None:
    let_go = threading.Event()

    def send(_note: Note, ctx: JobContext) -> None:
        pass_time(deployed, 21)  # its own timeout, if it has one
        if timeout:
            until_cancelled(ctx)
        pass_time(deployed, 6)  # the function's time
        until_cancelled(ctx)
        pass_time(deployed, 1)  # until it is abandoned
        let_go.wait(60)

    with mail(send, retry=Retry(max_attempts=2)) as deployed:
        deployed.app.types["send"].timeout = timeout and timedelta(seconds=timeout)
        submitted(deployed, "stuck")
        deployed.invoke()
        [left] = deployed.messages()
        assert left.state is MessageState.IN_FLIGHT
        assert errors(deployed) == [why]

        deployed.clock.advance(180)
        deployed.invoke()
        assert errors(deployed) == [why] * 2
        assert (deployed.heard(JobDeadLettered), deployed.messages()) == (1, [])
        assert deployed.heard(JobStarted) == 2
        let_go.set()


def test_a_plain_once_job_that_goes_on_out_of_time_keeps_its_claim() -> None:
    let_go = threading.Event()

    def send(_note: Note, ctx: JobContext) -> None:
        pass_time(deployed, 27)
        until_cancelled(ctx)
        pass_time(deployed, 1)
        let_go.wait(60)

    with mail(send, once=True) as deployed:
        [job] = submitted(deployed, "stuck")
        deployed.invoke()
        claim = asyncio.run(deployed.table.get(partition(job), "claim"))
        let_go.set()
        assert errors(deployed) == [WHY]
    assert claim is not None
    assert claim.data["state"] == "running", "given back, another would run it at the same time"


def test_a_plain_handler_that_stops_out_of_time_has_failed() -> None:
    def send(_note: Note, ctx: JobContext) -> None:
        pass_time(deployed, 27)
        until_cancelled(ctx)
        ctx.raise_if_cancelled()

    with mail(send) as deployed:
        submitted(deployed, "slow")
        deployed.invoke()
        assert (errors(deployed), deployed.heard(JobInterrupted)) == ([WHY], 0)
