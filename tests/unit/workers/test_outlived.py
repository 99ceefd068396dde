"""Jobs that run past the end of their messages' retention, at which SQS deletes these in flight."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

from headgate import App, AsyncClient, Backoff, JobContext, JobState, Priority, Retry
from headgate.jobs.core.events import (
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobInterrupted,
    JobStarted,
    ReceiptLost,
    SettlementFailed,
)
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.execution.outcome import Reason
from headgate.jobs.messages.envelope import parse
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Note, Rig, one_lane, without_threads

pytestmark = without_threads

RETENTION_S = timedelta(days=4).total_seconds()
BEFORE_S = 900.0
"""Seconds before the end of the retention at which the worker begins."""
RUN_S = 3_600.0


async def _nearly_over() -> None:
    """Sleep until little is left of the retention of what has just been sent."""
    await asyncio.sleep(RETENTION_S - BEFORE_S)


async def _state(rig: Rig, job_id: str) -> JobState:
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        return await client.handle(job_id).state()


async def test_a_job_completes_though_sqs_deletes_its_message_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, mail = one_lane()

    @mail.job("render", timeout=timedelta(hours=4))
    async def render(_note: Note) -> None:
        await asyncio.sleep(RUN_S)

    rig = Rig(app)
    [job_id] = await rig.submit(render)
    await _nearly_over()
    with caplog.at_level(logging.WARNING, logger="headgate.worker"):
        async with rig.working(concurrency=1):
            await rig.happens(JobCompleted)
    assert rig.remaining() == 0
    assert await _state(rig, job_id) is JobState.COMPLETED
    assert not rig.heard(ReceiptLost)
    assert not rig.heard(SettlementFailed)
    assert rig.calls("delete") == 0, "it is gone"
    [line] = [record for record in caplog.records if "retention" in record.message]
    assert MAIL in line.message


async def test_what_fails_after_the_end_of_its_message_is_retried_in_another() -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(60)))
    attempts: list[int] = []

    @mail.job("render", timeout=timedelta(hours=4))
    async def render(_note: Note, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        await asyncio.sleep(RUN_S)
        raise ConnectionError

    rig = Rig(app)
    [job_id] = await rig.submit(render)
    await _nearly_over()
    async with rig.working(concurrency=1):
        [dead] = await rig.happens(JobDeadLettered)
    assert attempts == [1, 2]
    assert (dead.job_id, dead.reason) == (job_id, Reason.ATTEMPTS_EXHAUSTED)
    assert rig.remaining() == 0
    assert len(rig.sqs.messages(DEAD_MAIL)) == 1


async def test_what_a_stop_interrupts_after_the_end_of_its_message_goes_on_in_another() -> None:
    app, mail = one_lane()

    @mail.job("render", timeout=timedelta(hours=4))
    async def render(_note: Note) -> None:
        await asyncio.sleep(RUN_S)

    rig = Rig(app)
    [job_id] = await rig.submit(render)
    await _nearly_over()
    async with rig.working(concurrency=1, drain=timedelta(seconds=1)):
        await asyncio.sleep(2 * BEFORE_S)
        assert rig.remaining() == 0
    assert len(rig.heard(JobInterrupted)) == 1
    [message] = rig.sqs.messages(MAIL)
    assert str(parse(message.body).id) == job_id
    async with rig.working(concurrency=1):
        await rig.happens(JobCompleted)
    assert rig.remaining() == 0


async def test_each_job_of_a_bundle_is_settled_after_the_end_of_its_message() -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(60)))

    @mail.job("render", timeout=timedelta(hours=4), bundle=True)
    async def render(note: Note, ctx: JobContext) -> None:
        await asyncio.sleep(RUN_S)
        if note.text == "fails" and ctx.attempt == 1:
            raise ConnectionError

    rig = Rig(app)
    ids = await rig.submit(render, "works", "fails")
    assert rig.remaining() == 1
    await _nearly_over()
    async with rig.working(concurrency=2):
        done = await rig.happens(JobCompleted, 2)
    assert [event.job_id for event in done] == ids
    assert len(rig.heard(JobFailed)) == 1
    assert rig.remaining() == 0
    assert not rig.heard(ReceiptLost)


async def test_what_waits_behind_a_fifo_job_starts_after_the_end_of_its_message() -> None:
    app = App("shop")
    ledger = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])

    @ledger.job("book", group_by=lambda _note: "a", timeout=timedelta(hours=4))
    async def book(note: Note) -> None:
        await asyncio.sleep(RUN_S)
        if note.text == "first":
            raise ConnectionError

    rig = Rig(app)
    await rig.submit(book, "first", "second")
    await _nearly_over()
    async with rig.working(concurrency=2):
        [dead] = await rig.happens(JobDeadLettered)
        await rig.happens(JobCompleted)
    assert dead.reason is Reason.WAIT_TOO_LONG
    assert len(rig.heard(JobStarted)) == 2
    assert rig.remaining() == 0


async def test_what_another_worker_may_have_is_left_to_it_after_the_retention_as_well() -> None:
    app, mail = one_lane(Retry(max_attempts=1), visibility_s=300)

    @mail.job("render", timeout=timedelta(hours=4))
    async def render(_note: Note) -> None:
        await asyncio.sleep(RUN_S)

    rig = Rig(app)
    await rig.submit(render)
    await _nearly_over()
    async with rig.working(concurrency=1):
        await rig.happens(JobStarted)
        # Until after the retention, so that the refusal alone does not tell why.
        rig.sqs.faults.raise_on("change_visibility", ServiceUnavailable("503"), times=25)
        [taken] = [
            message
            for _ in range(20)
            for message in await rig.sqs.receive(MAIL, limit=1, wait_s=20, visibility_s=9_000)
        ]
        assert taken.receive_count == 2
        await rig.happens(ReceiptLost, 2)
        await asyncio.sleep(RUN_S)
    assert not rig.heard(JobFailed)
    assert not rig.heard(JobCompleted)
    assert not rig.sqs.messages(DEAD_MAIL)
