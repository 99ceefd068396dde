"""Large payloads and fallbacks of a client: kept whole, sent by way of the object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.large_payloads import unpacked
from tests.support.clients import Kind
from tests.support.spool_bench import NORMAL, Bench, Email

LARGE = Email(body="y" * 400_000)


@pytest.fixture
def bench(kind: Kind, tmp_path: Path) -> Bench:
    return Bench(tmp_path, kind)


async def _submitted(bench: Bench, **options: Any) -> str:
    """Submit a large payload while nothing is reachable, and close the client once it is."""
    async with bench.client(**options) as client:
        handle = await client.submit(bench.email, LARGE)
        bench.heal()
    return handle.id


@pytest.mark.parametrize("down", ["SQS", "S3"])
async def test_a_large_payload_waits_in_the_spool_and_goes_through_s3_once_it_can(
    bench: Bench, down: str
) -> None:
    if down == "SQS":
        bench.cut()
    else:
        bench.store.fail("put", ServiceUnavailable("S3 does not answer"))

    job_id = await _submitted(bench)

    [message] = bench.sqs.messages(NORMAL)
    envelope = parse(message.body)
    assert str(envelope.id) == job_id
    assert envelope.payload_ref is not None
    content = bench.store.objects[envelope.payload_ref.key]
    assert unpacked(envelope.payload_ref, content) == LARGE.model_dump()


async def test_a_large_payload_that_runs_in_place_needs_no_s3(bench: Bench) -> None:
    ran: list[int] = []

    @bench.email.handler
    async def send(email: Email) -> None:
        ran.append(len(email.body))

    for declared in (bench.noted, bench.order):
        declared.handler(_nothing)
    bench.store.fail("put", ServiceUnavailable("S3 does not answer"), times=100)

    await _submitted(bench, spool=None, fallback="inline")

    assert ran == [400_000]
    assert bench.sqs.messages(NORMAL) == []


async def _nothing(_email: Email) -> None: ...
