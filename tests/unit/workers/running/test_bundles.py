"""Bundles at workers: each job runs, fails and is retried by itself, and none is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headgate import (
    App,
    AsyncClient,
    Backoff,
    Concurrency,
    DoNotRetry,
    JobContext,
    JobState,
    Priority,
    Retry,
    RetryLater,
)
from headgate.events import (
    JobAlreadyDone,
    JobCancelled,
    JobCompleted,
    JobDeadLettered,
    JobDeferred,
    JobDropped,
    JobFailed,
    JobRetryScheduled,
    JobStarted,
    MessageUnrunnable,
    ReceiptLost,
    SettlementFailed,
)
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import ServiceUnavailable, Throttled
from headgate.jobs.messages.bundles import bodies_of, bundle_body
from headgate.jobs.messages.envelope import parse
from headgate.jobs.records.items import partition
from headgate.testing import MessageState
from tests.unit.workers.rig import DEAD_MAIL, LIMIT_S, MAIL, Gate, Note, Rig, lanes, one_lane

pytestmark = pytest.mark.looptime

RETRY = Retry(max_attempts=3, backoff=Backoff.fixed(20))

Handler = Callable[[Note, JobContext], Any]


def _shop(
    handler: Handler, *, records: RecordsLevel = "outcomes", **options: Any
) -> tuple[Rig, JobType[Note, Any]]:
    app, mail = one_lane(RETRY, records=records)
    job = mail.job("embed", bundle=True, **options)(handler)
    return Rig(app), job


def _texts(rig: Rig, queue: str = MAIL) -> list[list[str]]:
    """Return the texts of the jobs of each message."""
    return [
        [parse(body).payload["text"] for body in bodies_of(message.body)]
        for message in rig.sqs.messages(queue)
    ]


async def _nothing(_note: Note) -> None: ...


async def _crash(rig: Rig) -> None:
    """Receive all messages, as a worker that dies of them does, and let them show again."""
    await rig.sqs.receive(MAIL, limit=10, wait_s=0, visibility_s=1)
    await asyncio.sleep(2)


async def test_the_jobs_of_a_bundle_run_and_leave_with_one_delete() -> None:
    async def embed(_note: Note, ctx: JobContext) -> None:
        assert ctx.attempt == 1

    rig, job = _shop(embed)
    ids = await rig.submit(job, *map(str, range(40)))
    assert len(rig.sqs.messages(MAIL)) == 1
    async with rig.working():
        done = await rig.happens(JobCompleted, 40)
    assert {event.job_id for event in done} == {*ids}
    assert rig.remaining() == 0
    deleted = [call.entries for call in rig.sqs.calls if call.action == "delete"]
    assert deleted == [1]
    assert rig.calls("send") == 1


async def test_what_fails_goes_on_alone_with_its_id_and_its_attempts() -> None:
    attempts: Counter[str] = Counter()

    async def embed(note: Note, ctx: JobContext) -> None:
        attempts[note.text] += 1
        assert ctx.attempt == attempts[note.text]
        if note.text == "bad" and ctx.attempt < 3:
            raise ConnectionError

    rig, job = _shop(embed)
    ids = await rig.submit(job, "a", "bad", "b")
    async with rig.working():
        [first] = await rig.happens(JobRetryScheduled)
        assert _texts(rig) == [["bad"]]
        [message] = rig.sqs.messages(MAIL)
        assert message.state is MessageState.DELAYED
        assert parse(message.body).attempts_used == 1
        done = await rig.happens(JobCompleted, 3)
    assert first.job_id == ids[1]
    assert first.delay_s == 20
    assert {event.job_id for event in done} == {*ids}
    assert attempts == {"a": 1, "bad": 3, "b": 1}
    assert rig.remaining() == 0


@pytest.mark.parametrize("records", ["failures", "outcomes"])
async def test_the_end_of_what_goes_on_alone_is_kept_as_long_as_its_failure(
    records: RecordsLevel,
) -> None:
    async def embed(note: Note, ctx: JobContext) -> None:
        if note.text == "bad" and ctx.attempt == 1:
            raise ConnectionError

    rig, job = _shop(embed, records=records)
    ids = await rig.submit(job, "a", "bad")
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        for days in (0, 8, 21):  # completions are kept for 7, failures for 30
            await asyncio.sleep(timedelta(days=days).total_seconds())
            assert await client.handle(ids[1]).state() is JobState.COMPLETED
        await asyncio.sleep(timedelta(days=2).total_seconds())
        assert await client.handle(ids[1]).state() is not JobState.RETRYING


async def test_the_bundle_stays_until_all_that_goes_on_has_been_sent() -> None:
    gate = Gate()

    async def embed(note: Note, ctx: JobContext) -> None:
        await gate(note, ctx)
        if note.text == "bad":
            raise ConnectionError

    rig, job = _shop(embed)
    await rig.submit(job, "slow", "bad")
    async with rig.working():
        await gate.reached(2)
        gate.open("bad")
        await rig.happens(JobFailed)
        await asyncio.sleep(10)
        assert _texts(rig) == [["slow", "bad"]]  # a crash now would repeat the bundle, no more
        gate.open("slow")
        await rig.happens(JobRetryScheduled)
        [message] = rig.sqs.messages(MAIL)
        assert message.visible_at is not None
        left_s = (message.visible_at - rig.clock.now()).total_seconds()
        assert left_s == pytest.approx(10, abs=1)  # its backoff has begun when it failed
        gate.open("bad")


async def test_a_retry_does_not_wait_for_a_job_that_runs_long() -> None:
    gate = Gate()

    async def embed(note: Note, ctx: JobContext) -> None:
        if note.text == "bad" and ctx.attempt == 1:
            raise ConnectionError
        await gate(note, ctx)

    rig, job = _shop(embed)
    await rig.submit(job, "slow", "bad")
    gate.open("bad")
    async with rig.working():
        await rig.happens(JobCompleted)
        assert rig.clock.monotonic() < 60
        await asyncio.sleep(1)
        assert _texts(rig) == [["slow", "bad"]]
        gate.open("slow")
        await rig.happens(JobCompleted, 2)
    assert rig.remaining() == 0


async def test_a_dead_job_of_a_bundle_becomes_a_dead_letter_alone() -> None:
    async def embed(note: Note, _ctx: JobContext) -> None:
        if note.text == "bad":
            raise DoNotRetry("no such text")

    rig, job = _shop(embed)
    ids = await rig.submit(job, "a", "bad", "b")
    async with rig.working():
        await rig.happens(JobDeadLettered)
        await rig.happens(JobCompleted, 2)
    [letter] = rig.sqs.messages(DEAD_MAIL)
    assert letter.attributes["JobId"] == ids[1]
    assert letter.attributes["Reason"] == "do-not-retry"
    assert str(parse(letter.body).id) == ids[1]
    assert rig.remaining() == 0


async def test_a_job_put_off_for_days_waits_in_a_schedule() -> None:
    async def embed(note: Note, _ctx: JobContext) -> None:
        if note.text == "later":
            raise RetryLater(timedelta(days=3))

    rig, job = _shop(embed)
    await rig.submit(job, "now", "later", "later")
    async with rig.working():
        await rig.happens(JobDeferred, 2)
    assert len(rig.scheduler.schedules) == 2
    assert rig.remaining() == 0


async def test_a_failed_send_leaves_the_whole_bundle_in_its_queue() -> None:
    runs: Counter[str] = Counter()

    async def embed(note: Note, _ctx: JobContext) -> None:
        runs[note.text] += 1
        if note.text == "bad" and runs["bad"] == 1:
            raise ConnectionError

    rig, job = _shop(embed)
    await rig.submit(job, "a", "bad")
    rig.refuse_sends(lambda _message: True)
    async with rig.working():
        await rig.happens(SettlementFailed)
        assert _texts(rig) == [["a", "bad"]]
        rig.refuse_sends(lambda _message: False)
        await rig.happens(JobCompleted, 3)
    assert runs == {"a": 2, "bad": 2}
    assert rig.remaining() == 0


@pytest.mark.parametrize("records", ["outcomes", "off"])
async def test_after_a_crash_each_job_goes_on_alone_and_none_is_blamed(
    records: RecordsLevel,
) -> None:
    attempts: Counter[int] = Counter()

    async def embed(_note: Note, ctx: JobContext) -> None:
        attempts[ctx.attempt] += 1

    rig, job = _shop(embed, records=records)
    ids = await rig.submit(job, *map(str, range(12)))
    await _crash(rig)
    async with rig.working(concurrency=2):
        done = await rig.happens(JobCompleted, 12)
    assert {event.job_id for event in done} == {*ids}
    assert attempts == {1: 12}
    assert rig.remaining() == 0
    assert rig.calls("send") == 3  # the bundle, and twelve messages


async def test_with_once_a_crash_repeats_nothing() -> None:
    runs: Counter[str] = Counter()

    async def embed(note: Note, _ctx: JobContext) -> None:
        runs[note.text] += 1

    rig, job = _shop(embed, once=True)
    await rig.submit(job, "a", "b", "c")
    rig.sqs.faults.raise_on("delete", Throttled("busy"), times=10_000)
    async with rig.working():
        await rig.happens(JobCompleted, 3)
    rig.sqs.faults.clear()
    await asyncio.sleep(60)
    assert rig.remaining() == 1
    async with rig.working():
        await rig.happens(JobAlreadyDone, 3)
    assert runs == {"a": 1, "b": 1, "c": 1}
    assert rig.remaining() == 0


async def test_a_bundle_is_extended_by_one_entry_for_all_of_its_jobs() -> None:
    gate = Gate()
    app = App("shop")
    lane = lanes(3)[Priority.NORMAL]
    mail = app.queue("mail", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lane})
    job = mail.job("embed", bundle=True)(gate.__call__)
    rig = Rig(app)
    await rig.submit(job, "a", "b", "c")
    gate.open("a")
    async with rig.working(concurrency=2):
        await gate.reached(3)
        await asyncio.sleep(60)
        gate.open("b", "c")
        await rig.happens(JobCompleted, 3)
    assert sorted(gate.started) == ["a", "b", "c"]
    beats = [call.entries for call in rig.sqs.calls if call.action == "change_visibility"]
    assert len(beats) > 40
    assert {*beats} == {1}
    assert not rig.heard(ReceiptLost)


async def test_a_lost_receipt_interrupts_all_jobs_of_the_bundle_and_settles_none() -> None:
    app, mail = one_lane(RETRY, visibility_s=6)
    started: Counter[str] = Counter()
    interrupted: list[str] = []

    @mail.job("embed", bundle=True)
    async def embed(note: Note) -> None:
        started[note.text] += 1
        try:
            await asyncio.sleep(600 if started[note.text] == 1 else 1)
        except asyncio.CancelledError:
            interrupted.append(note.text)
            raise

    rig = Rig(app)
    await rig.submit(embed, "a", "b")
    async with rig.working(concurrency=2):
        await rig.happens(JobStarted, 2)
        # Every beat fails until the message is visible and another receiver takes it, for 90 s.
        rig.sqs.faults.raise_on("change_visibility", ServiceUnavailable("503"), times=6)
        async with asyncio.timeout(LIMIT_S):
            [taken] = await rig.sqs.receive(MAIL, limit=1, wait_s=20, visibility_s=90)
        assert taken.receive_count == 2
        await rig.happens(ReceiptLost, 2)  # doubted, and lost
        await asyncio.sleep(0.1)
        assert sorted(interrupted) == ["a", "b"]
        assert len(rig.heard(ReceiptLost)) == 2, "once for the message, and not for each job"
        assert _texts(rig) == [["a", "b"]]
        [message] = rig.sqs.messages(MAIL)
        assert message.state is MessageState.IN_FLIGHT, "the stranger's lease was touched"
        await rig.happens(JobCompleted, 2)
    assert started == {"a": 2, "b": 2}
    assert rig.remaining() == 0


async def test_a_stop_sends_what_has_not_begun_alone_and_repeats_nothing() -> None:
    gate = Gate()
    rig, job = _shop(gate.__call__)
    await rig.submit(job, "a", "b", "c", "d")
    async with rig.working(concurrency=2) as worker:
        await gate.reached(2)
        worker.stop()
        gate.open("a", "b")
    assert rig.report is not None
    assert rig.report.clean
    assert sorted(_texts(rig)) == [["c"], ["d"]]
    assert all(parse(each.body).attempts_used == 0 for each in rig.sqs.messages(MAIL))


async def test_what_a_stop_cuts_short_goes_on_alone() -> None:
    gate = Gate()
    rig, job = _shop(gate.__call__)
    await rig.submit(job, "a", "b")
    gate.open("a")
    async with rig.working(drain=timedelta(seconds=1)):
        await rig.happens(JobCompleted)
        await gate.reached(2)
    assert _texts(rig) == [["b"]]
    [message] = rig.sqs.messages(MAIL)
    assert message.state is MessageState.VISIBLE
    assert parse(message.body).attempts_used == 0


async def test_a_limit_sends_what_it_holds_back_for_long_alone() -> None:
    gate = Gate()
    rig, job = _shop(gate.__call__, concurrency=Concurrency(1))
    await rig.submit(job, *map(str, range(30)))
    async with rig.working(give_back_after=timedelta(seconds=1)):
        await gate.reached(1)
        await asyncio.sleep(120)
        assert len(rig.sqs.messages(MAIL)) > 20
        gate.open(*map(str, range(30)))
        await rig.happens(JobCompleted, 30)
    assert Counter(gate.started) == Counter(map(str, range(30)))


async def test_a_message_that_only_looks_like_a_job_is_parked_alone() -> None:
    parking = Retry(max_attempts=2, backoff=Backoff.fixed(10))
    app, mail = one_lane(parking=parking)

    @mail.job("embed", bundle=True)
    async def job(_note: Note) -> None: ...

    rig = Rig(app)
    await rig.submit(job, "a", "b")
    [whole] = await rig.sqs.receive(MAIL, limit=1, wait_s=0)
    await rig.sqs.delete(MAIL, [whole.receipt])
    first, second = bodies_of(whole.body)
    body = bundle_body([first, second.replace('"type":"embed"', '"type":"gone"'), '{"v":1}'])
    await rig.sqs.send(MAIL, [OutgoingMessage(body=body, attributes=whole.attributes)])
    async with rig.working():
        await rig.happens(JobCompleted)
        await rig.happens(MessageUnrunnable, 6)  # in the bundle, and twice alone
    assert rig.remaining() == 0
    reasons = [letter.attributes["Reason"] for letter in rig.sqs.messages(DEAD_MAIL)]
    assert sorted(reasons) == ["unknown-type", "unreadable"]


async def test_a_cancelled_and_an_expired_job_of_a_bundle_never_run() -> None:
    gate = Gate()
    rig, job = _shop(gate.__call__)
    backend = rig.backend
    async with AsyncClient(rig.app, backend=backend) as client:
        handles = await client.submit_many(job, [Note(text=text) for text in "abc"])
        await handles[1].cancel()
        await client.submit_many(job, [Note(text=text) for text in "xy"], expires=5)
    await asyncio.sleep(10)
    gate.open(*"abcxy")
    async with rig.working():
        await rig.happens(JobCancelled)
        await rig.happens(JobDropped, 2)
        await rig.happens(JobCompleted, 2)
    assert sorted(gate.started) == ["a", "c"]
    assert rig.remaining() == 0


async def test_a_job_that_has_begun_in_a_bundle_expires_no_more() -> None:
    attempts: list[int] = []

    async def embed(_note: Note, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) < 3:
            raise RetryLater(60)

    rig, job = _shop(embed, expires=10)
    await rig.submit(job, "a", "b")
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    assert attempts == [1, 1, 1, 1]
    assert not rig.heard(JobDropped)


async def test_paused_jobs_of_a_bundle_wait_alone_and_lose_no_attempt() -> None:
    attempts: list[int] = []

    async def embed(_note: Note, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)

    app, mail = one_lane(RETRY)
    mail.job("other")(_nothing)  # whose records let types be paused
    rig, job = Rig(app), mail.job("embed", bundle=True, records="off")(embed)
    await rig.submit(job, "a", "b")
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        await client.pauses.create(job_type="embed")
        async with rig.working():
            await asyncio.sleep(30)
            assert not rig.heard(JobStarted)
            await client.pauses.remove(job_type="embed")
            await rig.happens(JobCompleted, 2)
    assert attempts == [1, 1]


async def test_each_job_of_a_bundle_has_its_own_record_and_result() -> None:
    async def embed(note: Note, _ctx: JobContext) -> str:
        if note.text == "bad":
            raise DoNotRetry("no")
        return note.text.upper()

    rig, job = _shop(embed)
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        handles = await client.submit_many(job, [Note(text=text) for text in ("a", "bad", "b")])
        async with rig.working():
            await rig.happens(JobCompleted, 2)
            await rig.happens(JobDeadLettered)
        assert [await handle.state() for handle in handles] == [
            JobState.COMPLETED,
            JobState.DEAD,
            JobState.COMPLETED,
        ]
        assert await handles[2].result(timeout=0) == "B"
    for handle in handles:
        assert await rig.table.query(partition(handle.id))


async def test_few_slots_receive_no_more_bundles_than_they_can_start() -> None:
    gate = Gate()
    rig, job = _shop(gate.__call__)
    for number in range(6):
        await rig.submit(job, *(f"{number}-{each}" for each in range(20)))
    async with rig.working(concurrency=4):
        await gate.reached(4)
        await asyncio.sleep(1)
        assert rig.in_flight() == 1
        gate.open(*(f"{number}-{each}" for number in range(6) for each in range(20)))
        await rig.happens(JobCompleted, 120)
    assert rig.calls("delete") <= 6
