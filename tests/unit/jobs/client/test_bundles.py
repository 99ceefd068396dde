"""Submission of types with ``bundle=``: what shares a message, and what each caller is told."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate import App, AsyncClient, Bundle, Client, Encryption, Priority, Signing, Spool, Unique
from headgate.errors import (
    ConfigurationError,
    PartlySubmitted,
    ServiceUnavailable,
    SettingsInvalid,
)
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.messages.bundles import bodies_of
from headgate.jobs.messages.envelope import parse
from headgate.testing import MemoryBackend
from tests.support.clients import KINDS, Kind, client_of
from tests.unit.jobs.client.test_signing import FIRST, SECRET

QUEUE = "shop-jobs-normal"


def _app(**options: Any) -> tuple[App, JobType[dict[str, Any], Any]]:
    app = App("shop", **options)
    return app, app.define("embed", dict[str, Any], bundle=True)


def _texts(backend: MemoryBackend[Any]) -> list[list[str]]:
    """Return the texts of the jobs of each message."""
    return [
        [parse(body).payload["text"] for body in bodies_of(message.body)]
        for message in backend.sqs.messages(QUEUE)
    ]


def _payloads(count: int, size: int = 1) -> list[dict[str, str]]:
    return [{"text": f"{number:03}".ljust(size, "x")} for number in range(count)]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_jobs_of_one_call_share_messages_in_their_order(kind: Kind) -> None:
    app, embed = _app()
    backend = MemoryBackend(app)
    async with client_of(kind, app, backend.sqs) as client:
        handles = await client.submit_many(embed, _payloads(600, 1_000))
    texts = _texts(backend)
    assert len({handle.id for handle in handles}) == 600
    assert [text for each in texts for text in each] == [
        payload["text"] for payload in _payloads(600, 1_000)
    ]
    assert len(texts) <= 13
    assert backend.sqs.calls[0].entries == 10
    assert sum(call.action == "send" for call in backend.sqs.calls) == 2


async def test_concurrent_submits_share_a_message() -> None:
    app, embed = _app()
    backend = MemoryBackend(app)
    async with AsyncClient(app, backend=backend) as client:
        await asyncio.gather(*(client.submit(embed, each) for each in _payloads(100)))
    assert [len(each) for each in _texts(backend)] == [100]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_delayed_large_or_replaceable_travels_alone(kind: Kind) -> None:
    app, embed = _app(max_message_bytes=2_000)
    backend = MemoryBackend(app)
    last = Unique(within=60, keep="last")
    async with client_of(kind, app, backend.sqs, store=backend.store) as client:
        await client.submit_many(embed, _payloads(2), delay=timedelta(minutes=1))
        await client.submit_many(embed, _payloads(2, 3_000))
        await client.submit_many(embed, _payloads(2), unique=last)
    assert len(backend.sqs.messages(QUEUE)) == 6
    assert len(backend.store.objects) == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_a_bundle_is_no_larger_than_the_app_s_messages(kind: Kind) -> None:
    app, embed = _app(max_message_bytes=2_000)
    backend = MemoryBackend(app)
    async with client_of(kind, app, backend.sqs, store=backend.store) as client:
        await client.submit_many(embed, _payloads(20, 200))
    assert len(backend.sqs.messages(QUEUE)) > 2
    assert not backend.store.objects


@pytest.mark.parametrize("kind", KINDS)
async def test_unique_jobs_share_a_message_and_duplicates_are_left_out(kind: Kind) -> None:
    app = App("shop")
    embed = app.define("embed", dict[str, Any], bundle=True, unique=Unique(within=60))
    backend = MemoryBackend(app)
    async with client_of(kind, app, backend.sqs, table=backend.table) as client:
        first = await client.submit_many(embed, _payloads(3))
        again = await client.submit_many(embed, _payloads(4))
    assert [len(each) for each in _texts(backend)] == [3, 1]
    assert [handle.id for handle in again[:3]] == [handle.id for handle in first]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refused_bundle_is_reported_for_each_of_its_jobs(kind: Kind) -> None:
    app, embed = _app()
    backend = MemoryBackend(app)
    backend.sqs.faults.fail_entries("send", sender_fault=True, indexes=[0])
    jobs = [embed.new(each, tenant=tenant) for tenant in ("a", "b") for each in _payloads(3)]
    async with client_of(kind, app, backend.sqs) as client:
        with pytest.raises(PartlySubmitted) as caught:
            await client.submit_many(jobs)
    assert [refusal.index for refusal in caught.value.refusals] == [0, 1, 2]
    assert len(caught.value.sent) == 3
    assert [message.group for message in backend.sqs.messages(QUEUE)] == ["b"]


async def test_a_later_request_that_fails_refuses_only_its_own_jobs() -> None:
    app, embed = _app()
    backend = MemoryBackend(app)
    down = ServiceUnavailable("down")
    jobs = [embed.new({"text": "x"}, tenant=f"org-{number}") for number in range(12)]
    async with AsyncClient(app, backend=backend) as client:
        send = backend.sqs.send

        async def failing(queue: str, messages: Any) -> Any:
            if len(messages) < 10:
                raise down
            return await send(queue, messages)

        backend.sqs.send = failing  # type: ignore[method-assign]
        with pytest.raises(PartlySubmitted) as caught:
            await client.submit_many(jobs)
    assert [refusal.index for refusal in caught.value.refusals] == [10, 11]


def test_each_job_of_a_bundle_is_signed_and_sealed_as_if_it_were_alone() -> None:
    app, embed = _app(signing=Signing(), encryption=Encryption())
    backend = MemoryBackend(app)
    backend.secrets.put(SECRET, FIRST)
    with Client(app, backend=backend) as client:
        client.submit_many(embed, _payloads(3))
    [message] = backend.sqs.messages(QUEUE)
    jobs = bodies_of(message.body)
    assert len(jobs) == 3
    assert all('"sealed":' in job and '"signature":"' in job for job in jobs)
    assert len({job.rpartition('"signature"')[2] for job in jobs}) == 3


def test_what_waited_in_a_spool_travels_alone(tmp_path: Path) -> None:
    app, embed = _app()
    backend = MemoryBackend(app)
    backend.sqs.faults.raise_on("send", ServiceUnavailable("down"), times=100)
    with Client(app, backend=backend, spool=Spool(tmp_path / "spool")) as client:
        client.submit_many(embed, _payloads(3))
        backend.sqs.faults.clear()
    with Client(app, backend=backend, spool=Spool(tmp_path / "spool")):
        pass
    assert sorted(len(each) for each in _texts(backend)) == [1, 1, 1]


def test_a_fifo_queue_takes_no_type_with_bundles() -> None:
    orders = App("shop").queue("orders", priorities=[Priority.NORMAL], fifo=True)
    with pytest.raises(ConfigurationError, match=r"'embed'.*FIFO.*leave out bundle="):
        orders.define("embed", dict[str, Any], bundle=True)


def test_a_type_whose_jobs_are_replaced_takes_no_bundles() -> None:
    with pytest.raises(ConfigurationError, match=r"'embed'.*keep=\"first\""):
        App("shop").define(
            "embed", dict[str, Any], bundle=True, unique=Unique(within=60, keep="last")
        )


@pytest.mark.parametrize("bundle", [1, "yes", 64_000, None])
def test_bundle_is_true_false_or_a_bundle(bundle: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"write bundle=True"):
        App("shop").define("embed", dict[str, Any], bundle=bundle)


@pytest.mark.parametrize("size", [0, 999, MAX_MESSAGE_BYTES + 1])
def test_the_bytes_of_a_bundle_are_within_sqs_s_limit(size: int) -> None:
    with pytest.raises(SettingsInvalid, match=r"Bundle\(bytes=\.\.\.\)"):
        Bundle(bytes=size)


def test_a_type_says_how_large_its_bundles_are() -> None:
    app = App("shop")
    assert app.define("a", bundle=True).bundle == Bundle(bytes=64_000)
    assert app.define("b", bundle=Bundle(bytes=10_000)).bundle == Bundle(bytes=10_000)
    assert app.define("c").bundle is None
