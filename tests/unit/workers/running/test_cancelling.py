"""Cancelled jobs: waiting ones never start, running ones are ended, and none comes back."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, AsyncClient, Backoff, JobContext, JobState, Retry
from headgate.jobs.core.events import (
    CancellationsFailed,
    JobCancelled,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobInterrupted,
    JobStarted,
)
from headgate.jobs.core.ports.table import Page
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.core.topology import Priority
from headgate.jobs.definitions.queue import Queue
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.records.cancellation import CANCELLATIONS
from headgate.jobs.records.cancellations import POLL_S
from headgate.jobs.testing import MessageState
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Gate, Note, Rig, lanes

pytestmark = pytest.mark.looptime


def mailing(records: RecordsLevel = "failures", **options: Any) -> tuple[App, Queue]:
    """Return an app with the one queue ``shop-mail-normal``."""
    app = App("shop", records=records)
    lane = lanes(30)[Priority.NORMAL]
    queue = app.queue(
        "mail", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lane}, **options
    )
    return app, queue


async def cancel(rig: Rig, job_id: str, reason: str = "a mistake") -> None:
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        await client.handle(job_id).cancel(reason)


async def state(rig: Rig, job_id: str) -> JobState:
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        return await client.handle(job_id).state()


async def test_what_was_cancelled_before_the_worker_started_never_starts() -> None:
    app, mail = mailing()
    gate = Gate()
    mail.job("send")(gate.__call__)
    rig = Rig(app)
    first, second = await rig.submit(app.types["send"], "first", "second")
    await cancel(rig, first)
    gate.open("second")

    async with rig.working():
        [cancelled] = await rig.happens(JobCancelled)
        await rig.happens(JobCompleted)

    assert gate.started == ["second"]
    assert (cancelled.job_id, cancelled.reason) == (first, "a mistake")
    assert rig.remaining() == len(rig.sqs.messages(DEAD_MAIL)) == 0
    assert await state(rig, first) is JobState.CANCELLED
    assert second != first


async def test_what_is_cancelled_while_it_is_delayed_never_starts() -> None:
    app, mail = mailing()
    gate = Gate()
    mail.job("send")(gate.__call__)
    rig = Rig(app)
    async with rig.working():
        [job_id] = await rig.submit(app.types["send"], delay=timedelta(minutes=5))
        await asyncio.sleep(60)
        await cancel(rig, job_id)
        await rig.happens(JobCancelled)
    assert gate.started == []
    assert rig.remaining() == 0


async def test_a_cancelled_job_that_arrives_during_a_stop_is_not_given_back() -> None:
    app, mail = mailing()
    gate = Gate()
    mail.job("send")(gate.__call__)
    rig = Rig(app)
    async with rig.working() as worker:
        cancelled, _ = await rig.submit(app.types["send"], "a", "b", delay=timedelta(seconds=30))
        await cancel(rig, cancelled)
        await asyncio.sleep(28)
        worker.stop()  # a poll is under way until 40 s
    assert [event.job_id for event in rig.heard(JobCancelled)] == [cancelled]
    assert gate.started == []
    assert [message.state for message in rig.sqs.messages(MAIL)] == [MessageState.VISIBLE]


async def test_what_waits_here_for_a_slot_is_settled_without_one() -> None:
    app = App("shop", records="failures", priorities="all")
    gate = Gate()
    app.queue("mail").job("send")(gate.__call__)
    rig = Rig(app)
    async with rig.working(concurrency=1, give_back_after=timedelta(hours=1)):
        await asyncio.sleep(1)  # every queue has a poll, which brings any message, slot or none
        [busy] = await rig.submit(app.types["send"], "busy")
        await gate.reached(1)
        [waiting] = await rig.submit(app.types["send"], "waiting", priority=Priority.LOW)
        await asyncio.sleep(1)
        assert rig.in_flight() == 2
        await cancel(rig, waiting)
        [cancelled] = await rig.happens(JobCancelled)
        assert gate.started == ["busy"]  # whose slot is still taken
        gate.open("busy")
        [completed] = await rig.happens(JobCompleted)
    assert (cancelled.job_id, completed.job_id) == (waiting, busy)
    assert rig.remaining() == 0


async def test_a_running_async_job_is_ended_and_not_run_again() -> None:
    app, mail = mailing()
    cleaned_up: list[str] = []

    @mail.job("send")
    async def send(note: Note, ctx: JobContext) -> None:
        try:
            await asyncio.sleep(100_000)
        finally:
            cleaned_up.append(note.text)
            assert ctx.cancelled

    rig = Rig(app)
    async with rig.working():
        [job_id] = await rig.submit(send, "one")
        await rig.happens(JobStarted)
        began = rig.clock.monotonic()
        await cancel(rig, job_id)
        [cancelled] = await rig.happens(JobCancelled)
        assert rig.clock.monotonic() - began <= POLL_S * 1.2 + 0.1
    assert cleaned_up == ["one"]
    assert (cancelled.attempt, cancelled.reason) == (1, "a mistake")
    assert rig.heard(JobInterrupted) == []
    assert rig.remaining() == 0
    assert await state(rig, job_id) is JobState.CANCELLED


async def test_of_running_jobs_only_the_cancelled_one_is_ended() -> None:
    app, mail = mailing()
    gate = Gate()
    mail.job("send")(gate.__call__)
    rig = Rig(app)
    async with rig.working():
        one, two = await rig.submit(app.types["send"], "one", "two")
        await gate.reached(2)
        await cancel(rig, one)
        await rig.happens(JobCancelled)
        gate.open("two")
        [completed] = await rig.happens(JobCompleted)
    assert completed.job_id == two
    assert gate.ended == ["two"]


async def test_a_handler_that_fails_while_it_is_cancelled_is_not_tried_again() -> None:
    app, mail = mailing()

    @mail.job("send")
    async def send(_note: Note) -> None:
        try:
            await asyncio.sleep(100_000)
        except asyncio.CancelledError:
            raise ValueError("while cleaning up") from None

    rig = Rig(app)
    async with rig.working():
        [job_id] = await rig.submit(send)
        await rig.happens(JobStarted)
        await cancel(rig, job_id)
        await rig.happens(JobCancelled)
    assert len(rig.heard(JobFailed)) == 1
    assert rig.heard(JobDeadLettered) == []
    assert rig.remaining() == len(rig.sqs.messages(DEAD_MAIL)) == 0


async def test_a_handler_that_returns_though_it_was_cancelled_has_completed() -> None:
    app, mail = mailing()

    @mail.job("send")
    async def send(_note: Note) -> None:
        try:
            await asyncio.sleep(100_000)
        except asyncio.CancelledError:
            return  # it insists

    rig = Rig(app)
    async with rig.working():
        [job_id] = await rig.submit(send)
        await rig.happens(JobStarted)
        await cancel(rig, job_id)
        await rig.happens(JobCompleted)
    assert rig.heard(JobCancelled) == []
    assert rig.remaining() == 0


async def test_a_failed_job_that_is_cancelled_before_its_retry_is_done_with() -> None:
    app, mail = mailing(retry=Retry(max_attempts=3, backoff=Backoff.fixed(60)))
    runs: list[int] = []

    @mail.job("send")
    async def send(_note: Note, ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        if ctx.attempt == 1:
            await cancel(rig, ctx.id)
        raise ConnectionError

    rig = Rig(app)
    async with rig.working():
        await rig.submit(send)
        await rig.happens(JobCancelled)
    assert runs == [1]
    assert rig.remaining() == 0


async def test_a_shutdown_during_a_cancellation_leaves_nothing_behind() -> None:
    app, mail = mailing()
    cancelled = asyncio.Event()

    @mail.job("send")
    async def send(_note: Note) -> None:
        try:
            await asyncio.sleep(100_000)
        finally:
            cancelled.set()
            await asyncio.sleep(1)

    rig = Rig(app)
    async with rig.working(drain=timedelta(0)) as worker:
        [job_id] = await rig.submit(send)
        await rig.happens(JobStarted)
        await cancel(rig, job_id)
        await cancelled.wait()
        worker.stop()
    assert len(rig.heard(JobCancelled)) == 1
    assert rig.remaining() == 0


async def test_a_fifo_group_goes_on_behind_a_cancelled_job() -> None:
    app = App("shop", records="failures")
    ledger = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    gate = Gate()
    ledger.job("book", group_by=lambda _note: "one")(gate.__call__)
    rig = Rig(app)
    first, second, third = await rig.submit(app.types["book"], "first", "second", "third")
    gate.open("third")
    async with rig.working():
        await gate.reached(1)
        await cancel(rig, second)
        await rig.happens(JobCancelled)
        await cancel(rig, first)
        await rig.happens(JobCancelled, 2)
        [completed] = await rig.happens(JobCompleted)
    assert completed.job_id == third
    assert gate.started == ["first", "third"]
    assert rig.remaining() == 0


async def test_the_table_is_asked_once_at_the_start_and_then_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, mail = mailing()
    mail.job("send")(Gate().__call__)
    rig = Rig(app)
    asked: list[str] = []
    page = rig.table.page

    async def noted(pk: str, **options: Any) -> Page:
        asked.append(pk)
        return await page(pk, **options)

    monkeypatch.setattr(rig.table, "page", noted)
    async with rig.working():
        await asyncio.sleep(600)
    assert 600 / POLL_S * 0.9 <= asked.count(CANCELLATIONS) <= 600 / POLL_S * 1.1
    assert set(rig.table.calls) == {"page", "put", "delete"}


async def test_without_records_the_table_is_never_asked() -> None:
    app, mail = mailing("off")
    gate = Gate()
    gate.open("")
    mail.job("send")(gate.__call__)
    rig = Rig(app)
    async with rig.working():
        await rig.submit(app.types["send"])
        await rig.happens(JobCompleted)
        await asyncio.sleep(60)
    assert rig.table.calls == []


async def test_a_table_that_is_away_is_told_once_and_known_cancellations_hold() -> None:
    app, mail = mailing()
    gate = Gate()
    mail.job("send")(gate.__call__)
    rig = Rig(app)
    [job_id] = await rig.submit(app.types["send"], delay=timedelta(minutes=1))
    await cancel(rig, job_id)
    async with rig.working():
        await asyncio.sleep(1)
        rig.table.faults.raise_on(None, ServiceUnavailable("gone"), times=1000)
        await rig.happens(JobCancelled)
        await asyncio.sleep(60)
        assert len(rig.heard(CancellationsFailed)) == 1
        rig.table.faults.clear()
    assert gate.started == []


async def test_an_expired_cancellation_is_forgotten() -> None:
    app, mail = mailing()
    gate = Gate()
    gate.open("")
    mail.job("send")(gate.__call__)
    rig = Rig(app)
    await cancel(rig, "0196a2b4-0000-7000-8000-000000000001")
    await asyncio.sleep(timedelta(days=4).total_seconds() + 1)
    async with rig.working():
        await rig.submit(app.types["send"])
        await rig.happens(JobCompleted)
    assert await rig.table.query(CANCELLATIONS) == []
    assert MAIL in {spec.name for spec in app.topology.queues}
