"""Freshness: what has been held for long starts with a receipt that lasts for its run."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headgate import App, Priority, Retry
from headgate.jobs.core.events import Events, JobCompleted, JobStarted, ReceiptLost
from headgate.jobs.core.existing.resources import MAX_RECEIVE_COUNT
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.actions import Release, Way
from headgate.jobs.testing import Harness
from headgate.workers.dispatch.freshness import is_stale
from headgate.workers.held import Hold
from tests.unit.workers.rig import Note, Rig, one_lane, without_threads

HOUR_S = 3_600.0
DAY_H = 24.0
RETENTION_H = 4 * DAY_H


def _ledger(timeout: timedelta | None, *, takes_s: float) -> tuple[Rig, App, list[str]]:
    """Return a rig and an app whose FIFO jobs are of one group, and the jobs as they start."""
    app = App("shop")
    ledger = app.queue(
        "ledger", fifo=True, priorities=[Priority.NORMAL], retry=Retry(max_attempts=1)
    )
    started: list[str] = []
    running: set[str] = set()

    @ledger.job("book", group_by=lambda _note: "a", timeout=timeout)
    async def book(note: Note) -> None:
        assert not running, "jobs of one group run one at a time"
        started.append(note.text)
        running.add(note.text)
        await asyncio.sleep(takes_s)
        running.discard(note.text)

    return Rig(app), app, started


@without_threads
async def test_what_waited_behind_a_long_fifo_job_runs_once_and_in_order() -> None:
    rig, app, started = _ledger(None, takes_s=7 * HOUR_S)

    @app.job("fill", timeout=None)
    async def fill(_note: Note) -> None:
        await asyncio.sleep(11.5 * HOUR_S)

    await rig.submit(app.types["book"], "a", "b")
    async with rig.working(concurrency=2):
        await rig.happens(JobStarted)
        await rig.submit(fill)  # in the other slot, so that nothing is polled for meanwhile
        await rig.happens(JobCompleted, 2)
        await rig.happens(JobCompleted, 3)
    assert started == ["a", "b"]
    assert all(event.attempt == 1 for event in rig.heard(JobStarted))
    assert not rig.heard(ReceiptLost)
    assert rig.remaining() == 0


@without_threads
@pytest.mark.parametrize(("takes_s", "goes_back"), [(50.0, False), (700.0, True)])
async def test_a_group_of_unlimited_jobs_goes_back_only_after_long_ones(
    takes_s: float, goes_back: bool
) -> None:
    rig, app, started = _ledger(None, takes_s=takes_s)
    texts = [str(number) for number in range(10)]
    await rig.submit(app.types["book"], *texts)
    async with rig.working(concurrency=10):
        await rig.happens(JobCompleted, 10)
    assert started == texts
    released = [
        call
        for call in rig.sqs.calls
        if call.action == "change_visibility" and set(call.timeouts_s) == {0}
    ]
    assert bool(released) is goes_back
    assert all(event.attempt == 1 for event in rig.heard(JobStarted))


def _hold(
    held_h: float,
    *,
    timeout: timedelta | None,
    fifo: bool = False,
    receives: int = 1,
    age_h: float = 0.0,
) -> tuple[Hold, Harness]:
    """Return a message that has been held for that long, and the surroundings with its clock."""
    app, queue = one_lane()
    if fifo:
        queue = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])

    @queue.job("work", timeout=timeout, group_by=(lambda _note: "a") if fifo else None)
    async def work(_note: Note) -> None: ...

    jobs = Harness(app)
    jobs.client.submit(work, Note())
    [spec] = [each for each in app.topology.queues if jobs.sqs.messages(each.name)]
    [stored] = jobs.sqs.messages(spec.name)
    message = ReceivedMessage(
        message_id="m-1",
        receipt="r-1",
        body=stored.body,
        receive_count=receives,
        sent_at=jobs.clock.now() - timedelta(hours=age_h),
        group="a" if fifo else None,
    )
    received_at = jobs.clock.monotonic() - held_h * HOUR_S
    delivery = Delivery(message=message, queue=spec, received_at=received_at)
    run = Run(Executor(Means(app=app, clock=jobs.clock, events=Events())), delivery)
    return Hold(run, received_at), jobs


HOUR, TEN_HOURS = timedelta(hours=1), timedelta(hours=10)


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize(
    ("held_h", "timeout", "goes_back"),
    [
        (0.0, None, False),
        (0.1, None, False),
        (0.2, None, True),
        (1.8, TEN_HOURS, False),
        (2.0, TEN_HOURS, True),
        (10.8, HOUR, False),
        (11.0, HOUR, True),
    ],
)
def test_a_message_goes_back_if_its_receipt_would_not_last_for_its_run(
    held_h: float, timeout: timedelta | None, goes_back: bool, fifo: bool
) -> None:
    hold, jobs = _hold(held_h, timeout=timeout, fifo=fifo)
    assert is_stale(hold, jobs.clock) is goes_back


@pytest.mark.parametrize(
    ("receives", "age_h"), [(MAX_RECEIVE_COUNT - MAX_RECEIVE_COUNT // 10, 0.0), (1, RETENTION_H)]
)
def test_a_fifo_message_that_can_not_go_back_starts_with_what_is_left(
    receives: int, age_h: float
) -> None:
    hold, jobs = _hold(11.0, timeout=HOUR, fifo=True, receives=receives, age_h=age_h)
    assert not is_stale(hold, jobs.clock)


@pytest.mark.parametrize(
    ("receives", "left_h", "timeout", "goes_back"),
    [
        (2, 5.1, timedelta(hours=5), False),
        (2, 4.9, timedelta(hours=5), True),
        (2, 4.9, HOUR, False),
        (1, 4.9, timedelta(hours=5), False),
    ],
)
def test_what_is_delivered_again_near_the_end_of_its_retention_goes_on_in_a_new_message(
    receives: int, left_h: float, timeout: timedelta, goes_back: bool
) -> None:
    hold, jobs = _hold(0.0, timeout=timeout, receives=receives, age_h=RETENTION_H - left_h)
    assert is_stale(hold, jobs.clock) is goes_back
    if goes_back:
        action = hold.run.unstarted().action
        assert isinstance(action, Release)
        assert action.way is Way.ANEW


def test_what_sqs_has_deleted_meanwhile_starts_here() -> None:
    hold, jobs = _hold(11.5, timeout=HOUR, receives=2, age_h=RETENTION_H)
    hold.outlived = True
    assert not is_stale(hold, jobs.clock)
