"""A child process reads the payloads that its worker reads: old, foreign and large ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from headgate import AsyncClient, Priority
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Done
from headgate.jobs.execution.run import Run
from headgate.jobs.testing import MemorySqs, MemoryStore
from headgate.workers.isolation.child_pool import ChildPool
from tests.crash.test_child_pool import CLOCK, pool_of
from tests.support.backends import async_over
from tests.support.journal import GENEROUS_S
from tests.support.versioned_app import Note, app, measure

SPEC = app.topology.queue("work", Priority.NORMAL)


@pytest.fixture
async def pool() -> AsyncIterator[ChildPool]:
    async with pool_of("tests.support.versioned_app:app") as (pool, _):
        yield pool


@pytest.fixture
def sqs() -> MemorySqs:
    sqs = MemorySqs(CLOCK)
    sqs.provision(app.topology)
    return sqs


async def result(pool: ChildPool, sqs: MemorySqs, store: MemoryStore | None = None) -> object:
    """Return the handler's result for the waiting message."""
    [message] = await sqs.receive(SPEC.name, limit=1, wait_s=0)
    means = Means(app=app, clock=CLOCK, events=Events(), call_isolated=pool.call, store=store)
    delivery = Delivery(message=message, queue=SPEC, received_at=CLOCK.monotonic())
    async with asyncio.timeout(GENEROUS_S):
        outcome = (await Run(Executor(means), delivery).verdict()).outcome
    assert isinstance(outcome, Done), outcome
    return outcome.result


async def test_a_payload_of_an_older_schema_is_upgraded(pool: ChildPool, sqs: MemorySqs) -> None:
    body = {
        "v": 1,
        "id": "019b7ca4-7a2e-7000-8000-000000000001",
        "type": "measure",
        "payload": {"body": "four"},
        "queue": "work",
        "priority": "normal",
        "submitted_at": "2026-01-02T03:04:05Z",
    }
    await sqs.send(SPEC.name, [OutgoingMessage(body=json.dumps(body))])

    assert await result(pool, sqs) == 4


async def test_a_foreign_message_is_run(pool: ChildPool, sqs: MemorySqs) -> None:
    await sqs.send(SPEC.name, [OutgoingMessage(body='{"text": "foreign"}')])

    assert await result(pool, sqs) == 7


async def test_a_payload_from_the_object_store_is_handed_over(
    pool: ChildPool, sqs: MemorySqs
) -> None:
    store = MemoryStore()
    async with AsyncClient(app, backend=async_over(sqs, store=store)) as client:
        await client.submit(measure, Note(text="y" * 3_000_000))

    assert await result(pool, sqs, store) == 3_000_000
