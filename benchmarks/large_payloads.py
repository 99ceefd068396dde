"""``python -m benchmarks.large_payloads``: the time for which large payloads block an event loop.

A job of each kind of payload makes the full round trip, in memory: an `AsyncClient` submits it, a
worker in the same loop reads it and stores its handler's result, which is the payload again, and
the handle reads that. A task that wakes each millisecond measures the longest gap in each of these
steps. Gaps are in CPU time of this process, since other processes may share its cores, and each
figure is the minimum of several rounds. A second table shows the gaps without CPython's garbage
collector, which blocks all other threads, too.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from headgate import App, AsyncClient
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import Event, Events, RecordsWritten
from headgate.jobs.testing import MemoryBackend
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker

MIB = 2**20
ITEM_BYTES = 105
"""Size of one of the small objects, as JSON."""


class Item(BaseModel):
    """A small object."""

    sku: str
    quantity: int
    price: float
    tags: list[str]


class Shelf(BaseModel):
    """A level between the payload and the small objects."""

    items: list[Item]


def _item(number: int) -> Item:
    return Item(sku=f"{number:040}", quantity=number, price=1.5, tags=["a", "bb"])


def _items(size: int) -> list[Item]:
    return [_item(number) for number in range(size // ITEM_BYTES)]


def _plain(size: int) -> Any:
    return [item.model_dump() for item in _items(size)]


def _shelves(size: int) -> list[Shelf]:
    return [Shelf(items=_items(100 * ITEM_BYTES)) for _ in range(size // ITEM_BYTES // 100)]


KINDS: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "one text": (str, lambda size: "y" * size),
    "list of texts": (list[str], lambda size: ["y" * 100] * (size // 103)),
    "list of integers": (list[int], lambda size: [*range(1_000_000, 1_000_000 + size // 8)]),
    "list of models": (list[Item], _items),
    "dict of models": (
        dict[str, Item],
        lambda size: {f"{number}": each for number, each in enumerate(_items(size))},
    ),
    "models in models": (list[Shelf], _shelves),
    "Any": (Any, _plain),
}


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=float, nargs="+", default=[1, 10])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for switch in (gc.enable, gc.disable):
        switch()
        print(f"\nGarbage collector {'on' if gc.isenabled() else 'off'}; longest gaps in ms:\n")
        print("| payload | MiB | submitted | run | result read |\n|---|---|---|---|---|")
        for kind in options.kinds:
            for mib in options.mib:
                rounds = [asyncio.run(measure(kind, int(mib * MIB))) for _ in range(options.rounds)]
                least = " | ".join(f"{1000 * min(gaps):.0f}" for gaps in zip(*rounds, strict=True))
                print(f"| {kind} | {mib:g} | {least} |", flush=True)
                gc.collect()


class Gaps:
    """The longest gaps between two iterations of the event loop, in seconds, one for each step."""

    def __init__(self) -> None:
        self.longest: list[float] = []

    @asynccontextmanager
    async def step(self) -> AsyncIterator[None]:
        """Measure while the block runs."""
        self.longest.append(0.0)
        ticking = asyncio.create_task(self._tick())
        await asyncio.sleep(0.01)
        yield
        await asyncio.sleep(0.01)
        ticking.cancel()

    async def _tick(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.process_time()
            self.longest[-1] = max(self.longest[-1], now - last)
            last = now


class _Completed:
    """A subscriber that waits until the job's end is recorded."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def __call__(self, event: Event) -> None:
        if isinstance(event, RecordsWritten):
            self.event.set()


async def measure(kind: str, size: int) -> list[float]:
    """Return the longest gaps while one job is submitted, run, and its result read."""
    type_, make = KINDS[kind]
    app, clock, gaps, completed = (
        App("large", priorities="all"),
        SystemClock(),
        Gaps(),
        _Completed(),
    )
    job = app.define("echo", type_, returns=type_)

    @job.handler
    async def echo(payload: Any) -> Any:
        return payload

    backend = MemoryBackend(app, clock=clock)
    settings = WorkerSettings(receive_wait=timedelta(seconds=1))
    worker = Worker(app, backend, settings, events=Events(completed))
    async with AsyncClient(app, backend=backend) as client:
        payload = make(size)
        async with gaps.step():
            handle = await client.submit(job, payload)
        del payload
        async with gaps.step():
            running = asyncio.create_task(worker.run())
            await completed.event.wait()
            worker.stop()
            await running
        async with gaps.step():
            await handle.result(timeout=10)
    return gaps.longest


if __name__ == "__main__":
    main()
