"""Large payloads and fallbacks of a client: kept whole, sent by way of the object store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headgate import AsyncClient, Client
from headgate.jobs.core.batcher import Pacing
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.large_payloads import unpacked
from headgate.jobs.testing import MemoryStore
from tests.support.backends import async_over, over
from tests.support.spool_bench import NORMAL, Bench, Email

LARGE = Email(body="y" * 400_000)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def _submitted(bench: Bench, store: MemoryStore, by: str, **options: Any) -> str:
    """Submit a large payload while nothing is reachable, and close the client once it is."""
    job = bench.email
    shared: dict[str, Any] = {"events": bench.hub} | options
    if by == "AsyncClient":
        client = AsyncClient(
            bench.app,
            backend=async_over(
                bench.sqs,
                store=store,
                table=bench.table,
                clock=bench.clock,
                pacing=Pacing(tries=1),
            ),
            **shared,
        )
        async with client:
            handle = await client.submit(job, LARGE)
            bench.heal()
        return handle.id

    def plainly() -> str:
        plain = Client(
            bench.app,
            backend=over(
                bench.sqs.sync,
                store=store.sync,
                table=bench.table.sync,
                clock=bench.clock,
                sleep=lambda _seconds: None,
            ),
            **shared,
        )
        with plain:
            found = plain.submit(job, LARGE).id
            bench.heal()
        return found

    return await asyncio.to_thread(plainly)


@pytest.mark.parametrize("by", ["Client", "AsyncClient"])
@pytest.mark.parametrize("down", ["SQS", "S3"])
async def test_a_large_payload_waits_in_the_spool_and_goes_through_s3_once_it_can(
    bench: Bench, by: str, down: str
) -> None:
    store = MemoryStore()
    if down == "SQS":
        bench.cut()
    else:
        store.fail("put", ServiceUnavailable("S3 does not answer"))

    job_id = await _submitted(bench, store, by, spool=bench.spool)

    [message] = bench.sqs.messages(NORMAL)
    envelope = parse(message.body)
    assert str(envelope.id) == job_id
    assert envelope.payload_ref is not None
    content = store.objects[envelope.payload_ref.key]
    assert unpacked(envelope.payload_ref, content) == LARGE.model_dump()


@pytest.mark.parametrize("by", ["Client", "AsyncClient"])
async def test_a_large_payload_that_runs_in_place_needs_no_s3(bench: Bench, by: str) -> None:
    ran: list[int] = []

    @bench.email.handler
    async def send(email: Email) -> None:
        ran.append(len(email.body))

    for declared in (bench.noted, bench.order):
        declared.handler(_nothing)
    store = MemoryStore()
    store.fail("put", ServiceUnavailable("S3 does not answer"), times=100)

    await _submitted(bench, store, by, fallback="inline")

    assert ran == [400_000]
    assert bench.sqs.messages(NORMAL) == []


async def _nothing(_email: Email) -> None: ...
