"""Settling: whatever SQS answers, no job is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import get_args

import pytest

from headgate import Backoff, JobContext, Retry
from headgate.jobs.core.events import (
    Event,
    JobCompleted,
    JobDeadLettered,
    JobStarted,
    SettlementFailed,
)
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.errors import AccessDenied, ServiceUnavailable, Throttled, TransportError
from headgate.jobs.testing import MessageState
from headgate.jobs.testing.memory.faults import BatchAction
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

_RETRY = Retry(max_attempts=3, backoff=Backoff.fixed(2))
_FAULTS: list[TransportError] = [Throttled("slow down"), ServiceUnavailable("503")]


def _rig(*, old_receipts_work: bool = False, records: RecordsLevel = "outcomes") -> Rig:
    """Return a rig with jobs that succeed at once, at the second attempt, or never."""
    app, mail = one_lane(_RETRY, records=records)

    @mail.job("charge")
    async def charge(note: Note, ctx: JobContext) -> None:
        if note.text == "dies" or (note.text == "fails once" and ctx.attempt == 1):
            raise ConnectionError("refused")

    return Rig(app, old_receipts_work=old_receipts_work)


async def _settle_everything(rig: Rig, sabotage: Callable[[], None]) -> None:
    texts = ["done", "fails once", "dies"] * 12
    ids = await rig.submit(rig.app.types["charge"], *texts)
    sabotage()
    async with rig.working():
        async with asyncio.timeout(7200):
            while rig.remaining():  # noqa: ASYNC110 - virtual time; no event says "empty"
                await asyncio.sleep(1)
    completed = {event.job_id for event in rig.heard(JobCompleted)}
    dead = {message.attributes["JobId"] for message in rig.sqs.messages(DEAD_MAIL)}
    assert dead == set(ids[2::3])
    assert completed == set(ids) - dead


@pytest.mark.parametrize("old_receipts_work", [False, True])
@pytest.mark.parametrize("applied", [False, True], ids=["refused", "answer-lost"])
@pytest.mark.parametrize("error", _FAULTS, ids=["throttled", "unavailable"])
@pytest.mark.parametrize("action", get_args(BatchAction))
async def test_a_call_that_fails_a_few_times_loses_no_job(
    action: BatchAction, error: TransportError, applied: bool, old_receipts_work: bool
) -> None:
    rig = _rig(old_receipts_work=old_receipts_work)
    await _settle_everything(
        rig, lambda: rig.sqs.faults.raise_on(action, error, times=5, applied=applied)
    )


@pytest.mark.parametrize("code", ["InternalError", "ThrottlingException"])
@pytest.mark.parametrize("indexes", [None, [0], [1, 3, 9]], ids=["all", "first", "some"])
@pytest.mark.parametrize("action", get_args(BatchAction))
async def test_entries_that_fail_within_a_good_answer_lose_no_job(
    action: BatchAction, indexes: list[int] | None, code: str
) -> None:
    rig = _rig()
    await _settle_everything(
        rig, lambda: rig.sqs.faults.fail_entries(action, times=5, indexes=indexes, code=code)
    )


@pytest.mark.parametrize("action", get_args(BatchAction))
async def test_entries_that_sqs_blames_on_the_request_lose_no_job_either(
    action: BatchAction,
) -> None:
    rig = _rig()
    await _settle_everything(
        rig, lambda: rig.sqs.faults.fail_entries(action, times=2, sender_fault=True)
    )
    assert rig.heard(SettlementFailed)


async def test_a_retry_whose_visibility_change_fails_for_good_leaves_the_message() -> None:
    rig = _rig()
    await rig.submit(rig.app.types["charge"], "fails once")
    rig.sqs.faults.raise_on("change_visibility", ServiceUnavailable("503"), times=8)
    async with rig.working():
        [failed] = await rig.happens(SettlementFailed)
        assert len(rig.sqs.messages(MAIL)) == 1
        await rig.happens(JobCompleted)
    assert failed.action == "change_visibility"
    assert "503" in failed.error
    assert failed.job_id == rig.heard(JobStarted)[0].job_id


async def test_a_dead_letter_that_can_not_be_sent_leaves_the_original() -> None:
    rig = _rig()
    await rig.submit(rig.app.types["charge"], "dies")
    rig.sqs.faults.raise_on("send", AccessDenied("no"), queue=DEAD_MAIL)
    async with rig.working():
        [failed] = await rig.happens(SettlementFailed)
        assert failed.action == "send"
        assert len(rig.sqs.messages(MAIL)) == 1
        assert rig.sqs.messages(DEAD_MAIL) == []
        assert rig.calls("delete") == 0
        await rig.happens(JobDeadLettered)
    assert len(rig.sqs.messages(DEAD_MAIL)) == 1
    assert rig.remaining() == 0


async def test_a_worker_that_stops_before_a_dead_letter_is_sent_deletes_nothing() -> None:
    rig = _rig()
    await rig.submit(rig.app.types["charge"], "dies")
    rig.sqs.faults.raise_on("send", ServiceUnavailable("503"), queue=DEAD_MAIL, times=100_000)
    async with rig.working():
        await rig.happens(SettlementFailed)
    assert len(rig.sqs.messages(MAIL)) == 1
    assert rig.sqs.messages(DEAD_MAIL) == []
    assert rig.calls("delete") == 0
    assert rig.report is not None
    assert rig.report.unsettled == 1


@pytest.mark.parametrize("records", ["outcomes", "off"])
async def test_only_the_parking_is_retried_while_the_dead_letter_queue_refuses(
    records: RecordsLevel,
) -> None:
    rig = _rig(records=records)
    await rig.submit(rig.app.types["charge"], "dies")
    rig.sqs.faults.fail_entries("send", queue=DEAD_MAIL, times=100_000, sender_fault=True)
    async with rig.working():
        await asyncio.sleep(3600)
        assert len(rig.heard(JobStarted)) == _RETRY.max_attempts
        assert len(rig.sqs.messages(MAIL)) == 1
        assert rig.heard(SettlementFailed)
        rig.sqs.faults.clear()
        await rig.happens(JobDeadLettered)
    assert rig.remaining() == 0
    [letter] = rig.sqs.messages(DEAD_MAIL)
    assert letter.attributes["Reason"] == "attempts-exhausted"


async def test_a_letter_that_sqs_finds_fault_with_is_sent_without_its_details() -> None:
    rig = _rig()
    [job_id] = await rig.submit(rig.app.types["charge"], "dies")
    [original] = rig.sqs.messages(MAIL)
    rig.refuse_sends(lambda message: len(message.attributes) > 2)
    async with rig.working():
        await rig.happens(JobDeadLettered)
    assert len(rig.heard(JobStarted)) == _RETRY.max_attempts
    assert rig.heard(SettlementFailed), "that details are lost is told"
    [letter] = rig.sqs.messages(DEAD_MAIL)
    assert letter.body == original.body
    assert dict(letter.attributes) == {"Reason": "attempts-exhausted", "JobId": job_id}


async def test_a_finished_job_whose_delete_fails_for_good_is_said_and_left() -> None:
    rig = _rig()
    await rig.submit(rig.app.types["charge"], "done")
    rig.sqs.faults.raise_on("delete", AccessDenied("no"))
    async with rig.working():
        [failed] = await rig.happens(SettlementFailed)
        assert failed.action == "delete"
        assert len(rig.sqs.messages(MAIL)) == 1


async def test_a_dead_letter_is_sent_before_the_original_is_deleted_and_says_why() -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(2)))

    @mail.job("charge")
    async def charge(_note: Note) -> None:
        raise ConnectionError("refused by the bank\x00")

    rig = Rig(app)
    [job_id] = await rig.submit(charge, "dies", tenant="org-1")
    [original] = rig.sqs.messages(MAIL)
    async with rig.working():
        await rig.happens(JobDeadLettered)
    order = [
        (call.action, call.queue) for call in rig.sqs.calls if call.action in ("send", "delete")
    ]
    assert order == [("send", MAIL), ("send", DEAD_MAIL), ("delete", MAIL)]
    [letter] = rig.sqs.messages(DEAD_MAIL)
    assert letter.body == original.body
    assert letter.group == "org-1"
    failed_at = letter.attributes["FailedAt"]
    assert failed_at.startswith("2026-01-01T00:00:0")
    assert dict(letter.attributes) == {
        "JobId": job_id,
        "JobType": "charge",
        "ErrorType": "ConnectionError",
        "ErrorMessage": r"refused by the bank\x00",
        "Attempts": "2",
        "FailedAt": failed_at,
        "Reason": "attempts-exhausted",
        "Priority": "normal",
        "Source": "sdk",
    }


async def test_the_dead_letter_of_a_body_of_one_mebibyte_can_be_sent() -> None:
    app, mail = one_lane(Retry(max_attempts=1))

    @mail.job("charge")
    async def charge(_note: Note) -> None:
        raise ValueError("e" * 5_000)

    rig = Rig(app)
    await rig.submit(charge, "x" * (1_048_576 - 600))
    async with rig.working():
        await rig.happens(JobDeadLettered)
    assert rig.remaining() == 0
    assert rig.sqs.messages(DEAD_MAIL)[0].attributes["Reason"]


async def test_an_error_whose_text_can_not_be_made_is_a_failure_like_any_other() -> None:
    app, mail = one_lane(Retry(max_attempts=1))

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    @mail.job("charge")
    async def charge(_note: Note) -> None:
        raise Mute

    rig = Rig(app)
    await rig.submit(charge)
    async with rig.working():
        [dead] = await rig.happens(JobDeadLettered)
    assert dead.error_type == "Mute"
    assert "RuntimeError" in dead.error_message


async def test_a_subscriber_that_raises_changes_nothing() -> None:
    app, mail = one_lane(_RETRY)

    @mail.job("charge")
    async def charge(_note: Note, ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise ConnectionError

    rig = Rig(app)
    listen = rig.hear

    def raises(event: Event) -> None:
        listen(event)
        raise RuntimeError("a subscriber's own")

    rig.hear = raises  # type: ignore[method-assign]  # there is no other way in
    await rig.submit(charge)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert rig.remaining() == 0


async def test_settlements_share_requests() -> None:
    rig = _rig()
    await rig.submit(rig.app.types["charge"], *["done"] * 200)
    async with rig.working():
        await rig.happens(JobCompleted, 200)
    assert rig.remaining() == 0
    assert rig.calls("delete") <= 30
    assert rig.calls("receive") <= 40


async def test_a_job_that_ends_while_the_worker_stops_is_still_deleted() -> None:
    rig = _rig()
    await rig.submit(rig.app.types["charge"], "done")
    rig.sqs.faults.raise_on("delete", ServiceUnavailable("503"), times=3)
    async with rig.working() as worker:
        await rig.happens(JobCompleted)
        worker.stop()
    assert rig.remaining() == 0
    assert rig.report is not None
    assert rig.report.unsettled == 0


async def test_nothing_is_hidden_after_a_stop_in_the_middle_of_settling() -> None:
    rig = _rig()
    await rig.submit(rig.app.types["charge"], *["done", "fails once", "dies"] * 20)
    async with rig.working() as worker:
        await rig.happens(JobCompleted, 5)
        worker.stop()
    hidden = [
        message
        for message in rig.sqs.messages(MAIL)
        if message.state is MessageState.IN_FLIGHT
        and message.visible_at is not None
        and (message.visible_at - rig.clock.now()).total_seconds() > 2
    ]
    assert hidden == []


@pytest.mark.parametrize("error", [ServiceUnavailable("down"), AccessDenied("no"), Throttled("")])
async def test_a_finished_job_runs_once_though_sqs_takes_no_deletes_for_minutes(
    error: TransportError,
) -> None:
    app, mail = one_lane(visibility_s=6)

    @mail.job("work")
    async def work(_note: Note) -> None:
        return None

    rig = Rig(app)
    rig.sqs.faults.raise_on("delete", error, times=10_000)
    await rig.submit(work)
    async with rig.working():
        await rig.happens(SettlementFailed, 3)
        await asyncio.sleep(300)
        rig.sqs.faults.clear()
        await asyncio.sleep(60)  # longer than any pause between rounds
        assert rig.remaining() == 0
    assert len(rig.heard(JobStarted)) == 1
    assert rig.report is not None
    assert rig.report.clean


async def test_failing_deletes_do_not_let_a_worker_hold_more_than_its_bound() -> None:
    app, mail = one_lane()

    @mail.job("work")
    async def work(_note: Note) -> None:
        return None

    rig = Rig(app)
    rig.sqs.faults.raise_on("delete", ServiceUnavailable("down"), times=100_000)
    await rig.submit(work, *map(str, range(500)))
    async with rig.working(concurrency=5):
        await asyncio.sleep(120)
        assert len(rig.heard(JobStarted)) == rig.in_flight() <= 2 * (2 * 5 + 10)
        rig.sqs.faults.clear()
        await rig.happens(JobCompleted, 500)


async def test_hanging_deletes_do_not_let_a_worker_hold_more_than_its_bound() -> None:
    app, mail = one_lane(records="off")

    @mail.job("work")
    async def work(_note: Note) -> None:
        return None

    rig, answered = Rig(app), asyncio.Event()

    async def until_answered() -> None:
        await answered.wait()

    rig.wire.answers["delete"] = until_answered
    async with rig.working(concurrency=5):
        for _ in range(60):
            await rig.submit(work)
            await asyncio.sleep(0.1)  # so that the receive under way never lacks room
        assert len(rig.heard(JobStarted)) <= 2 * 5 + 10
        answered.set()
        await rig.happens(JobCompleted, 60)


async def test_a_delete_that_fails_until_the_end_is_reported_as_unsettled() -> None:
    app, mail = one_lane()

    @mail.job("work")
    async def work(_note: Note) -> None:
        return None

    rig = Rig(app)
    rig.sqs.faults.raise_on("delete", ServiceUnavailable("down"), times=10_000)
    await rig.submit(work)
    async with rig.working(drain=timedelta(seconds=1)):
        await rig.happens(JobCompleted)
    assert rig.report is not None
    assert rig.report.unsettled == 1


@pytest.mark.parametrize("records", ["outcomes", "off"])
async def test_a_dead_letter_is_told_though_its_original_can_not_be_deleted(
    records: RecordsLevel,
) -> None:
    rig = _rig(records=records)
    [job_id] = await rig.submit(rig.app.types["charge"], "dies")
    rig.sqs.faults.raise_on("delete", ServiceUnavailable("503"), queue=MAIL, times=100_000)
    async with rig.working(drain=timedelta(seconds=1)):
        [told] = await rig.happens(JobDeadLettered)
        assert told.job_id == job_id
        [letter] = rig.sqs.messages(DEAD_MAIL)
        await rig.happens(SettlementFailed)
    assert len(rig.heard(JobDeadLettered)) == 1
    assert letter.attributes["Reason"] == "attempts-exhausted"
    assert rig.report is not None
    assert rig.report.unsettled == 1
