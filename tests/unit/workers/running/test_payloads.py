"""Payloads too large for messages: read before their jobs start, or not run at all."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Backoff, Concurrency, JobContext, Priority, Retry
from headgate.jobs.core.events import (
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobFailed,
    JobStarted,
    MessageUnrunnable,
)
from headgate.jobs.errors import AccessDenied, BucketMissing, ServiceUnavailable, TransportError
from headgate.jobs.messages.envelope import VERSION, Envelope, PayloadRef
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.large_payloads import parcel, payload_key
from headgate.jobs.messages.outgoing import message_of
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

_PARKING = Retry(max_attempts=3, backoff=Backoff.steps(10, 60))
LARGE = "y" * 300_000


def _rig(ran: list[str], **options: Any) -> Rig:
    app, mail = one_lane(parking=_PARKING)

    @mail.job("send", **options)
    async def send(note: Note) -> None:
        ran.append(note.text)

    return Rig(app)


def _send(app: App) -> Any:
    return app.types["send"]


async def test_a_large_payload_reaches_its_handler_and_its_message_stays_small() -> None:
    ran: list[str] = []
    rig = _rig(ran)
    [job_id] = await rig.submit(_send(rig.app), LARGE)
    [message] = rig.sqs.messages(MAIL)
    assert len(message.body) < 1_000
    assert len(rig.store.objects[f"payloads/{job_id}"]) < 1_000
    async with rig.working():
        await rig.happens(JobCompleted)
    assert ran == [LARGE]
    assert rig.remaining() == 0


async def test_a_payload_within_the_limit_never_touches_the_store() -> None:
    ran: list[str] = []
    rig = _rig(ran)
    rig.store.missing = True
    await rig.submit(_send(rig.app), "y" * 200_000)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert rig.store.calls == []


async def test_the_limit_is_the_app_s() -> None:
    app = App("shop", max_message_bytes=1_024)

    @app.job("send")
    async def send(_note: Note) -> None: ...

    rig = Rig(app)
    await rig.submit(send, "y" * 500, "y" * 2_000)
    assert [action for action, _ in rig.store.calls] == ["put"]


@pytest.mark.parametrize(
    "error",
    [
        ServiceUnavailable("S3 does not answer"),
        AccessDenied("no s3:GetObject"),
        BucketMissing("shop-payloads"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_store_that_can_not_be_asked_costs_no_attempt(error: TransportError) -> None:
    ran: list[str] = []
    rig = _rig(ran, retry=Retry(max_attempts=1))
    await rig.submit(_send(rig.app), LARGE)
    rig.store.fail("get", error, times=4)
    async with rig.working():
        [done] = await rig.happens(JobCompleted)
    deferred = rig.heard(JobDeferred)
    assert len(deferred) == 4
    assert all(str(error) in event.reason for event in deferred)
    assert [event.delay_s for event in deferred] == sorted(event.delay_s for event in deferred)
    assert not rig.heard(JobFailed)
    assert len(rig.heard(JobStarted)) == 1
    assert ran == [LARGE]
    assert done.job_id == deferred[0].job_id


async def test_an_object_that_is_gone_is_backed_off_and_then_parked_with_its_reason() -> None:
    ran: list[str] = []
    rig = _rig(ran)
    [job_id] = await rig.submit(_send(rig.app), LARGE)
    [message] = rig.sqs.messages(MAIL)
    rig.store.objects.clear()
    async with rig.working():
        said = await rig.happens(MessageUnrunnable, 3)
    assert [event.retry_in_s for event in said] == [10, 60, None]
    assert {event.reason for event in said} == {"payload-lost"}
    assert said[0].job_id == job_id
    [letter] = rig.sqs.messages(DEAD_MAIL)
    assert letter.attributes["Reason"] == "payload-lost"
    assert letter.attributes["JobId"] == job_id
    assert letter.body == message.body
    assert ran == []
    [dead] = rig.heard(JobDeadLettered)
    told = (dead.job_id, dead.reason, dead.error_message)
    assert told == (job_id, "payload-lost", said[0].detail)


async def test_an_object_that_is_gone_is_no_crash_and_costs_no_attempt() -> None:
    ran: list[str] = []
    rig = _rig(ran)
    await rig.submit(_send(rig.app), LARGE)
    objects = dict(rig.store.objects)
    rig.store.objects.clear()
    async with rig.working():
        await rig.happens(MessageUnrunnable, 2)
        rig.store.objects.update(objects)
        [done] = await rig.happens(JobCompleted)
    assert done.attempt == 1
    assert not rig.heard(JobCrashed)


async def test_an_object_that_is_put_back_in_time_is_run() -> None:
    ran: list[str] = []
    rig = _rig(ran)
    await rig.submit(_send(rig.app), LARGE)
    objects = dict(rig.store.objects)
    rig.store.objects.clear()
    async with rig.working():
        await rig.happens(MessageUnrunnable)
        rig.store.objects.update(objects)
        await rig.happens(JobCompleted)
    assert ran == [LARGE]


async def test_a_stored_payload_that_no_longer_fits_its_model_is_invalid() -> None:
    ran: list[str] = []
    rig = _rig(ran)
    job_id = new_job_id(rig.clock.now())
    kept = parcel(payload_key(job_id), {"text": [LARGE]})
    rig.store.objects[kept.ref.key] = kept.packed()
    envelope = Envelope(
        v=VERSION,
        id=job_id,
        type="send",
        payload=None,
        payload_ref=kept.ref,
        queue="mail",
        priority=Priority.NORMAL,
        submitted_at=rig.clock.now(),
    )
    await rig.sqs.send(MAIL, [message_of(envelope)])
    async with rig.working():
        said = await rig.happens(MessageUnrunnable, 3)
    assert {event.reason for event in said} == {"payload-invalid"}
    assert "yyy" not in said[0].detail


async def test_a_limit_whose_key_comes_from_the_payload_sees_that_of_a_large_one() -> None:
    running, most = 0, 0
    app, mail = one_lane()

    @mail.job("send", concurrency=Concurrency(1, key=lambda note: note.text[:1]))
    async def send(_note: Note) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1

    rig = Rig(app)
    await rig.submit(send, LARGE, LARGE, LARGE)
    async with rig.working():
        await rig.happens(JobCompleted, 3)
    assert most == 1


async def test_a_handler_submits_a_large_payload_through_the_worker_s_store() -> None:
    ran: list[str] = []
    rig = _rig(ran)
    queue = rig.app.queues["mail"]

    @queue.job("fan-out")
    async def fan_out(_note: Note, ctx: JobContext) -> None:
        await ctx.submit(_send(rig.app), Note(text=LARGE))

    await rig.submit(fan_out)
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    assert ran == [LARGE]
    assert len(rig.store.objects) == 1


async def test_a_worker_that_stops_leaves_no_payload_half_read() -> None:
    ran: list[str] = []
    rig = _rig(ran, timeout=timedelta(seconds=30))
    await rig.submit(_send(rig.app), LARGE)
    reading, go_on = asyncio.Event(), asyncio.Event()
    get = rig.store.get

    async def slow(key: str, *, max_bytes: int) -> bytes | None:
        reading.set()
        await go_on.wait()
        return await get(key, max_bytes=max_bytes)

    rig.store.get = slow  # type: ignore[method-assign]  # S3 that takes its time
    async with rig.working() as worker:
        await reading.wait()
        worker.stop()
        go_on.set()
    assert ran == []
    assert rig.in_flight() == 0
    assert len(rig.sqs.messages(MAIL)) == 1
    assert not rig.heard(JobDeadLettered)


async def test_a_store_that_takes_its_time_does_not_send_the_message_round() -> None:
    ran: list[str] = []
    rig = _rig(ran)
    await rig.submit(_send(rig.app), LARGE)
    get = rig.store.get

    async def slow(key: str, *, max_bytes: int) -> bytes | None:
        await asyncio.sleep(20)  # four times as long as a message usually waits for a slot
        return await get(key, max_bytes=max_bytes)

    rig.store.get = slow  # type: ignore[method-assign]  # as above
    async with rig.working():
        [done] = await rig.happens(JobCompleted)
    assert done.attempt == 1
    assert ran == [LARGE]


@pytest.mark.parametrize("text", [b"not JSON", b"", b"\xff\xfe", b"[" * 100_000, b"1" * 5_000])
async def test_an_object_that_is_no_json_is_parked_with_its_reason(
    text: bytes,
) -> None:
    ran: list[str] = []
    rig = _rig(ran)
    now = rig.clock.now()
    ref = PayloadRef(
        key=payload_key(job_id := new_job_id(now)),
        sha256=hashlib.sha256(text).hexdigest(),
        size=len(text),
        encoding="gzip",
    )
    rig.store.objects[ref.key] = gzip.compress(text)
    envelope = Envelope(
        v=VERSION,
        id=job_id,
        type="send",
        payload=None,
        payload_ref=ref,
        queue="mail",
        priority=Priority.NORMAL,
        submitted_at=now,
    )
    await rig.sqs.send(MAIL, [message_of(envelope)])
    async with rig.working():
        said = await rig.happens(MessageUnrunnable, 3)

    assert {event.reason for event in said} == {"payload-lost"}
    [letter] = rig.sqs.messages(DEAD_MAIL)
    assert letter.attributes["Reason"] == "payload-lost"
    assert ran == []


async def test_a_message_has_no_result_of_another_job_read_as_its_payload() -> None:
    ran: list[str] = []
    rig = _rig(ran)
    kept = parcel("payloads/results/other", {"text": "secret"})
    rig.store.objects[kept.ref.key] = kept.packed()
    now = rig.clock.now()
    envelope = Envelope(
        v=VERSION,
        id=new_job_id(now),
        type="send",
        payload=None,
        payload_ref=kept.ref,
        queue="mail",
        priority=Priority.NORMAL,
        submitted_at=now,
    )
    await rig.sqs.send(MAIL, [message_of(envelope)])
    async with rig.working():
        await rig.happens(MessageUnrunnable, 3)
    assert ran == []
    assert rig.store.calls == []
