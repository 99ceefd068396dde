"""The benchmarks' proxy passes requests on, counts them, and delays them."""

from __future__ import annotations

import time
from pathlib import Path
from uuid import uuid4

import pytest

from benchmarks.proxy import Proxy
from jobs.aws.sqs import SqsTransport
from jobs.ports import OutgoingMessage
from tests.support.environment import REGION, with_test_credentials
from tests.support.queues import Queues


@pytest.fixture
def queue(ministack: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    with_test_credentials(monkeypatch, tmp_path)
    name = f"bench-proxy-{uuid4().hex[:12]}"
    with Queues(ministack, REGION) as queues:
        queues.create_queue(name)
    return name


async def test_what_goes_through_the_proxy_arrives_and_is_counted(
    ministack: str, queue: str
) -> None:
    with Proxy(ministack) as proxy:
        async with SqsTransport(endpoint_url=proxy.endpoint_url) as sqs:
            assert await sqs.send(queue, [OutgoingMessage(body="a")]) == []
            (message,) = await sqs.receive(queue, limit=10, wait_s=5)
            assert await sqs.delete(queue, [message.receipt]) == []

        assert message.body == "a"
        assert proxy.counts() == {
            "GetQueueUrl": 1,
            "SendMessageBatch": 1,
            "ReceiveMessage": 1,
            "DeleteMessageBatch": 1,
        }


async def test_each_request_takes_at_least_the_latency_that_was_asked_for(
    ministack: str, queue: str
) -> None:
    with Proxy(ministack) as proxy:
        proxy.delay(0.2)
        async with SqsTransport(endpoint_url=proxy.endpoint_url) as sqs:
            started = time.monotonic()
            await sqs.depth(queue)  # and GetQueueUrl before

        assert time.monotonic() - started >= 2 * 0.2
