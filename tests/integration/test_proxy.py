"""The proxy that other tests and the benchmarks rely on: it counts, delays and misbehaves."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import ServiceUnavailable, Throttled
from tests.support.environment import with_test_credentials
from tests.support.journal import GENEROUS_S
from tests.support.ports import NOWHERE
from tests.support.proxy import (
    BROKEN,
    THROTTLED,
    UNAVAILABLE,
    Delay,
    Drop,
    FailEntries,
    Hold,
    Proxy,
    ProxyProcess,
    Refuse,
)
from tests.support.stage import Stage

MESSAGES = [OutgoingMessage(body=f'{{"n": {number}}}') for number in range(5)]


@pytest.fixture
async def proxy(stage: Stage) -> AsyncIterator[Proxy]:
    async with Proxy(stage.endpoint_url) as running:
        yield running


@pytest.fixture
async def sqs(proxy: Proxy) -> AsyncIterator[AsyncSqsTransport]:
    async with AsyncSqsTransport(endpoint_url=proxy.endpoint_url) as transport:
        yield transport


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue("steady").name


async def test_what_is_not_injected_passes_and_is_counted(
    proxy: Proxy, sqs: AsyncSqsTransport, queue: str
) -> None:
    assert await sqs.send(queue, MESSAGES) == []
    received = await sqs.receive(queue, limit=10, wait_s=20)
    assert {message.body for message in received} == {message.body for message in MESSAGES}
    assert await sqs.delete(queue, [message.receipt for message in received]) == []
    once = dict.fromkeys(
        ("GetQueueUrl", "SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch"), 1
    )
    assert proxy.requests == once
    assert proxy.forwarded == once
    assert not proxy.faults


async def test_failed_entries_do_not_reach_the_server(
    proxy: Proxy, sqs: AsyncSqsTransport, stage: Stage, queue: str
) -> None:
    proxy.inject(FailEntries(every=2), actions=["SendMessageBatch"])
    failures = await sqs.send(queue, MESSAGES)
    assert [failure.index for failure in failures] == [0, 2, 4]
    assert not any(failure.sender_fault for failure in failures)
    assert (await stage.depth("steady")).visible == 2


async def test_a_batch_that_fails_as_a_whole_does_not_reach_the_server(
    proxy: Proxy, sqs: AsyncSqsTransport, stage: Stage, queue: str
) -> None:
    proxy.inject(FailEntries(every=1, sender_fault=True), times=1, actions=["SendMessageBatch"])
    failures = await sqs.send(queue, MESSAGES)
    assert [failure.sender_fault for failure in failures] == [True] * 5
    assert (await stage.depth("steady")).visible == 0


@pytest.mark.parametrize("refusal", [BROKEN, UNAVAILABLE], ids=["500", "503"])
async def test_a_refusal_is_an_error_of_sqs_until_it_is_healed(
    proxy: Proxy, sqs: AsyncSqsTransport, queue: str, refusal: Refuse
) -> None:
    await sqs.depth(queue)
    proxy.inject(THROTTLED, actions=["ReceiveMessage"], times=1)
    proxy.inject(refusal, actions=["ReceiveMessage"])
    with pytest.raises(Throttled, match="injected by the proxy"):
        await sqs.receive(queue, limit=1, wait_s=0)
    with pytest.raises(ServiceUnavailable, match="injected by the proxy"):
        await sqs.receive(queue, limit=1, wait_s=0)
    proxy.heal()
    assert await sqs.receive(queue, limit=1, wait_s=0) == []
    assert proxy.faults["ReceiveMessage"] == 2


@pytest.mark.parametrize("forward", [False, True], ids=["before", "after"])
async def test_a_connection_is_dropped_before_or_after_the_server_has_acted(
    proxy: Proxy, sqs: AsyncSqsTransport, stage: Stage, queue: str, forward: bool
) -> None:
    await stage.sqs.send(queue, MESSAGES)
    proxy.inject(Drop(forward=forward), actions=["ReceiveMessage"])
    with pytest.raises(ServiceUnavailable, match="got no answer"):
        await sqs.receive(queue, limit=10, wait_s=20)
    assert (await stage.depth("steady")).in_flight == (5 if forward else 0)


async def test_an_answer_can_be_held_back_until_it_is_released(
    proxy: Proxy, sqs: AsyncSqsTransport, queue: str
) -> None:
    late = Hold()
    proxy.inject(late, actions=["SendMessageBatch"])
    sending = asyncio.create_task(sqs.send(queue, MESSAGES))
    await proxy.until(lambda: proxy.forwarded["SendMessageBatch"] == 1)
    assert not sending.done()
    late.release.set()
    assert await sending == []


async def test_a_frozen_server_gets_the_request_when_it_thaws(
    proxy: Proxy, sqs: AsyncSqsTransport, stage: Stage, queue: str
) -> None:
    frozen = Hold(forward=False)
    proxy.inject(frozen, actions=["SendMessageBatch"], times=1)
    sending = asyncio.create_task(sqs.send(queue, MESSAGES))
    await proxy.until(lambda: proxy.faults["SendMessageBatch"] == 1)
    assert (await stage.depth("steady")).visible == 0
    assert not sending.done()
    frozen.release.set()
    assert await sending == []
    assert (await stage.depth("steady")).visible == 5


async def test_leaving_the_proxy_closes_what_it_still_holds(stage: Stage, queue: str) -> None:
    async with Proxy(stage.endpoint_url) as proxy:
        sqs = AsyncSqsTransport(endpoint_url=proxy.endpoint_url)
        await sqs.start()
        proxy.inject(Hold(), actions=["ReceiveMessage"])
        receiving = asyncio.create_task(sqs.receive(queue, limit=1, wait_s=0))
        await proxy.until(lambda: proxy.forwarded["ReceiveMessage"] == 1)
    with pytest.raises(ServiceUnavailable, match="got no answer"):
        await receiving
    await sqs.stop()


@pytest.mark.parametrize("turns", range(6))
async def test_leaving_the_proxy_closes_what_it_accepted_that_many_turns_before(
    turns: int,
) -> None:
    async with Proxy(NOWHERE) as proxy:
        port = urlsplit(proxy.endpoint_url).port
        assert port is not None
        # It blocks the loop, so that the turns below count from a connection that is there.
        client = socket.create_connection(("127.0.0.1", port), timeout=GENEROUS_S)
        for _ in range(turns):
            await asyncio.sleep(0)
    with client:
        with suppress(ConnectionResetError):
            assert await asyncio.to_thread(client.recv, 1) == b""
        gc.collect()  # a socket that was left open fails the test here


async def test_an_answer_can_be_delayed(proxy: Proxy, sqs: AsyncSqsTransport, queue: str) -> None:
    await sqs.depth(queue)
    loop = asyncio.get_running_loop()
    proxy.inject(Delay(seconds=0.2), actions=["SendMessageBatch"])
    began = loop.time()
    assert await sqs.send(queue, MESSAGES) == []
    assert loop.time() - began >= 0.2  # the only bound that holds on a slow machine too


async def test_a_server_that_has_gone_looks_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    async with (
        Proxy(NOWHERE) as proxy,
        AsyncSqsTransport(endpoint_url=proxy.endpoint_url) as sqs,
    ):
        with pytest.raises(ServiceUnavailable):
            await sqs.depth("any")


async def test_each_request_takes_at_least_the_latency_that_was_asked_for(
    proxy: Proxy, sqs: AsyncSqsTransport, queue: str
) -> None:
    loop = asyncio.get_running_loop()
    proxy.delay(0.2)
    began = loop.time()
    await sqs.depth(queue)  # and GetQueueUrl before it
    assert loop.time() - began >= 2 * 0.2
    assert not proxy.faults


async def test_a_fault_and_the_latency_add_up(
    proxy: Proxy, sqs: AsyncSqsTransport, queue: str
) -> None:
    await sqs.depth(queue)
    loop = asyncio.get_running_loop()
    proxy.delay(0.1)
    proxy.inject(Delay(seconds=0.1), actions=["ReceiveMessage"])
    began = loop.time()
    assert await sqs.receive(queue, limit=1, wait_s=0) == []
    assert loop.time() - began >= 2 * 0.1


async def test_a_proxy_in_a_process_of_its_own_counts_and_delays(stage: Stage, queue: str) -> None:
    loop = asyncio.get_running_loop()
    with ProxyProcess(stage.endpoint_url) as proxy:
        async with AsyncSqsTransport(endpoint_url=proxy.endpoint_url) as sqs:
            assert await sqs.send(queue, MESSAGES[:1]) == []
            (message,) = await sqs.receive(queue, limit=10, wait_s=5)
            assert message.body == MESSAGES[0].body
            proxy.delay(0.2)
            began = loop.time()
            assert await sqs.delete(queue, [message.receipt]) == []
            assert loop.time() - began >= 0.2
        counted = ("GetQueueUrl", "SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch")
        assert proxy.counts() == dict.fromkeys(counted, 1)
