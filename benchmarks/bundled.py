"""``python -m benchmarks.bundled``: requests of jobs of 1 KB, alone in their messages and bundled.

A real worker in virtual time, on SQS in memory, which takes 5 ms each way for a request. Sends,
receives, deletes and heartbeats are counted, those of the worker's start and end included.
``python -m benchmarks.cpu`` has what they cost in CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import looptime

from headgate import App, AsyncClient, Priority
from headgate.jobs.core.events import JobCompleted
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.testing.memory.faults import Action
from tests.support.backends import async_over
from tests.unit.workers.rig import Note, Rig

_LATENCY_S = 0.005

_ACTIONS: tuple[Action, ...] = ("send", "receive", "delete", "change_visibility")

_BYTES = 1_024 - 190
"""The length of a payload's text beside which a job's envelope makes 1 KB."""

Submit = Callable[[AsyncClient, JobType[Note, None], list[Note]], Awaitable[object]]


async def together(client: AsyncClient, job: JobType[Note, None], notes: list[Note]) -> None:
    """Submit all in one call."""
    await client.submit_many(job, notes)


async def concurrently(client: AsyncClient, job: JobType[Note, None], notes: list[Note]) -> None:
    """Submit each from a task of its own."""
    await asyncio.gather(*(client.submit(job, note) for note in notes))


WAYS: dict[str, Submit] = {"submit_many": together, "concurrent submits": concurrently}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=6_000)
    jobs = parser.parse_args().jobs
    print("| submitted by | messages | requests a job |\n|---|---|---|")
    for name, submit in WAYS.items():
        for bundled in (False, True):
            kind = "bundles" if bundled else "one a job"
            each = measured(submit, jobs, bundled=bundled)
            print(f"| {name} | {kind} | {each:.3f} |", flush=True)


def measured(submit: Submit, jobs: int, *, bundled: bool) -> float:
    """Return the requests a job."""
    factory = partial(looptime.new_event_loop, start=0, noop_cycles=0)
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_requests(submit, jobs, bundled=bundled)) / jobs


async def _requests(submit: Submit, jobs: int, *, bundled: bool) -> int:
    app = App("shop", records="off")
    mail = app.queue("mail", priorities=[Priority.NORMAL])

    @mail.job("embed", bundle=bundled)
    async def embed(_note: Note) -> None: ...

    rig = Rig(app)
    rig.wire.requests = dict.fromkeys(_ACTIONS, _latency)
    rig.wire.answers = dict(rig.wire.requests)
    notes = [Note(text=f"{number:06}".ljust(_BYTES, "x")) for number in range(jobs)]
    async with AsyncClient(app, backend=async_over(rig.wire, clock=rig.clock)) as client:
        await submit(client, embed, notes)
    async with rig.working():
        await rig.happens(JobCompleted, jobs)
    return sum(rig.calls(action) for action in _ACTIONS)


async def _latency() -> None:
    await asyncio.sleep(_LATENCY_S)


if __name__ == "__main__":
    main()
