"""Synchronous handlers: they run in threads, in real time, and never block the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from headgate import JobContext, Retry
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import (
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobInterrupted,
    JobStalled,
    JobStarted,
)
from tests.unit.workers.rig import Note, Rig, one_lane

_LIMIT_S = 30.0


@contextmanager
def _opened(event: threading.Event) -> Iterator[None]:
    """Release waiting threads, whether or not the test passes."""
    try:
        yield
    finally:
        event.set()


def _rig(app: object) -> Rig:
    return Rig(app, clock=SystemClock())  # type: ignore[arg-type]  # any app of these tests


_POLLS = {"receive_wait": timedelta(seconds=1)}


async def test_a_plain_function_runs_off_the_loop_and_others_run_meanwhile() -> None:
    app, mail = one_lane()
    go = threading.Event()
    threads: list[threading.Thread] = []

    @mail.job("blocking")
    def blocking(_note: Note) -> None:
        threads.append(threading.current_thread())
        assert go.wait(_LIMIT_S)

    @mail.job("quick")
    async def quick(_note: Note) -> None:
        go.set()

    rig = _rig(app)
    with _opened(go):
        async with rig.working(**_POLLS):
            await rig.submit(blocking)
            await rig.happens(JobStarted)
            await rig.submit(quick)
            await rig.happens(JobCompleted, 2)
    assert threads != [threading.main_thread()]
    assert rig.remaining() == 0


@pytest.mark.parametrize("error", [StopIteration("none left"), SystemExit(3), ValueError("no")])
async def test_whatever_a_plain_function_raises_is_a_failure(error: BaseException) -> None:
    app, mail = one_lane(Retry(max_attempts=1))

    @mail.job("raises")
    def raises(_note: Note) -> None:
        raise error

    rig = _rig(app)
    await rig.submit(raises)
    async with rig.working(**_POLLS):
        async with asyncio.timeout(_LIMIT_S):
            await rig.happens(JobDeadLettered)
    assert len(rig.heard(JobFailed)) == 1
    assert rig.remaining() == 0


async def test_a_thread_that_overruns_is_reported_and_its_late_result_counts() -> None:
    app, mail = one_lane()
    go = threading.Event()
    asked_to_stop: list[bool] = []

    @mail.job("slow", timeout=timedelta(milliseconds=50))
    def slow(_note: Note, ctx: JobContext) -> None:
        assert go.wait(_LIMIT_S)
        asked_to_stop.append(ctx.cancelled)

    rig = _rig(app)
    await rig.submit(slow)
    with _opened(go):
        async with rig.working(**_POLLS):
            [stalled] = await rig.happens(JobStalled)
            go.set()
            await rig.happens(JobCompleted)
    assert stalled.timeout_s == 0.05
    assert asked_to_stop == [True]
    assert rig.remaining() == 0


async def test_a_thread_that_never_ends_is_abandoned_and_its_message_is_visible() -> None:
    app, mail = one_lane()
    go = threading.Event()

    @mail.job("stuck")
    def stuck(_note: Note) -> None:
        assert go.wait(_LIMIT_S)

    rig = _rig(app)
    [job_id] = await rig.submit(stuck)
    with _opened(go):
        async with rig.working(drain=timedelta(0), **_POLLS) as worker:
            await rig.happens(JobStarted)
            worker.hurry()
        assert rig.report is not None
        assert rig.report.abandoned == (job_id,)
        assert rig.in_flight() == 0
        assert len(rig.heard(JobInterrupted)) == 1


async def test_a_thread_that_looks_at_its_context_ends_in_time() -> None:
    app, mail = one_lane()
    looks = threading.Event()

    @mail.job("polite")
    def polite(_note: Note, ctx: JobContext) -> None:
        while not ctx.cancelled:
            looks.wait(0.005)

    rig = _rig(app)
    await rig.submit(polite)
    async with rig.working(drain=timedelta(0), **_POLLS) as worker:
        await rig.happens(JobStarted)
        worker.stop()
    assert rig.report is not None
    assert rig.report.abandoned == ()
    assert len(rig.heard(JobCompleted)) == 1
