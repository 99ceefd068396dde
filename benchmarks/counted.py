"""``python -m benchmarks.counted PIECE COUNTER``: one piece of work, under a counter.

`benchmarks.instructions` runs it. Nothing of Headgate, nor much else, is imported at the top, since
an import of Headgate is one of the pieces.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.counting import COUNTERS, Counter

if TYPE_CHECKING:
    import asyncio

    from headgate import App
    from headgate.jobs.core.events import Event
    from headgate.jobs.core.retention import RecordsLevel

YARDSTICK = "yardstick"
BARE_LOOP = "a bare loop of aiobotocore's"

JOBS = 480
_WARM_UP = 240
"""Number of jobs before those that count, in which connections are made and lanes grow."""

_BUNDLE_BYTES = 20_000
"""Some sixty of these jobs, as of jobs of 1 KB with a `Bundle` as it is by default."""

SUBMISSIONS = 150
YARDS = 2_000


def _measure_yardstick(counter: Counter) -> None:
    """Do what a job is made of, with nothing of Headgate."""
    import hashlib
    import json
    import re

    text = json.dumps({"id": f"{1:036}", "note": "x" * 100})
    name = re.compile(r'"id": "(\d+)"')
    counter.start()
    for number in range(YARDS):
        found = name.search(text)
        told = {**json.loads(text), "found": found and found[1], "number": number}
        hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    counter.stop()


def _import(counter: Counter) -> None:
    counter.start()
    from headgate import App

    counter.stop()
    del App


def _submit(counter: Counter) -> None:
    from headgate import Client

    app = _app()
    [job] = app.types.values()
    with Client(app) as client:
        for number in range(SUBMISSIONS // 5):
            client.submit(job, _note(number))
        counter.start()
        for number in range(SUBMISSIONS):
            client.submit(job, _note(number))
        counter.stop()


def _drain(
    counter: Counter, records: RecordsLevel = "off", *, once: bool = False, bundle: bool = False
) -> None:
    """Have a worker run a backlog; count from the end of one job to the end of another."""
    import asyncio

    from headgate.workers.process.event_loop import loop_factory

    app = _app(records, once=once, bundle=bundle)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_drained(app, _Ends(counter, asyncio.Event())))


async def _drained(app: App, ends: _Ends) -> None:
    import asyncio
    from datetime import timedelta

    from headgate import AsyncClient
    from headgate.jobs.aws.backend import AsyncAwsBackend
    from headgate.jobs.core.events import Events
    from headgate.workers.configuration import WorkerSettings
    from headgate.workers.process.garbage import collected_seldom
    from headgate.workers.worker import Worker

    [job] = app.types.values()
    async with AsyncAwsBackend(app.topology) as backend:
        async with AsyncClient(app, backend=backend) as client:
            await client.submit_many(job, [_note(number) for number in range(_WARM_UP + 2 * JOBS)])
        # A counter slows the worker down, and what waits for a slot must not go back for that.
        patient = WorkerSettings(give_back_after=timedelta(hours=1))
        worker = Worker(app, backend, patient, events=Events(ends))
        with collected_seldom():
            running = asyncio.create_task(worker.run())
            await ends.enough.wait()
        worker.hurry()
        await running


class _Ends:
    """Has the count begin with the end of the last job of the warm-up."""

    def __init__(self, counter: Counter, enough: asyncio.Event) -> None:
        self.enough = enough
        self._counter = counter
        self._jobs = 0

    def __call__(self, event: Event) -> None:
        if type(event).__name__ != "JobCompleted":  # the type itself is not imported yet
            return
        self._jobs += 1
        if self._jobs == _WARM_UP:
            self._counter.start()
        elif self._jobs == _WARM_UP + JOBS:
            self._counter.stop()
            self.enough.set()


def _bare_loop(counter: Counter) -> None:
    """Do with aiobotocore's calls alone what a worker's drain does."""
    import asyncio

    from benchmarks.cpu import bare_loop
    from headgate.workers.process.event_loop import loop_factory

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(bare_loop(_WARM_UP, nullcontext()))
        runner.run(bare_loop(JOBS, _block(counter)))


@contextmanager
def _block(counter: Counter) -> Iterator[None]:
    """Count within a block."""
    counter.start()
    yield
    counter.stop()


def _app(records: RecordsLevel = "off", *, once: bool = False, bundle: bool = False) -> App:
    from headgate import App, Bundle, Priority

    app = App("bench", records=records)
    queue = app.queue("orders", priorities=[Priority.NORMAL])

    @queue.job("place", once=once, bundle=Bundle(bytes=_BUNDLE_BYTES) if bundle else False)
    async def place(_order: dict[str, Any]) -> None:
        return None

    return app


def _note(number: int) -> dict[str, Any]:
    return {"number": number, "note": "x" * 100}


PIECES: dict[str, tuple[Callable[[Counter], None], int]] = {
    YARDSTICK: (_measure_yardstick, YARDS),
    "import": (_import, 1),
    "submit": (_submit, SUBMISSIONS),
    "drain": (_drain, JOBS),
    "drain, full records": (partial(_drain, records="full"), JOBS),
    "drain, once": (partial(_drain, once=True), JOBS),
    "drain, bundles": (partial(_drain, bundle=True), JOBS),
    BARE_LOOP: (_bare_loop, JOBS),
}
"""The pieces of work that can be counted, and how often each is done within the count."""


if __name__ == "__main__":
    _, named, kind = sys.argv
    work = PIECES[named][0]
    work(COUNTERS[kind]())
