"""``python -m benchmarks.cpu``: what jobs cost this process, over real sockets, in CPU time.

The server is `tests.support.prompt_aws`, in another process, which answers at once and whose time
is not counted. Rounds take turns, and the least of each is given, since other processes slow a CPU
down but never speed it up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Self

from pydantic import BaseModel

from benchmarks.stage import use_test_account
from headgate import App, AsyncClient, Client, Priority
from headgate.jobs.aws.backend import AsyncAwsBackend
from headgate.jobs.core.events import Event, Events, JobCompleted
from headgate.jobs.core.retention import RecordsLevel
from headgate.workers.process.event_loop import loop_factory
from headgate.workers.process.garbage import collected_seldom
from headgate.workers.worker import Worker
from tests.support.prompt_aws import PromptAws

_AT_ONCE = 50
"""Number of concurrent submissions."""

_NUMBERS = count()

_NOTE, _LONG_NOTE = "x" * 100, "x" * 820
"""The second makes a job's message about 1 KB long."""


class Order(BaseModel):
    """The payload."""

    number: int
    note: str = _NOTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Milliseconds a job."""

    cpu_ms: float
    wall_ms: float


class _Meter:
    """Measures from the start of its block to the end."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def __enter__(self) -> Self:
        self._began = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_error: object) -> None:
        cpu_s, wall_s = self._began
        self.cost = Cost(
            cpu_ms=(time.process_time() - cpu_s) * 1000 / self._jobs,
            wall_ms=(time.perf_counter() - wall_s) * 1000 / self._jobs,
        )


def _app(records: RecordsLevel = "off", *, once: bool = False, bundle: bool = False) -> App:
    # A name of its own, so that no drain begins with what submissions before it left behind.
    app = App(f"bench-{next(_NUMBERS)}", records=records)
    queue = app.queue("orders", priorities=[Priority.NORMAL])

    @queue.job("place", once=once, bundle=bundle)
    async def place(_order: Order) -> None:
        return None

    return app


def boto3_sends(jobs: int) -> Cost:
    """A bare loop of boto3's ``send_message``."""
    import boto3

    sqs: Any = boto3.client("sqs")
    url, body = "http://sqs/orders", Order(number=1).model_dump_json()
    sqs.send_message(QueueUrl=url, MessageBody=body)
    with _Meter(jobs) as meter:
        for _ in range(jobs):
            sqs.send_message(QueueUrl=url, MessageBody=body)
    return meter.cost


def boto3_sends_batches(jobs: int) -> Cost:
    """A bare loop of boto3's ``send_message_batch``, of ten."""
    import boto3

    sqs: Any = boto3.client("sqs")
    body = Order(number=1).model_dump_json()
    entries = [{"Id": str(number), "MessageBody": body} for number in range(10)]
    sqs.send_message_batch(QueueUrl="http://sqs/orders", Entries=entries)
    with _Meter(jobs) as meter:
        for _ in range(jobs // 10):
            sqs.send_message_batch(QueueUrl="http://sqs/orders", Entries=entries)
    return meter.cost


async def bare_drains(jobs: int) -> Cost:
    """A bare loop of aiobotocore's calls."""
    meter = _Meter(jobs)
    await bare_loop(jobs, meter)
    return meter.cost


async def bare_loop(jobs: int, measured: AbstractContextManager[object]) -> None:
    """Send a backlog, then receive ten, read them and delete ten, until nothing is left.

    Args:
        jobs: the number of messages, a multiple of ten.
        measured: entered when the backlog is there, and left at its end.
    """
    from aiobotocore.config import AioConfig
    from aiobotocore.session import get_session

    config = AioConfig(parameter_validation=False)
    url, body, left = "http://sqs/bare", Order(number=1).model_dump_json(), jobs
    async with get_session().create_client("sqs", config=config) as client:
        sqs: Any = client
        entries = [{"Id": str(number), "MessageBody": body} for number in range(10)]
        for _ in range(jobs // 10):
            await sqs.send_message_batch(QueueUrl=url, Entries=entries)
        with measured:
            while left:
                got = await sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
                for message in got["Messages"]:
                    json.loads(message["Body"])
                deleted = [
                    {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
                    for index, message in enumerate(got["Messages"])
                ]
                await sqs.delete_message_batch(QueueUrl=url, Entries=deleted)
                left -= len(deleted)


def submits(jobs: int) -> Cost:
    """`Client.submit`, one by one."""
    app = _app()
    [job] = app.types.values()
    with Client(app) as client:
        client.submit(job, Order(number=0))
        with _Meter(jobs) as meter:
            for number in range(jobs):
                client.submit(job, Order(number=number))
    return meter.cost


def submits_many(jobs: int) -> Cost:
    """`Client.submit_many`, a hundred at a time."""
    app = _app()
    [job] = app.types.values()
    with Client(app) as client:
        client.submit(job, Order(number=0))
        with _Meter(jobs) as meter:
            for _ in range(jobs // 100):
                client.submit_many(job, [Order(number=number) for number in range(100)])
    return meter.cost


async def submits_from_a_loop(jobs: int) -> Cost:
    """`AsyncClient.submit`, from fifty tasks."""
    app = _app()
    [job] = app.types.values()
    async with AsyncClient(app) as client:
        await client.submit(job, Order(number=0))

        async def submit() -> None:
            for number in range(jobs // _AT_ONCE):
                await client.submit(job, Order(number=number))

        with _Meter(jobs) as meter:
            await asyncio.gather(*(submit() for _ in range(_AT_ONCE)))
    return meter.cost


async def drains(
    jobs: int,
    records: RecordsLevel = "off",
    *,
    once: bool = False,
    bundle: bool = False,
    note: str = _NOTE,
) -> Cost:
    """A worker with a backlog of no-op jobs."""
    app = _app(records, once=once, bundle=bundle)
    [job] = app.types.values()
    async with AsyncAwsBackend(app.topology) as backend:
        async with AsyncClient(app, backend=backend) as client:
            orders = [Order(number=number, note=note) for number in range(jobs)]
            await client.submit_many(job, orders)
        await backend.async_ports.table.get("nothing", "nothing")  # opens it, which takes a while
        ended = _Ended(jobs)
        worker = Worker(app, backend, events=Events(ended))
        with collected_seldom(), _Meter(jobs) as meter:  # as in a worker's process
            running = asyncio.create_task(worker.run())
            await ended.all.wait()
        worker.hurry()
        await running
    return meter.cost


class _Ended:
    """Waits until all jobs have completed."""

    def __init__(self, jobs: int) -> None:
        self.all = asyncio.Event()
        self._left = jobs

    def __call__(self, event: Event) -> None:
        self._left -= isinstance(event, JobCompleted)
        if not self._left:
            self.all.set()


SYNCHRONOUS: dict[str, Callable[[int], Cost]] = {
    "boto3: send_message": boto3_sends,
    "boto3: send_message_batch of ten": boto3_sends_batches,
    "Client.submit": submits,
    "Client.submit_many": submits_many,
}
IN_LOOP: dict[str, Callable[[int], Awaitable[Cost]]] = {
    "AsyncClient.submit, 50 tasks": submits_from_a_loop,
    "a bare loop of aiobotocore's": bare_drains,
    "a worker's drain": drains,
    "the same, once=True": partial(drains, once=True),
    "the same, full records": partial(drains, records="full"),
    "a worker's drain, jobs of 1 KB": partial(drains, note=_LONG_NOTE),
    "the same, in bundles": partial(drains, note=_LONG_NOTE, bundle=True),
}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[*SYNCHRONOUS, *IN_LOOP])
    options = parser.parse_args()
    use_test_account()
    print("| | CPU ms a job | wall ms a job |\n|---|---|---|")
    with PromptAws() as server:
        os.environ["AWS_ENDPOINT_URL"] = server.endpoint_url
        for name in options.only or [*SYNCHRONOUS, *IN_LOOP]:
            costs = [measured(name, options.jobs) for _ in range(options.rounds)]
            cpu_ms = min(cost.cpu_ms for cost in costs)
            wall_ms = min(cost.wall_ms for cost in costs)
            print(f"| {name} | {cpu_ms:.3f} | {wall_ms:.3f} |", flush=True)


def measured(name: str, jobs: int) -> Cost:
    """Return the cost of such work, with the server that ``AWS_ENDPOINT_URL`` names."""
    if name in SYNCHRONOUS:
        return SYNCHRONOUS[name](jobs)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_awaited(IN_LOOP[name](jobs)))


async def _awaited(cost: Awaitable[Cost]) -> Cost:
    return await cost


if __name__ == "__main__":
    main()
