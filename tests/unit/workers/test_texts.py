"""Any text of an error, a reason or a note is written, and harms no other job."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headgate import Backoff, Discard, DoNotRetry, JobContext, RetryLater
from headgate.jobs.aws.dynamo.attributes import encode
from headgate.jobs.core.events import (
    ClaimFailed,
    JobAlreadyDone,
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobDiscarded,
    JobFailed,
    JobProgress,
    RecordsFailed,
)
from headgate.jobs.execution.outcome import Reason
from headgate.jobs.records.history import JobRecord, read_job
from headgate.jobs.records.items import partition
from headgate.jobs.retry.policy import Retry
from headgate.jobs.values.texts import LONGEST
from tests.unit.workers.rig import DEAD_MAIL, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

TWICE = Retry(max_attempts=2, backoff=Backoff.fixed(1))

HOSTILE = {
    "long": "x" * 500_000,
    "surrogate": "no file \udce9t\udce9",
    "controls": "\x00\x07\x1b[31m\x85 red",
    "long in bytes": "\N{PILE OF POO}" * 300_000,
    "noncharacters": "\ufffe\uffff",
}


async def _record(rig: Rig, job_id: str) -> JobRecord:
    return read_job(job_id, await rig.table.query(partition(job_id)), now=rig.clock.now())


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_a_failure_is_no_crash_whatever_its_error_says(text: str) -> None:
    app, queue = one_lane(retry=TWICE)

    @queue.job("send")
    async def send(note: Note) -> None:
        await asyncio.sleep(0)
        raise ValueError(text if note.text == "hostile" else "plain")

    rig = Rig(app)
    texts = ["plain", "hostile", "plain", "plain"]
    ids = await rig.submit(send, *texts)
    async with rig.working(concurrency=10):
        dead = await rig.happens(JobDeadLettered, 4)
    assert not rig.heard(JobCrashed)
    assert {event.reason for event in dead} == {Reason.ATTEMPTS_EXHAUSTED}
    assert sorted(event.attempt for event in rig.heard(JobFailed)) == [1] * 4 + [2] * 4
    for job_id in ids:
        for attempt in (await _record(rig, job_id)).attempts:
            assert attempt.error_type == "ValueError"
            assert attempt.error_message
    assert all(len(event.error_message) <= LONGEST for event in rig.heard(JobFailed))
    assert not rig.heard(RecordsFailed)
    for message in rig.sqs.messages(DEAD_MAIL):
        assert message.attributes["ErrorMessage"]


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (RetryLater(timedelta(seconds=1), HOSTILE["surrogate"]), JobDeferred),
        (RetryLater(timedelta(seconds=1), _Unspeakable()), JobDeferred),  # type: ignore[arg-type]
        (Discard(HOSTILE["controls"] + HOSTILE["long"]), JobDiscarded),
        (Discard(ValueError("not a text")), JobDiscarded),  # type: ignore[arg-type]
        (DoNotRetry(HOSTILE["surrogate"] + HOSTILE["long"]), JobDeadLettered),
        (_Unspeakable(), JobDeadLettered),
        (type("\x07" * 3000, (Exception,), {})(), JobDeadLettered),
    ],
    ids=["deferral", "unspeakable", "discard", "object", "do-not-retry", "no text", "type"],
)
@pytest.mark.parametrize("once", [False, True], ids=["plain", "once"])
async def test_a_handler_may_give_any_reason(
    error: Exception, event: type[Any], once: bool
) -> None:
    app, queue = one_lane(retry=TWICE)

    @queue.job("send", once=once)
    async def send(_note: Note) -> None:
        if not rig.heard(JobDeferred):
            raise error

    rig = Rig(app)
    [job_id] = await rig.submit(send)
    async with rig.working():
        await rig.happens(event)
        if event is JobDeferred:
            await rig.happens(JobCompleted)
    assert not rig.heard(RecordsFailed)
    assert not rig.heard(ClaimFailed)
    assert not rig.heard(JobCrashed)
    record = await _record(rig, job_id)
    assert record.state.is_final
    for item in await rig.table.query(partition(job_id)):
        encode(item)


async def test_a_note_on_progress_says_what_it_can() -> None:
    app, queue = one_lane(records="full")

    @queue.job("send")
    async def send(_note: Note, ctx: JobContext) -> None:
        await ctx.progress(10, HOSTILE["surrogate"] + HOSTILE["long"])

    rig = Rig(app)
    [job_id] = await rig.submit(send)
    async with rig.working():
        await rig.happens(JobCompleted)
    [told] = rig.heard(JobProgress)
    assert told.note.startswith(r"no file \udce9t\udce9xxx")
    assert len(told.note) <= LONGEST
    progress = (await _record(rig, job_id)).progress
    assert progress is not None
    assert progress.note == told.note


async def test_data_of_a_progress_that_can_not_be_kept_costs_no_other_record() -> None:
    app, queue = one_lane(records="full")

    @queue.job("send")
    async def send(note: Note, ctx: JobContext) -> None:
        data = "x" * 500_000 if note.text == "large" else "small"
        await ctx.progress(10, "half", data=data)

    rig = Rig(app)
    ids = await rig.submit(send, "large", "b", "c", "d")
    async with rig.working(concurrency=10):
        await rig.happens(JobCompleted, 4)
    [large, *others] = [await _record(rig, job_id) for job_id in ids]
    assert large.state.is_final
    assert large.progress is not None
    assert (large.progress.percent, large.progress.note) == (10, "half")
    for record in others:
        assert record.progress is not None
        assert record.progress.data == {"data": "small"}


@pytest.mark.parametrize(
    "result",
    [10**60, {"": 1}, [[[[1]]]] * 2, 1e-300],
    ids=["a large number", "an empty name", "nested", "a small number"],
)
async def test_a_result_that_the_table_refuses_leaves_the_job_completed(result: Any) -> None:
    app, queue = one_lane()
    if isinstance(result, list):
        for _ in range(40):
            result = [result]

    @queue.job("send")
    async def send(note: Note) -> Any:
        return result if note.text == "odd" else note.text

    rig = Rig(app)
    odd, even = await rig.submit(send, "odd", "even")
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    record = await _record(rig, odd)
    assert (record.state.value, record.has_result) == ("completed", False)
    assert "can't be stored" in record.result_fault
    assert (await _record(rig, even)).result == "even"


async def test_a_once_job_is_done_whatever_reason_it_is_discarded_for() -> None:
    app, queue = one_lane()

    @queue.job("charge", once=True)
    async def charge(_note: Note) -> None:
        raise Discard("\ud800")

    rig = Rig(app)
    [job_id] = await rig.submit(charge)
    async with rig.working():
        await rig.happens(JobDiscarded)
    assert rig.remaining() == 0
    assert not rig.heard(ClaimFailed)
    assert not rig.heard(JobAlreadyDone)
    claim = await rig.table.get(partition(job_id), "claim")
    assert claim is not None
    assert claim.data["state"] == "done"
