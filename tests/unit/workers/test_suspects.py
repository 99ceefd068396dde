"""The handlers that may have blocked the event loop."""

from __future__ import annotations

import asyncio

import pytest

from headgate import App, JobContext
from headgate.jobs.core.events import JobCompleted
from tests.unit.workers.rig import Gate, Note, Rig

pytestmark = pytest.mark.looptime


async def test_a_handler_is_suspect_while_it_runs_and_until_it_is_settled() -> None:
    app, gate = App("shop"), Gate()

    @app.job("work")
    async def work(note: Note, ctx: JobContext) -> None:
        await gate(note, ctx)

    @app.job("plain")
    def plain(note: Note) -> None: ...

    rig = Rig(app)
    async with rig.working() as worker:
        await rig.submit(app.types["plain"], "in a thread")
        await rig.happens(JobCompleted)
        assert worker.in_loop() == set()
        await rig.submit(app.types["work"], "blocks")
        await gate.reached(1)
        assert worker.in_loop() == {"work"}
        gate.open("blocks")
        await rig.happens(JobCompleted, times=2)
        assert worker.active() == []
        assert worker.in_loop() == {"work"}
        await asyncio.sleep(5)
        assert worker.in_loop() == set()
