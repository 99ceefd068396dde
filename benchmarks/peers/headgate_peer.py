"""Headgate itself, from its own virtual environment, without records."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from common import CONCURRENCY, begin, done, submissions
from pydantic import BaseModel

from headgate import App, AsyncClient, Client, JobType, Priority
from headgate.jobs.core.retention import check_level
from headgate.jobs.core.topology import DEFAULT_LANES
from headgate.workers.configuration import WorkerSettings
from headgate.workers.process.entry import run, work

_TICK_S = 0.05
_SUBMITTERS = 100  # coroutines that submit concurrently, one job at a time each


_PADDING = "x" * int(os.environ.get("BENCH_PADDING", "0"))
_ALONE = 20_000  # from this padding on jobs are submitted singly: ElasticMQ takes 256 KB a request


class Number(BaseModel):
    number: int
    padding: str = ""


async def _bench(payload: Number) -> None:
    if seconds := begin(payload.number):
        await asyncio.sleep(seconds)
    done(payload.number)


app = App(os.environ["BENCH_APP"], records=check_level(os.environ.get("BENCH_RECORDS", "off")))
visibility = timedelta(seconds=float(os.environ["BENCH_VISIBILITY_S"]))
lane = replace(DEFAULT_LANES[Priority.NORMAL], visibility=visibility)
drain = app.queue("drain", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lane})

on_drain = drain.job("bench")(_bench)
by_priority = {
    priority: app.job(f"bench-{priority}", priority=priority)(_bench) for priority in Priority
}


async def _work_and_see_what_is_left(settings: WorkerSettings) -> dict[str, object]:
    """Work until SIGTERM; return the tasks and the number of sockets that are then still open."""
    sockets = _sockets()  # the event loop's own
    await work(app, settings)
    await asyncio.sleep(0)  # a socket closes one iteration after it was told to
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    return {"tasks": [task.get_name() for task in tasks], "sockets": _sockets() - sockets}


def _sockets() -> int:
    """Return the number of sockets that this process has open."""
    opened = Path("/proc/self/fd").iterdir()
    return sum(each.is_symlink() and "socket:" in str(each.readlink()) for each in opened)


def _type_of(queue: str) -> JobType[Number, None]:
    for declared in (on_drain, *by_priority.values()):
        if app.topology.queue(declared.queue, declared.priority).name == queue:
            return declared
    raise SystemExit(f"no type is on {queue}")


def _submit() -> None:
    with Client(app) as client:
        for queue, numbers in submissions():
            notes = [Number(number=each, padding=_PADDING) for each in numbers]
            if len(_PADDING) <= _ALONE:
                client.submit_many(_type_of(queue), notes)
                continue
            for note in notes:
                client.submit(_type_of(queue), note)


async def _submit_singly() -> None:
    async with AsyncClient(app) as client:
        for queue, numbers in submissions():
            declared, left = _type_of(queue), iter(numbers)

            async def submit_in_turn(
                declared: JobType[Number, None] = declared, left: Iterator[int] = left
            ) -> None:
                for number in left:
                    await client.submit(declared, Number(number=number))

            await asyncio.gather(*(submit_in_turn() for _ in range(_SUBMITTERS)))


async def _submit_steadily() -> None:
    """Submit at a steady rate, recording each job just before it is submitted."""
    ticks = int(float(os.environ["BENCH_SECONDS"]) / _TICK_S)
    plan = [(_type_of(queue), numbers) for queue, numbers in submissions()]
    loop = asyncio.get_running_loop()

    async with AsyncClient(app) as client:

        async def submit(declared: JobType[Number, None], numbers: range) -> None:
            for number in numbers:
                done(number)
            await client.submit_many(declared, [Number(number=number) for number in numbers])

        started = loop.time()
        async with asyncio.TaskGroup() as group:
            for tick in range(ticks):
                await asyncio.sleep(started + tick * _TICK_S - loop.time())
                for declared, numbers in plan:
                    share = numbers[
                        len(numbers) * tick // ticks : len(numbers) * (tick + 1) // ticks
                    ]
                    group.create_task(submit(declared, share))


if __name__ == "__main__":
    match sys.argv[1]:
        case "work":
            group = sys.argv[2]
            settings = WorkerSettings(concurrency=CONCURRENCY, queues=(group,))
            if told := os.environ.get("BENCH_LEFT"):
                left = asyncio.run(_work_and_see_what_is_left(settings))
                Path(told).write_text(json.dumps(left))
            else:
                sys.exit(run(app, settings))
        case "submit":
            _submit()
        case "submit-singly":
            asyncio.run(_submit_singly())
        case "submit-steadily":
            asyncio.run(_submit_steadily())
        case other:
            sys.exit(f"unknown: {other}")
