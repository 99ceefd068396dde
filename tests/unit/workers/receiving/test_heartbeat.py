"""Leases: messages held by the worker stay its own for as long as it holds them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import pairwise

import pytest

from headgate import App, Backoff, JobContext, Priority, Retry
from headgate.jobs.core.events import (
    HeartbeatFailed,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobRetryScheduled,
    JobStarted,
    PollReceived,
    ReceiptLost,
    SettlementFailed,
)
from headgate.jobs.core.ports.transport import VisibilityChange
from headgate.jobs.errors import ServiceUnavailable, Throttled
from headgate.jobs.testing import MessageState
from tests.unit.workers.rig import LIMIT_S, MAIL, Gate, Note, Rig, lanes, one_lane, without_threads

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("old_receipts_work", [False, True])
async def test_a_three_minute_job_on_a_queue_with_two_seconds_visibility_runs_once(
    old_receipts_work: bool,
) -> None:
    app, mail = one_lane(visibility_s=2)

    @mail.job("render")
    async def render(_note: Note) -> None:
        await asyncio.sleep(180)

    rig = Rig(app, old_receipts_work=old_receipts_work)
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobCompleted)
        await asyncio.sleep(10)
    assert len(rig.heard(JobStarted)) == 1
    assert not rig.heard(ReceiptLost)
    assert rig.remaining() == 0


def _gaps_s(rig: Rig, queue: str = MAIL) -> list[float]:
    """Return the seconds between the extensions of one queue's messages."""
    beats = [
        call.at
        for call in rig.sqs.calls
        if call.action == "change_visibility" and call.queue == queue
    ]
    return [(later - one).total_seconds() for one, later in pairwise(beats)]


@pytest.mark.parametrize("submitted_at_s", [0, 0.3, 7.7])
async def test_what_runs_is_extended_at_a_third_of_its_visibility_timeout(
    submitted_at_s: float,
) -> None:
    app, mail = one_lane(visibility_s=30)

    @mail.job("render")
    async def render(_note: Note) -> None:
        await asyncio.sleep(295)

    rig = Rig(app)
    async with rig.working():
        await asyncio.sleep(submitted_at_s)
        await rig.submit(render)
        await rig.happens(JobCompleted)
    gaps = _gaps_s(rig)
    assert len(gaps) == 28
    assert gaps == pytest.approx([10] * 28, abs=0.1)


async def test_messages_received_apart_come_to_share_their_extensions() -> None:
    app, mail = one_lane(visibility_s=30)

    @mail.job("render")
    async def render(_note: Note) -> None:
        await asyncio.sleep(300)

    rig = Rig(app)
    async with rig.working():
        for _ in range(10):
            await rig.submit(render)
            await asyncio.sleep(0.1)
        await rig.happens(JobCompleted, 10)
    assert rig.calls("change_visibility") <= 30, "one request each third of the timeout"


async def test_the_next_extension_counts_from_the_request_and_not_from_its_answer() -> None:
    """SQS counts the timeout from the call, so a slow answer must not put off the next one."""
    app, mail = one_lane(visibility_s=30)

    @mail.job("render")
    async def render(_note: Note) -> None:
        await asyncio.sleep(120)

    rig = Rig(app)

    async def slow_answer() -> None:
        await asyncio.sleep(9)

    rig.wire.answers["change_visibility"] = slow_answer
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert max(_gaps_s(rig)) <= 10.1


async def test_buffered_messages_are_extended_while_they_wait_for_a_slot() -> None:
    app, mail = one_lane(visibility_s=2)
    gate = Gate()

    @mail.job("render")
    async def render(note: Note, ctx: JobContext) -> None:
        await gate(note, ctx)

    rig = Rig(app)
    async with rig.working(concurrency=1, give_back_after=timedelta(minutes=10)):
        await rig.submit(render, "first")
        await gate.reached(1)
        await asyncio.sleep(1)
        await rig.submit(render, "second")
        await asyncio.sleep(120)
        receives = [message.receive_count for message in rig.sqs.messages(MAIL)]
        gate.open("first", "second")
        await rig.happens(JobCompleted, 2)
    assert max(receives) == 1


@pytest.mark.parametrize("error", [Throttled("slow down"), ServiceUnavailable("503")])
async def test_two_failed_beats_in_a_row_are_survived(error: Exception) -> None:
    app, mail = one_lane(visibility_s=6)

    @mail.job("render")
    async def render(_note: Note) -> None:
        await asyncio.sleep(60)

    rig = Rig(app)
    rig.sqs.faults.raise_on("change_visibility", error, times=2)
    rig.sqs.faults.fail_entries("change_visibility", times=1)
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert len(rig.heard(JobStarted)) == 1
    assert rig.remaining() == 0


def _unanswered(times: int) -> Callable[[], Awaitable[None]]:
    """Return a network that swallows the first requests of a kind."""
    left = times

    async def swallow() -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            await asyncio.Event().wait()

    return swallow


@pytest.mark.parametrize("visibility_s", [2, 12, 30, 300])
@pytest.mark.parametrize("side", ["requests", "answers"])
async def test_requests_without_an_answer_cost_no_message_its_lease(
    visibility_s: int, side: str
) -> None:
    app, mail = one_lane(visibility_s=visibility_s)

    @mail.job("render", timeout=None)
    async def render(_note: Note) -> None:
        await asyncio.sleep(2 * visibility_s)

    rig = Rig(app)
    getattr(rig.wire, side)["change_visibility"] = _unanswered(3)
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert len(rig.heard(JobStarted)) == 1
    assert not rig.heard(ReceiptLost)
    assert [event.error for event in rig.heard(HeartbeatFailed)] == [
        f"SQS did not answer within {max(1, visibility_s / 3):g} s"
    ] * 3


async def test_without_answers_no_more_than_three_extensions_are_under_way() -> None:
    app, mail = one_lane(visibility_s=12)

    @mail.job("render", timeout=None)
    async def render(_note: Note) -> None:
        await asyncio.sleep(300)

    rig, back = Rig(app), asyncio.Event()
    under_way = most = 0

    async def swallow() -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            await back.wait()
        finally:
            under_way -= 1

    rig.wire.requests["change_visibility"] = swallow
    await rig.submit(render)
    async with rig.working(concurrency=1):
        await rig.happens(JobStarted)
        await asyncio.sleep(11)  # its lease has not lapsed: nothing else changes its visibility
        assert under_way == most <= 3
        back.set()
        await rig.happens(JobCompleted)
    assert len(rig.heard(JobStarted)) == 1


async def test_a_late_answer_tells_of_a_lost_receipt_though_sqs_was_asked_again() -> None:
    app, mail = one_lane(visibility_s=30)

    @mail.job("render", timeout=None)
    async def render(_note: Note) -> None:
        await asyncio.sleep(600)

    rig = Rig(app)

    async def slow_answer() -> None:
        await asyncio.sleep(9)  # longer than it takes until SQS is asked again

    rig.wire.answers["change_visibility"] = slow_answer
    await rig.submit(render)
    async with rig.working(concurrency=1):
        [started] = await rig.happens(JobStarted)
        rig.sqs.faults.fail_entries("change_visibility", times=2, sender_fault=True)
        [lost] = await rig.happens(ReceiptLost)
        assert (lost.at - started.at).total_seconds() == pytest.approx(19, abs=1)
        await asyncio.sleep(9)  # by then both have been answered
    assert rig.heard(ReceiptLost) == [lost]


async def test_a_retry_waits_for_each_of_the_extensions_under_way() -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(500)), visibility_s=30)

    @mail.job("render")
    async def render(_note: Note) -> None:
        await asyncio.sleep(16)  # SQS has been asked twice by then
        raise ConnectionError

    rig = Rig(app)
    delays = iter([9.0, 7.0, 0.0])

    async def slow_network() -> None:
        await asyncio.sleep(next(delays))

    rig.wire.requests["change_visibility"] = slow_network
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobRetryScheduled)
    timeouts = [call.timeouts_s for call in rig.sqs.calls if call.action == "change_visibility"]
    assert timeouts == [(30,), (30,), (500,)]


async def test_a_lost_receipt_interrupts_an_async_job_and_settles_nothing() -> None:
    app, mail = one_lane(visibility_s=6)
    interrupted: list[int] = []

    @mail.job("render")
    async def render(_note: Note, ctx: JobContext) -> None:
        try:
            await asyncio.sleep(600 if ctx.attempt == 1 else 1)
        except asyncio.CancelledError:
            interrupted.append(ctx.attempt)
            raise

    rig = Rig(app)
    await rig.submit(render)
    async with rig.working(concurrency=1):
        await rig.happens(JobStarted)
        # Every beat fails until the message is visible and another receiver takes it, for 90 s.
        rig.sqs.faults.raise_on("change_visibility", ServiceUnavailable("503"), times=6)
        async with asyncio.timeout(LIMIT_S):
            [taken] = await rig.sqs.receive(MAIL, limit=1, wait_s=20, visibility_s=90)
        assert taken.receive_count == 2
        doubted, lost = await rig.happens(ReceiptLost, 2)
        assert doubted.queue == lost.queue == MAIL
        await asyncio.sleep(0.1)
        assert interrupted == [1]
        [message] = rig.sqs.messages(MAIL)
        assert message.state is MessageState.IN_FLIGHT, "the stranger's lease was touched"
        await rig.happens(JobCompleted)
    assert not rig.heard(SettlementFailed)
    assert rig.remaining() == 0


async def test_the_verdict_on_a_job_whose_receipt_was_lost_is_its_new_holders() -> None:
    app, mail = one_lane(Retry(max_attempts=1), visibility_s=6)

    @mail.job("render")
    async def render(_note: Note) -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            raise ValueError("cut off") from None

    rig = Rig(app)
    await rig.submit(render)
    async with rig.working(concurrency=1):
        await rig.happens(JobStarted)
        rig.sqs.faults.raise_on("change_visibility", ServiceUnavailable("503"), times=6)
        await rig.sqs.receive(MAIL, limit=1, wait_s=20, visibility_s=9_000)
        await rig.happens(ReceiptLost)
        await asyncio.sleep(5)
        assert not rig.heard(JobDeadLettered)
    assert len(rig.sqs.messages(MAIL)) == 1


async def test_an_extension_under_way_never_overtakes_a_retrys_visibility_change() -> None:
    """The extension's request reaches SQS late: after the retry's, if that did not wait."""
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(500)), visibility_s=30)

    @mail.job("render")
    async def render(_note: Note) -> None:
        await asyncio.sleep(11)  # a beat is on its way by then
        raise ConnectionError

    rig = Rig(app)
    requests: list[str] = []

    async def slow_network() -> None:
        requests.append("request")
        if len(requests) == 1:
            await asyncio.sleep(9)

    rig.wire.requests["change_visibility"] = slow_network
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobRetryScheduled)
        [message] = rig.sqs.messages(MAIL)
        assert message.visible_at is not None
        left = (message.visible_at - rig.clock.now()).total_seconds()
    assert 499 <= left <= 500
    timeouts = [call.timeouts_s for call in rig.sqs.calls if call.action == "change_visibility"]
    assert timeouts == [(30,), (500,)]


async def test_while_the_answer_to_a_retry_is_under_way_its_message_is_not_extended() -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(15)), visibility_s=30)

    @mail.job("render")
    async def render(_note: Note) -> None:
        raise ConnectionError

    rig = Rig(app)

    async def slow_answer() -> None:
        await asyncio.sleep(14)  # a beat would be due meanwhile

    rig.wire.answers["change_visibility"] = slow_answer
    await rig.submit(render)
    async with rig.working():
        first, second = await rig.happens(JobStarted, 2)
        await rig.happens(JobDeadLettered)
    assert (second.at - first.at).total_seconds() == pytest.approx(15, abs=1)


@pytest.mark.parametrize("ends_after_s", [8.75, 9.99, 10.0, 10.01, 10.2])
async def test_a_retry_in_the_very_moment_of_a_beat_keeps_its_delay(ends_after_s: float) -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(500)), visibility_s=30)

    @mail.job("render")
    async def render(_note: Note) -> None:
        await asyncio.sleep(ends_after_s)
        raise ConnectionError

    rig = Rig(app)
    delays = iter([0.3] + [0.0] * 100)

    async def reordering_network() -> None:
        await asyncio.sleep(next(delays))

    rig.wire.requests["change_visibility"] = reordering_network
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobRetryScheduled)
        await asyncio.sleep(1)
        [message] = rig.sqs.messages(MAIL)
        assert message.visible_at is not None
        assert (message.visible_at - rig.clock.now()).total_seconds() > 490


async def test_a_slow_answer_for_one_queue_does_not_cost_another_its_lease() -> None:
    app = App("shop")
    slow = app.queue(
        "slow", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lanes(60)[Priority.NORMAL]}
    )
    fast = app.queue(
        "fast", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lanes(3)[Priority.NORMAL]}
    )

    @slow.job("slow-job")
    async def slow_job(_note: Note) -> None:
        await asyncio.sleep(100)

    @fast.job("fast-job")
    async def fast_job(_note: Note) -> None:
        await asyncio.sleep(100)

    rig = Rig(app)
    change_visibility = rig.wire.change_visibility

    async def hanging(queue: str, changes: list[VisibilityChange]) -> object:
        if queue == "shop-slow-normal":
            await asyncio.sleep(15)
        return await change_visibility(queue, changes)

    rig.wire.change_visibility = hanging  # type: ignore[method-assign, assignment]
    await rig.submit(slow_job)
    await rig.submit(fast_job)
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    assert len(rig.heard(JobStarted)) == 2
    assert not rig.heard(ReceiptLost)


@without_threads
async def test_no_extension_asks_for_more_than_sqs_twelve_hours() -> None:
    app, mail = one_lane(visibility_s=11 * 3600)

    @mail.job("render", timeout=None)
    async def render(_note: Note) -> None:
        await asyncio.sleep(4 * 3600)  # its extension comes at a third of the timeout

    rig = Rig(app)
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert len(rig.heard(JobStarted)) == 1
    assert not rig.heard(ReceiptLost)
    assert rig.calls("change_visibility") == 1
    assert rig.remaining() == 0


async def test_a_delete_that_overtakes_an_extension_is_no_lost_receipt() -> None:
    app, mail = one_lane(visibility_s=30)

    @mail.job("render")
    async def render(_note: Note) -> None:
        await asyncio.sleep(11)

    rig = Rig(app)

    async def slow_request() -> None:
        await asyncio.sleep(2)

    async def slow_answer() -> None:
        await asyncio.sleep(5)

    rig.wire.requests["change_visibility"] = slow_request
    rig.wire.answers["delete"] = slow_answer
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobCompleted)
        await asyncio.sleep(20)
    assert not rig.heard(ReceiptLost)
    assert rig.remaining() == 0


async def test_a_dead_heartbeat_stops_the_worker_and_gives_everything_back() -> None:
    app, mail = one_lane(visibility_s=6)

    @mail.job("render")
    async def render(_note: Note) -> None:
        await asyncio.sleep(600)

    rig = Rig(app)
    fault = RuntimeError("a bug in the heartbeat")
    rig.sqs.faults.raise_on("change_visibility", fault)
    await rig.submit(render)
    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(60):
            await rig.worker().run()
    assert raised.value.exceptions == (fault,)
    assert rig.in_flight() == 0, "without a heartbeat nothing may go on"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_was_received_before_a_long_suspension_is_not_started_after_it() -> None:
    app, mail = one_lane(visibility_s=30)

    @mail.job("render")
    async def render(_note: Note) -> None:
        return None

    rig = Rig(app)
    suspensions = iter([100.0])

    async def late() -> None:
        await asyncio.sleep(next(suspensions, 0))

    rig.wire.answers["receive"] = late
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobCompleted)
    [started] = rig.heard(JobStarted)
    came = [event for event in rig.events if isinstance(event, PollReceived) and event.messages]
    assert rig.events.index(came[1]) < rig.events.index(started), "the first delivery had lapsed"
    assert (started.attempt, started.is_first) == (1, True), "the first delivery began nothing"


@pytest.mark.parametrize("old_receipts_work", [False, True])
async def test_a_failure_after_its_lease_has_lapsed_is_left_to_the_next_delivery(
    old_receipts_work: bool,
) -> None:
    app, mail = one_lane(visibility_s=30, retry=Retry(max_attempts=2, backoff=Backoff.fixed(1000)))

    @mail.job("render")
    async def render(_note: Note, ctx: JobContext) -> None:
        if ctx.attempt == 1:
            await asyncio.sleep(200)
            raise ValueError("too late")

    rig = Rig(app, old_receipts_work=old_receipts_work)
    rig.sqs.faults.raise_on("change_visibility", ServiceUnavailable("down"), times=1000)
    await rig.submit(render)
    async with rig.working(concurrency=1):
        await rig.happens(ReceiptLost)
        await rig.happens(JobFailed)
        rig.sqs.faults.clear()
        await rig.happens(JobCompleted)
    assert not rig.heard(JobRetryScheduled)
    assert rig.remaining() == 0
    assert all(1000 not in call.timeouts_s for call in rig.sqs.calls)
