"""Claims of jobs whose handlers run outside the event loop: in threads, and in child processes."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta
from typing import Any

import pytest

from headgate import JobContext
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import Event, Events, JobCompleted, JobDeferred, JobInterrupted
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.execution.calling.claims import Claims
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Interrupted
from headgate.jobs.execution.run import Run
from headgate.jobs.testing import LoopClock, MemoryTable
from tests.support.journal import GENEROUS_S
from tests.unit.workers.rig import Note, Rig, one_lane


class _Clock(SystemClock):
    """The system's clock, which can be set ahead."""

    def __init__(self) -> None:
        self._ahead = timedelta(0)

    def skip(self, time: timedelta) -> None:
        self._ahead += time

    def now(self) -> datetime:
        return super().now() + self._ahead

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead.total_seconds()


async def test_a_synchronous_handler_sees_its_lost_claim_and_its_result_is_ignored() -> None:
    app, mail = one_lane(visibility_s=2)  # so the lease is 1.3 s
    looked: list[bool] = []
    ends = threading.Event()

    @mail.job("charge", once=True)
    def charge(_note: Note, ctx: JobContext) -> str:
        if looked:
            return "second"
        rig.table.faults.raise_on("replace", ServiceUnavailable("away"), times=1000)
        while not ctx.cancelled and not ends.wait(0.01):
            pass
        looked.append(ctx.cancelled)
        ctx.raise_if_cancelled()
        return "first"

    clock = _Clock()
    rig = Rig(app, clock=clock)

    def skip(event: Event) -> None:
        if isinstance(event, JobDeferred):  # by the claim, which could not be given back
            clock.skip(timedelta(minutes=5))

    rig.subscribers.append(skip)
    await rig.submit(charge)
    try:
        async with asyncio.timeout(GENEROUS_S), rig.working(receive_wait=timedelta(seconds=1)):
            await rig.happens(JobInterrupted)
            rig.table.faults.clear()
            await rig.happens(JobCompleted)
    finally:
        ends.set()
    assert looked == [True]
    assert len(rig.heard(JobCompleted)) == 1


@pytest.mark.looptime
async def test_a_child_process_is_ended_when_its_claim_is_lost() -> None:
    app = App("shop", priorities="all")
    ended: list[float] = []

    @app.job("render", once=True, isolation="process", timeout=timedelta(hours=1))
    def render(_note: Note) -> None: ...

    async def isolated(*_arguments: Any) -> None:
        table.faults.raise_on("replace", ServiceUnavailable("away"), times=1000)
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(clock.monotonic())

    clock = LoopClock()
    table, events = MemoryTable(clock), list[Event]()
    rig = Rig(app, clock=clock)
    await rig.submit(render)
    queue = app.topology.queues[2]
    [message] = await rig.sqs.receive(queue.name, limit=1, wait_s=0)
    means = Means(
        app=app,
        clock=clock,
        events=Events(events.append),
        call_isolated=isolated,
        claims=Claims(table, owner="worker", clock=clock),
    )
    delivery = Delivery(message=message, queue=queue, received_at=clock.monotonic())
    began = clock.monotonic()
    verdict = await Run(Executor(means), delivery).verdict()
    assert isinstance(verdict.outcome, Interrupted)
    assert ended[0] - began == pytest.approx(queue.visibility_s * 2 / 3, abs=0.1)
