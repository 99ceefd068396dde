"""Headgate itself, from its own virtual environment; records don't exist yet, so they are off."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator

from common import CONCURRENCY, done, job_s, submissions
from pydantic import BaseModel

from jobs import App, AsyncClient, Client, JobType, Priority
from workers.process import run
from workers.worker import WorkerSettings

_SUBMITTERS = 100  # coroutines that submit at once, one job at a time each


class Number(BaseModel):
    number: int


async def _bench(payload: Number) -> None:
    if seconds := job_s(payload.number):
        await asyncio.sleep(seconds)
    done(payload.number)


app = App(os.environ["BENCH_APP"])
drain = app.queue("drain", priorities=[Priority.NORMAL])

on_drain = drain.job("bench")(_bench)
by_priority = {
    priority: app.job(f"bench-{priority}", priority=priority)(_bench) for priority in Priority
}


def _type_of(queue: str) -> JobType[Number, None]:
    for declared in (on_drain, *by_priority.values()):
        if app.topology.queue(declared.queue, declared.priority).name == queue:
            return declared
    raise SystemExit(f"no type is on {queue}")


def _submit() -> None:
    with Client(app) as client:
        for queue, numbers in submissions():
            client.submit_many(_type_of(queue), [Number(number=each) for each in numbers])


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


if __name__ == "__main__":
    match sys.argv[1]:
        case "work":
            group = sys.argv[2]
            settings = WorkerSettings(concurrency=CONCURRENCY, queues=(group,))
            sys.exit(run(app, settings))
        case "submit":
            _submit()
        case "submit-singly":
            asyncio.run(_submit_singly())
        case other:
            sys.exit(f"unknown: {other}")
