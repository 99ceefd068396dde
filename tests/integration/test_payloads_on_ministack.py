"""Large payloads through a server's S3, with the clients and the worker process of users."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headgate.jobs.aws.s3 import AsyncS3Store, S3Store
from headgate.jobs.core.naming import Bucket
from headgate.jobs.errors import ConfigurationError, PayloadLost, ServiceUnavailable
from headgate.jobs.messages.envelope import parse
from tests.support.clients import KINDS, Kind, connected
from tests.support.fixture_app import Work
from tests.support.ports import NOWHERE
from tests.support.stage import Stage

LARGE = "y" * 400_000


@pytest.mark.parametrize("kind", KINDS)
async def test_a_large_payload_goes_through_s3_to_a_worker_process(
    stage: Stage, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", stage.endpoint_url)
    async with connected(kind, stage.app) as client:
        job = await client.submit(stage.app.find_type("steady-quick"), Work(note=LARGE))
    [message] = await stage.sqs.receive(
        stage.queue("steady").name, limit=1, wait_s=5, visibility_s=0
    )
    assert parse(message.body).payload_ref is not None
    worker = await stage.worker("steady")
    await stage.journal.until(lambda: stage.journal.count("done")[job.id] == 1)
    await worker.logged("job.completed")
    await stage.empties("steady")


# --- failures of S3 ------------------------------------------------------------------------------

_BUCKET = Bucket(prefix="shop-payloads", name="shop-payloads")


@asynccontextmanager
async def _answering(answer: bytes, *, hangs_up: bool = True) -> AsyncIterator[str]:
    """Yield a server that gives the same answer to every request.

    It hangs up then, or once the client has.
    """

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        if not hangs_up:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.usefixtures("bare_stage")
async def test_a_store_that_is_not_reached_is_unavailable() -> None:
    async with AsyncS3Store(_BUCKET, endpoint_url=NOWHERE) as store:
        with pytest.raises(ServiceUnavailable, match="s3:GetObject on 'shop-payloads'"):
            await store.get("payloads/1", max_bytes=2_000)


@pytest.mark.usefixtures("bare_stage")
async def test_an_answer_that_is_cut_off_is_no_object() -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nContent-Type: application/gzip\r\n\r\nhalf"
    async with _answering(cut) as url:
        async with AsyncS3Store(_BUCKET, endpoint_url=url) as store:
            with pytest.raises(ServiceUnavailable, match="s3:GetObject"):
                await store.get("payloads/1", max_bytes=2_000)
        synchronous = S3Store(_BUCKET, endpoint_url=url)
        with pytest.raises(ServiceUnavailable, match="s3:GetObject"):
            await asyncio.to_thread(synchronous.get, "payloads/1", max_bytes=2_000)
        synchronous.close()


@pytest.mark.usefixtures("bare_stage")
@pytest.mark.parametrize(
    ("length", "body"),
    [
        # No more ever comes, so whoever reads on finds an answer that stops.
        pytest.param("Content-Length: 400000000", b"half", id="its length is announced"),
        pytest.param("Transfer-Encoding: chunked", b"bb8\r\n" + b"x" * 3_000, id="it isn't"),
    ],
)
async def test_an_object_of_400_mb_is_not_read(length: str, body: bytes) -> None:
    large = f"HTTP/1.1 200 OK\r\n{length}\r\nContent-Type: application/gzip\r\n\r\n"
    async with _answering(large.encode() + body, hangs_up=False) as url:
        async with AsyncS3Store(_BUCKET, endpoint_url=url) as store:
            with pytest.raises(PayloadLost, match="has over 1,000 bytes"):
                await store.get("payloads/1", max_bytes=1_000)
        synchronous = S3Store(_BUCKET, endpoint_url=url)
        with pytest.raises(PayloadLost, match="has over 1,000 bytes"):
            await asyncio.to_thread(synchronous.get, "payloads/1", max_bytes=1_000)
        synchronous.close()


@pytest.mark.usefixtures("bare_stage")
async def test_a_store_needs_async_with_and_connects_lazily() -> None:
    store: Any = AsyncS3Store(_BUCKET, endpoint_url=NOWHERE)
    async with store:
        assert store._made is None
    await store.stop()  # stopping again is safe
    with pytest.raises(ConfigurationError, match="is not open"):
        await store.get("payloads/1", max_bytes=2_000)
