"""Stopping: nothing new starts, nothing stays hidden, and no wait is unbounded."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

import pytest

from headgate import App, Backoff, JobContext, Priority, Retry
from headgate.jobs.core.events import (
    JobCompleted,
    JobDropped,
    JobInterrupted,
    JobRetryScheduled,
    JobStarted,
)
from headgate.jobs.testing import MessageState
from headgate.jobs.testing.memory.faults import Action
from headgate.workers.configuration import short_wait
from headgate.workers.shutdown import CLEAN_UP_S, FLUSH_S, Report
from tests.unit.workers.rig import MAIL, Gate, Note, Rig, one_lane

pytestmark = pytest.mark.looptime


def _held() -> tuple[Rig, Gate]:
    app = App("shop", priorities="all")
    gate = Gate()

    @app.job("work")
    async def work(note: Note, ctx: JobContext) -> None:
        await gate(note, ctx)

    return Rig(app), gate


async def test_a_stop_starts_nothing_new_and_lets_what_runs_finish() -> None:
    rig, gate = _held()
    work = rig.app.types["work"]
    async with rig.working(concurrency=1, give_back_after=timedelta(hours=1)) as worker:
        await asyncio.sleep(1)  # every queue has a poll, which brings any message, slot or none
        await rig.submit(work, "running")
        await gate.reached(1)
        await rig.submit(work, "waiting", priority=Priority.LOW)
        await asyncio.sleep(1)
        assert rig.in_flight() == 2
        worker.stop()
        await asyncio.sleep(10)
        gate.open("running", "waiting")
        await rig.happens(JobCompleted)
    assert gate.ended == ["running"]
    assert gate.started == ["running"]
    assert rig.in_flight() == 0
    [waiting] = rig.sqs.messages("shop-jobs-low")
    assert waiting.state is MessageState.VISIBLE
    assert rig.report is not None
    assert rig.report.clean


async def test_only_a_job_that_has_run_for_a_while_may_outlast_draining() -> None:
    rig, gate = _held()
    work = rig.app.types["work"]
    async with rig.working() as worker:
        assert not worker.outlasts(0)
        await rig.submit(work, "running")
        await gate.reached(1)
        assert not worker.outlasts(10)
        await asyncio.sleep(11)
        assert worker.outlasts(10)
        gate.open("running")
        await rig.happens(JobCompleted)
        assert not worker.outlasts(0)


async def test_what_polls_in_flight_bring_after_a_stop_is_released_at_once() -> None:
    rig, gate = _held()
    async with rig.working() as worker:
        await asyncio.sleep(1)
        worker.stop()
        await asyncio.sleep(1)
        await rig.submit(rig.app.types["work"], *["late"] * 7)
        await asyncio.sleep(0.1)
        assert rig.in_flight() == 0
        states = [message.state for message in rig.sqs.messages("shop-jobs-normal")]
        assert states == [MessageState.VISIBLE] * 7
    assert gate.started == []


async def test_a_stop_of_an_idle_worker_leaves_no_message_to_a_cancelled_poll() -> None:
    rig, _ = _held()
    async with rig.working() as worker:
        await asyncio.sleep(1)
        worker.stop()
    assert rig.report == Report()


async def test_a_receive_that_outlasts_the_drain_has_the_time_of_the_clean_up() -> None:
    rig, _ = _held()
    async with rig.working(drain=timedelta(seconds=18)) as worker:
        await asyncio.sleep(1)  # its receive takes 19 more
        worker.stop()
        await asyncio.sleep(18.5)
        await rig.submit(rig.app.types["work"], "late")
    assert rig.report == Report()
    assert rig.in_flight() == 0


async def test_a_hurry_while_jobs_clean_up_ends_that_too() -> None:
    app, mail = one_lane()

    @mail.job("work")
    async def work(_note: Note) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(CLEAN_UP_S - 0.1)

    rig = Rig(app)
    await rig.submit(work)
    async with rig.working(drain=timedelta(0)) as worker:
        await rig.happens(JobStarted)
        stopped_at = rig.clock.monotonic()
        worker.stop()
        await asyncio.sleep(0.5)
        worker.hurry()
    assert rig.clock.monotonic() - stopped_at <= 1
    assert rig.in_flight() == 0


async def test_an_idle_worker_in_a_terminal_ends_within_two_seconds() -> None:
    rig, _ = _held()
    worker = rig.worker(receive_wait=short_wait({}, terminal=True))
    run = asyncio.create_task(worker.run())
    await asyncio.sleep(100.5)
    stopped_at = rig.clock.monotonic()
    worker.stop()
    assert (await run).clean
    assert rig.clock.monotonic() - stopped_at < 2


async def test_buffered_messages_go_back_at_once() -> None:
    rig, gate = _held()
    work = rig.app.types["work"]
    async with rig.working(concurrency=1, give_back_after=timedelta(hours=1)) as worker:
        await asyncio.sleep(1)
        await rig.submit(work, "running")
        await gate.reached(1)
        await rig.submit(work, "waiting", priority=Priority.LOW)
        await asyncio.sleep(1)
        assert rig.in_flight() == 2
        worker.stop()
        await asyncio.sleep(0.1)
        assert rig.in_flight() == 1
        gate.open("running")


async def test_async_jobs_beyond_the_drain_are_cancelled_and_visible_at_once() -> None:
    rig, _ = _held()
    async with rig.working(drain=timedelta(seconds=25)) as worker:
        await rig.submit(rig.app.types["work"], "a", "b", "c")
        await rig.happens(JobStarted, 3)
        stopped_at = rig.clock.monotonic()
        worker.stop()
    took_s = rig.clock.monotonic() - stopped_at
    assert 24.9 <= took_s <= 26
    assert rig.in_flight() == 0
    assert len(rig.sqs.messages("shop-jobs-normal")) == 3
    assert len(rig.heard(JobInterrupted)) == 3
    assert rig.report is not None
    assert sorted(rig.report.interrupted) == sorted(e.job_id for e in rig.heard(JobStarted))
    assert rig.report.abandoned == ()
    assert rig.report.unsettled == 0


async def test_a_hurry_ends_everything_at_once() -> None:
    rig, _ = _held()
    async with rig.working() as worker:
        await rig.submit(rig.app.types["work"], "a", "b")
        await rig.happens(JobStarted, 2)
        stopped_at = rig.clock.monotonic()
        worker.stop()
        await asyncio.sleep(3)
        worker.hurry()
    assert rig.clock.monotonic() - stopped_at <= 3.5
    assert rig.in_flight() == 0


async def test_a_hurry_leaves_no_receiver_behind_that_could_still_take_messages() -> None:
    app, mail = one_lane()

    @mail.job("work")
    async def work(_note: Note) -> None:
        return None

    rig = Rig(app)

    async def latency() -> None:
        await asyncio.sleep(0.05)

    rig.wire.requests["receive"] = latency
    await rig.submit(work, *[""] * 400)
    async with rig.working(concurrency=200) as worker:
        async with asyncio.timeout(60):
            while not any("extra" in task.get_name() for task in asyncio.all_tasks()):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        worker.hurry()
    # `working` has checked that no task is left.
    await asyncio.sleep(5)
    calls = len(rig.sqs.calls)
    await asyncio.sleep(60)
    assert len(rig.sqs.calls) == calls


async def test_a_stop_before_the_run_receives_nothing() -> None:
    rig, _ = _held()
    await rig.submit(rig.app.types["work"], "a")
    worker = rig.worker()
    worker.stop()
    assert await worker.run() == Report()
    assert rig.calls("receive") == 0
    assert rig.heard(JobStarted) == []


async def test_stopping_twice_is_stopping_once() -> None:
    rig, gate = _held()
    gate.open("a")
    async with rig.working() as worker:
        await rig.submit(rig.app.types["work"], "a")
        await rig.happens(JobCompleted)
        worker.stop()
        worker.stop()
    worker.stop()
    worker.hurry()
    assert rig.report is not None
    assert rig.report.clean


async def _whatever_cancels_it(release: asyncio.Event) -> None:
    """Wait for the event, and ignore every cancellation."""
    while not release.is_set():
        try:
            await release.wait()
        except asyncio.CancelledError:
            continue


async def test_a_handler_that_ignores_cancellation_is_named_and_left_behind() -> None:
    app, mail = one_lane()
    release = asyncio.Event()

    @mail.job("work")
    async def work(_note: Note) -> None:
        await _whatever_cancels_it(release)

    rig = Rig(app)
    [job_id] = await rig.submit(work)
    worker = rig.worker(drain=timedelta(seconds=5))
    run = asyncio.create_task(worker.run())
    await rig.happens(JobStarted)
    stopped_at = rig.clock.monotonic()
    worker.stop()
    report = await run
    assert rig.clock.monotonic() - stopped_at <= 20 + CLEAN_UP_S + FLUSH_S
    assert report.abandoned == (job_id,)
    assert report.interrupted == (job_id,)
    assert rig.in_flight() == 0, "it may run elsewhere at once"
    # Should it return after all, that counts.
    release.set()
    await rig.happens(JobCompleted)
    await asyncio.sleep(1)
    assert [
        task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()
    ] == []


async def test_a_job_whose_handler_was_left_behind_has_started_and_expires_no_more() -> None:
    app, mail = one_lane(records="outcomes")
    release, calls = asyncio.Event(), list[str]()

    @mail.job("work", expires=timedelta(seconds=60))
    async def work(_note: Note, ctx: JobContext) -> None:
        calls.append(ctx.id)
        if len(calls) == 1:
            await _whatever_cancels_it(release)

    rig = Rig(app)
    [job_id] = await rig.submit(work)
    first = rig.worker(drain=timedelta(seconds=5))
    run = asyncio.create_task(first.run())
    await rig.happens(JobStarted)
    first.stop()
    assert (await run).abandoned == (job_id,)
    await asyncio.sleep(120)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert calls == [job_id] * 2
    assert rig.heard(JobDropped) == []
    release.set()
    await asyncio.sleep(1)


async def test_a_handler_that_cleans_up_within_two_seconds_is_not_abandoned() -> None:
    app, mail = one_lane()

    @mail.job("work")
    async def work(_note: Note) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(1.5)

    rig = Rig(app)
    await rig.submit(work)
    async with rig.working(drain=timedelta(0)) as worker:
        await rig.happens(JobStarted)
        worker.stop()
    assert rig.report is not None
    assert rig.report.abandoned == ()
    assert len(rig.report.interrupted) == 1
    assert rig.in_flight() == 0


async def test_what_ends_last_is_settled_although_its_record_is_slow() -> None:
    app, mail = one_lane()

    @mail.job("work")
    async def work(_note: Note) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(CLEAN_UP_S - 0.1)

    rig = Rig(app)
    await rig.submit(work)
    async with rig.working(drain=timedelta(0)) as worker:
        await rig.happens(JobStarted)
        rig.table.faults.slow_down("put", 60, times=100)
        worker.stop()
    assert rig.report is not None
    assert rig.report.unsettled == 0
    assert rig.in_flight() == 0


async def test_a_job_that_swallows_the_cancellation_and_finishes_counts_as_done() -> None:
    app, mail = one_lane()

    @mail.job("work")
    async def work(_note: Note) -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            return

    rig = Rig(app)
    await rig.submit(work)
    async with rig.working(drain=timedelta(0)) as worker:
        await rig.happens(JobStarted)
        worker.stop()
    assert len(rig.heard(JobCompleted)) == 1
    assert rig.remaining() == 0


async def test_a_finished_job_with_a_slow_delete_is_not_interrupted() -> None:
    app, mail = one_lane()

    @mail.job("work")
    async def work(_note: Note) -> None:
        return None

    rig = Rig(app)

    async def slow() -> None:
        await asyncio.sleep(10)

    rig.wire.requests["delete"] = slow
    await rig.submit(work)
    worker = rig.worker(drain=timedelta(seconds=1))
    run = asyncio.create_task(worker.run())
    await rig.happens(JobCompleted)
    await asyncio.sleep(0.5)
    worker.stop()
    report = await run
    assert report.interrupted == ()
    assert report.abandoned == ()
    assert report.unsettled == 1
    await asyncio.sleep(120)  # the request under way reaches its end
    assert rig.remaining() == 0


async def test_a_worker_that_is_cancelled_gives_back_what_it_holds_first() -> None:
    rig, gate = _held()
    await rig.submit(rig.app.types["work"], "a", "b", "c")
    run = asyncio.create_task(rig.worker(concurrency=2).run())
    await gate.reached(2)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert rig.in_flight() == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_settlements_under_way_are_finished_within_the_bound() -> None:
    app, mail = one_lane(Retry(max_attempts=3, backoff=Backoff.fixed(900)))

    @mail.job("work")
    async def work(_note: Note) -> None:
        raise ConnectionError

    rig = Rig(app)

    async def latency() -> None:
        await asyncio.sleep(0.8)

    rig.wire.requests["change_visibility"] = latency
    await rig.submit(work, *[""] * 30)
    async with rig.working(drain=timedelta(0)) as worker:
        await rig.happens(JobStarted, 30)
        await asyncio.sleep(0.1)
        worker.stop()
    assert len(rig.heard(JobRetryScheduled)) == 30
    assert rig.report is not None
    assert rig.report.unsettled == 0
    lefts = [m.visible_at - rig.clock.now() for m in rig.sqs.messages(MAIL) if m.visible_at]
    assert len(lefts) == 30
    assert min(lefts) > timedelta(minutes=14)


async def test_a_stop_at_any_moment_leaves_nothing_hidden_and_no_job_lost() -> None:
    app, mail = one_lane()

    @mail.job("work")
    async def work(_note: Note) -> None:
        await asyncio.sleep(0.03)

    rig = Rig(app)

    async def latency() -> None:
        await asyncio.sleep(0.01)

    actions: tuple[Action, ...] = ("receive", "delete", "change_visibility")
    for action in actions:
        rig.wire.requests[action] = latency
        rig.wire.answers[action] = latency
    ids = await rig.submit(work, *[""] * 400)
    for step in range(30):
        async with rig.working(concurrency=7) as worker:
            await asyncio.sleep(0.0037 * step)
            worker.stop()
        assert rig.in_flight() == 0
        assert rig.report is not None
        assert rig.report.clean
    async with rig.working():
        async with asyncio.timeout(3600):
            while rig.remaining():  # noqa: ASYNC110 - virtual time; no event says "empty"
                await asyncio.sleep(1)
    completed = [event.job_id for event in rig.heard(JobCompleted)]
    assert sorted(completed) == sorted(ids), "each exactly once"


async def test_a_synchronous_handler_that_stops_on_request_is_given_back() -> None:
    app, mail = one_lane()
    asked = threading.Event()

    @mail.job("render")
    def render(_note: Note, ctx: JobContext) -> None:
        asked.set()
        while not ctx.cancelled:
            time.sleep(0.001)
        ctx.raise_if_cancelled()

    rig = Rig(app)
    [job_id] = await rig.submit(render)
    async with rig.working(drain=timedelta(seconds=1)):
        await rig.happens(JobStarted)
        await asyncio.to_thread(asked.wait, 30)
    assert not rig.heard(JobCompleted)
    assert rig.report is not None
    assert rig.report.interrupted == (job_id,)
    [message] = rig.sqs.messages(MAIL)
    assert message.state is MessageState.VISIBLE
