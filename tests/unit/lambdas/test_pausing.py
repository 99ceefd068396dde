"""Paused queues, types and tenants in a function: what comes goes back unstarted."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Backoff, Client, JobContext, JobState, Priority, Retry
from headgate.jobs.core.events import JobDeadLettered, QueuePaused, QueueResumed
from headgate.jobs.records.items import Mark, partition
from tests.support.functions import Function
from tests.unit.workers.rig import MAIL, Note, one_lane


def pause(function: Function, **named: Any) -> None:
    with Client(function.app, backend=function.backend) as client:
        client.pauses.create(**named)


def resume(function: Function, **named: Any) -> None:
    with Client(function.app, backend=function.backend) as client:
        assert client.pauses.remove(**named)


def test_what_is_paused_goes_back_with_a_delay_and_loses_no_attempt() -> None:
    app, mail = one_lane()
    attempts: list[int] = []

    @mail.job("send", retry=Retry(max_attempts=1))
    async def send(_note: Note, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)

    function = Function(app, queue=MAIL)
    pause(function, queue="mail")
    [job_id] = function.submit(send, Note())
    for _ in range(5):
        response = function.invoke()
        assert response is not None
        assert len(response["batchItemFailures"]) == 1
        [message] = function.messages()
        assert message.visible_at is not None
        wait = message.visible_at - function.clock.now()
        assert timedelta(seconds=4) <= wait <= timedelta(seconds=72)
        function.clock.advance(wait + timedelta(seconds=1))
    assert (attempts, function.heard(QueuePaused)) == ([], 1)
    marks = asyncio.run(function.table.query(partition(job_id)))
    assert sum(item.sk.endswith(f"#{Mark.RELEASED}") for item in marks) == 3, "of 1, 2 and 4"

    resume(function, queue="mail")
    function.clock.advance(60)
    function.drain()
    assert (attempts, function.heard(QueueResumed)) == ([1], 1)
    with Client(app, backend=function.backend) as client:
        assert client.handle(job_id).state() is JobState.COMPLETED
    function.close()


def test_a_paused_job_that_is_cancelled_leaves_its_queue_before_the_cancellation_does() -> None:
    app, mail = one_lane()

    @mail.job("send")
    async def send(_note: Note) -> None:
        raise AssertionError

    function = Function(app, queue=MAIL)
    pause(function, queue="mail")
    with Client(app, backend=function.backend) as client:
        handle = client.submit(send, Note())
        handle.cancel("a mistake")
        assert function.invoke() == {"batchItemFailures": []}
        assert handle.state() is JobState.CANCELLED
    assert function.messages() == []
    function.close()


def test_the_others_of_a_batch_run_beside_a_paused_tenant() -> None:
    app, mail = one_lane()
    ran: list[str] = []

    @mail.job("send")
    async def send(note: Note) -> None:
        ran.append(note.text)

    function = Function(app, queue=MAIL)
    pause(function, tenant="acme")
    function.submit(send, Note(text="paused"), tenant="acme")
    function.submit(send, Note(text="runs"), tenant="other")
    function.invoke()
    assert (ran, len(function.messages())) == (["runs"], 1)
    function.close()


@pytest.mark.parametrize("records", ["off", "outcomes"])
def test_a_paused_type_keeps_its_attempts_whatever_counts_them(records: Any) -> None:
    app, mail = one_lane()
    attempts: list[int] = []

    @mail.job("send", records=records, retry=Retry(max_attempts=2, backoff=Backoff.fixed(1)))
    async def send(_note: Note, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        raise ConnectionError

    @mail.job("other")
    async def other(_note: Note) -> None: ...

    function = Function(app, queue=MAIL)
    pause(function, job_type=send)
    function.submit(send, Note())
    for _ in range(10):
        function.invoke()
        function.clock.advance(60)
    assert attempts == []
    resume(function, job_type=send)
    function.drain()
    assert (attempts, function.heard(JobDeadLettered)) == ([1, 2], 1)
    function.close()


def test_a_fifo_group_waits_in_order_behind_a_paused_job() -> None:
    app = App("shop")
    queue = app.queue("mail", priorities=[Priority.NORMAL], fifo=True)
    ran: list[str] = []

    @queue.job("send", group_by=lambda note: note.text[0])
    async def send(note: Note) -> None:
        ran.append(note.text)

    function = Function(app, queue="shop-mail-normal.fifo")
    pause(function, tenant="acme")
    function.submit(send, Note(text="a1"), tenant="other")
    function.submit(send, Note(text="a2"), tenant="acme")
    function.submit(send, Note(text="a3"), tenant="other")
    function.submit(send, Note(text="b1"), tenant="other")
    function.invoke()
    assert sorted(ran) == ["a1", "b1"]
    resume(function, tenant="acme")
    function.clock.advance(60)
    function.drain()
    assert [text for text in ran if text[0] == "a"] == ["a1", "a2", "a3"]
    function.close()
