"""Signing by a client: whatever way a message leaves, it is signed as it does."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headgate import App, AsyncClient, Client, Encryption, Priority, Signing, Spool
from headgate.errors import ServiceUnavailable
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.signatures import Destination, SigningKey, parted, signed
from headgate.jobs.testing import StoredMessage
from headgate.testing import Harness, MemoryBackend

NORMAL = "shop-jobs-normal"
ADA = "Ada Lovelace"
"""With a space, which no hash and no base64 has by chance."""
SECRET = "shop-signing"  # noqa: S105 - a name
FIRST, SECOND = (name * 16 for name in (b"first ", b"second"))
DOWN = ServiceUnavailable("down")


def _app(**options: Any) -> App:
    app = App("shop", signing=Signing(), **options)

    @app.job("send")
    def send(note: dict[str, Any]) -> None: ...

    return app


def _backend(app: App) -> MemoryBackend:
    backend = MemoryBackend(app)
    backend.secrets.put(SECRET, FIRST)
    return backend


def is_signed(message: StoredMessage, key: bytes = FIRST, queue: str = NORMAL) -> bool:
    text, _ = parted(message.body)
    return signed(text, SigningKey(key), Destination(queue=queue)) == message.body


def test_every_message_of_both_clients_is_signed() -> None:
    app = _app()
    backend = _backend(app)
    payloads = [{"text": str(number)} for number in range(12)]
    with Client(app, backend=backend) as client:
        client.submit(app.types["send"], payloads[0])
        client.submit_many(app.types["send"], payloads)

    async def submit() -> None:
        async with AsyncClient(app, backend=backend) as client:
            await client.submit_many(app.types["send"], payloads)

    asyncio.run(submit())
    messages = backend.sqs.messages(NORMAL)
    assert len(messages) == 25
    assert all(is_signed(message) for message in messages)


async def test_the_first_submissions_of_a_process_may_come_at_once() -> None:
    app = _app(priorities="all")
    backend = _backend(app)
    send, payload = app.types["send"], {"text": "ada"}
    async with AsyncClient(app, backend=backend) as client:
        await asyncio.gather(
            client.submit_many(send, [payload] * 25),
            *(client.submit(send, payload, priority=priority) for priority in Priority),
        )
    assert backend.secrets.reads == 1
    assert len(backend.sqs.messages(NORMAL)) == 26


def test_the_first_submissions_of_threads_may_come_at_once() -> None:
    app = _app()
    backend = _backend(app)
    with Client(app, backend=backend) as client, ThreadPoolExecutor(8) as threads:
        submit = partial(client.submit, app.types["send"])
        handles = [*threads.map(submit, [{"text": str(number)} for number in range(24)])]
    assert (len(handles), backend.secrets.reads) == (24, 1)


def test_a_large_payload_is_covered_by_its_digest_in_the_signed_body() -> None:
    app = _app()
    backend = _backend(app)
    with Client(app, backend=backend) as client:
        client.submit(app.types["send"], {"text": "x" * 300_000})
    [message] = backend.sqs.messages(NORMAL)
    assert is_signed(message)
    assert parse(message.body).payload_ref is not None


def test_a_batch_of_large_messages_stays_within_sqs_s_limit_once_it_is_signed() -> None:
    app = _app(max_message_bytes=MAX_MESSAGE_BYTES)
    backend = _backend(app)
    text = "x" * (MAX_MESSAGE_BYTES // 5 - 330)  # five of them fill a request, signatures included
    with Client(app, backend=backend) as client:
        client.submit_many(app.types["send"], [{"text": text}] * 10)
    assert len(backend.sqs.messages(NORMAL)) == 10


def test_a_delayed_job_is_signed_in_its_schedule() -> None:
    app = _app()
    backend = _backend(app)
    with Client(app, backend=backend) as client:
        client.submit(app.types["send"], {"text": "later"}, delay=timedelta(days=2))
    backend.secrets.fault = DOWN  # the bridge makes nothing, and needs no key
    backend.clock.advance(timedelta(days=2))
    [message] = backend.sqs.messages(NORMAL)
    assert is_signed(message)


def test_jobs_of_a_spool_are_signed_when_they_leave_it(tmp_path: Path) -> None:
    app = _app()
    backend = _backend(app)
    backend.secrets.fault = DOWN
    with Client(app, backend=backend, spool=Spool(tmp_path / "spool")) as client:
        client.submit(app.types["send"], {"text": "ada"})
    assert not backend.sqs.messages(NORMAL)
    backend.secrets.fault = None
    backend.secrets.put(SECRET, SECOND)
    with Client(app, backend=backend, spool=Spool(tmp_path / "spool")):
        pass
    [message] = backend.sqs.messages(NORMAL)
    assert is_signed(message, SECOND)


def test_without_a_key_a_submission_fails_as_in_an_outage() -> None:
    app = _app()
    backend = _backend(app)
    backend.secrets.fault = DOWN
    with Client(app, backend=backend) as client, pytest.raises(ServiceUnavailable):
        client.submit(app.types["send"], {"text": "ada"})
    assert not backend.sqs.messages(NORMAL)


def test_a_job_that_runs_in_place_goes_through_no_queue_and_needs_no_key() -> None:
    app, ran = App("shop", signing=Signing()), list[str]()

    @app.job("send")
    def send(note: dict[str, str]) -> None:
        ran.append(note["text"])

    backend = _backend(app)
    backend.secrets.fault = DOWN
    with Client(app, backend=backend, fallback="inline") as client:
        client.submit(send, {"text": "ada"})
    assert ran == ["ada"]


def test_the_harness_signs_and_checks_by_itself() -> None:
    app, ran = App("shop", signing=Signing()), list[str]()

    @app.job("send")
    def send(note: dict[str, str]) -> None:
        ran.append(note["text"])

    jobs = Harness(app)
    jobs.client.submit(send, {"text": "ada"})
    jobs.client.submit(send, {"text": "bob"}, delay=timedelta(days=3))
    [message] = jobs.sqs.messages(NORMAL)
    forged = OutgoingMessage(body=message.body.replace('"ada"', '"eve"'))
    assert jobs.sqs.sync.send(NORMAL, [forged]) == []
    jobs.drain()
    assert ran == ["ada", "bob"]
    assert [each.attributes["Reason"] for each in jobs.dead_letters()] == ["signature-invalid"]
    assert str(jobs.run(send, {"text": "at once"})).startswith("Done")


def test_a_sealed_job_is_signed_as_it_travels_and_runs() -> None:
    app, ran = App("shop", signing=Signing(), encryption=Encryption()), list[str]()

    @app.job("send")
    def send(note: dict[str, str]) -> None:
        ran.append(note["text"])

    jobs = Harness(app)
    jobs.secrets.put(SECRET, FIRST)
    jobs.client.submit(send, {"text": ADA})
    [message] = jobs.sqs.messages(NORMAL)
    assert is_signed(message)
    assert ADA not in message.body
    jobs.drain()
    assert (ran, jobs.dead_letters()) == ([ADA], [])
