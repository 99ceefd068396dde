"""A Lambda consumer reads large payloads and foreign messages as a worker does."""

from __future__ import annotations

import asyncio

from headgate import Accepts, App, Backoff, Client, Priority, Retry
from headgate.jobs.core.events import Events, JobCompleted, JobDeferred
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.testing import MemoryStore
from headgate.lambdas.consume import consumer
from tests.support.backends import async_over, over
from tests.unit.lambdas.test_consume import Function, Note

QUEUE = "shop-mail-normal"


def _function(ran: list[int]) -> tuple[Function, MemoryStore]:
    app = App("shop")
    retry = Retry(max_attempts=3, backoff=Backoff.fixed(40))
    queue = app.queue("mail", priorities=[Priority.NORMAL], retry=retry)

    @queue.job("send", accepts=Accepts.json())
    async def send(note: Note) -> None:
        ran.append(len(note.text))

    function, store = Function(app, QUEUE), MemoryStore()
    function.consumer.close()
    function.consumer = consumer(
        app,
        events=Events(function.events.append),
        backend=async_over(function.sqs, store=store, clock=function.clock),
    )
    with Client(app, backend=over(function.sqs.sync, store=store.sync)) as client:
        client.submit(send, Note(text="y" * 300_000))
    return function, store


def test_a_large_payload_is_read_before_its_job_runs() -> None:
    ran: list[int] = []
    function, _ = _function(ran)

    assert function.invoke() == {"batchItemFailures": []}

    assert ran == [300_000]
    function.consumer.close()


def test_a_store_that_can_not_be_asked_gives_the_job_back() -> None:
    ran: list[int] = []
    function, store = _function(ran)
    store.fail("get", ServiceUnavailable("S3 does not answer"))

    assert len(function.invoke()["batchItemFailures"]) == 1

    assert function.heard(JobDeferred) == 1
    assert ran == []
    function.consumer.close()


def test_a_foreign_message_is_run_in_the_same_batch() -> None:
    ran: list[int] = []
    function, _ = _function(ran)
    asyncio.run(function.sqs.send(QUEUE, [OutgoingMessage(body='{"text": "abc"}')]))

    assert function.invoke() == {"batchItemFailures": []}

    assert sorted(ran) == [3, 300_000]
    assert function.heard(JobCompleted) == 2
    function.consumer.close()
