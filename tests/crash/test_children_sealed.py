"""Child processes of an app whose messages are signed and whose payloads are encrypted."""

from __future__ import annotations

import asyncio
import os

import pytest

from headgate import AsyncClient
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import Event, Events, JobCompleted, MessageUnrunnable
from headgate.testing import MemoryBackend
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker
from tests.support.journal import GENEROUS_S
from tests.support.sealed_app import Secret, app, isolated, neighbour
from tests.support.tape import recorded

CANARY = "canary-7d40"


async def test_what_a_child_reads_submits_and_returns_is_open_nowhere_but_in_the_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[Event] = []
    both_done = asyncio.Event()

    def hear(event: Event) -> None:
        events.append(event)
        if sum(isinstance(each, JobCompleted) for each in events) == 2:
            both_done.set()

    with recorded(monkeypatch) as tape:
        backend = MemoryBackend(app, clock=SystemClock())
        backend.secrets.put("sealed-signing", b"a key of thirty-two bytes or more")
        settings = WorkerSettings(children=1, concurrency=4)
        worker = Worker(app, backend, settings, events=Events(hear, tape))
        async with AsyncClient(app, backend=backend) as client:
            handle = await client.submit(isolated, Secret(text=CANARY))
            run = asyncio.create_task(worker.run())
            try:
                await asyncio.wait_for(both_done.wait(), GENEROUS_S)
                pid, text = await handle.result(timeout=GENEROUS_S)
                progress = await handle.progress()
            finally:
                worker.hurry()
                await asyncio.wait_for(run, GENEROUS_S)
    assert pid != os.getpid()
    assert text == CANARY
    assert progress is not None
    assert (progress.note, progress.data) == (CANARY, {"text": CANARY})
    assert {each.job_type for each in events if isinstance(each, JobCompleted)} == {
        isolated.name,
        neighbour.name,
    }
    assert not [each for each in events if isinstance(each, MessageUnrunnable)]
    assert {"OutgoingMessage", "Item"} <= tape.kinds()
    assert tape.where(CANARY) == []
