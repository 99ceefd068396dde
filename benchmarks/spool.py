"""``python -m benchmarks.spool``: the speed at which a spool drains while jobs keep coming in.

An outage has left a backlog in the file. SQS is back, and answers each request after 8 ms; a
process keeps submitting at a fixed rate. Each line is one such run: the jobs submitted, the rate at
which SQS received jobs, and the time until the file was empty. The first line is the floor:
requests of ten, 16 at once, from plain boto3 with the messages in memory.

SQS is a local process that accepts everything and counts. All processes share the machine's cores,
so rates must be compared with the floor of the same run, which is measured again before each run.
The CPU is that of the process which submits and drains, per 1,000 jobs that SQS received.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from benchmarks.environments import ROOT
from headgate import App, AsyncClient, Client, Events, Spool
from headgate.jobs.errors import SpoolFull

LATENCY_S = 0.008
RATES = (0, 600, 1_300, 5_000)
BACKLOG = 20_000
LONGEST_S = 60.0
THREADS = 16
QUEUE = "spooling-jobs-normal"

_COLUMNS = (
    "offered/s",
    "submitted/s",
    "SQS got/s",
    "empty after",
    "left",
    "refused",
    "twice",
    "CPU for 1,000",
)

Kind = Literal["plain", "async"]


class Order(BaseModel):
    """The payload of the benchmark's jobs."""

    number: int
    note: str = "x" * 100


app = App("spooling", priorities="all")
place_order = app.define("place-order", Order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of one run."""

    submitted: int
    refused: int
    """Number of submissions refused with `SpoolFull`."""
    seconds: float
    """Seconds until the file was empty, or until the wait was given up."""
    left: int
    taken: int
    """Number of jobs received by SQS."""
    twice: int
    cpu_s: float


def main() -> None:
    """Measure, and print a table in the form of benchmarks/README.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backlog", type=int, default=BACKLOG)
    parser.add_argument("--rates", type=int, nargs="+", default=list(RATES))
    parser.add_argument("--kinds", nargs="+", default=["plain", "async"])
    parser.add_argument("--longest", type=float, default=LONGEST_S, help="seconds for one run")
    options = parser.parse_args()
    print(f"| client | floor/s | its CPU for 1,000 | {' | '.join(_COLUMNS)} |")
    print("|---" * (len(_COLUMNS) + 3) + "|")
    for kind in options.kinds:
        for rate in options.rates:
            print(f"| {kind} | {_floor(options.backlog // 4)} | ", end="", flush=True)
            run = measure(kind, rate, backlog=options.backlog, longest_s=options.longest)
            print(_row(rate, run), flush=True)


def measure(kind: Kind, rate: int, *, backlog: int, longest_s: float) -> Run:
    """Leave a backlog, and watch it while a process submits at that rate."""
    with tempfile.TemporaryDirectory() as scratch, _server() as endpoint:
        path = Path(scratch) / "jobs.spool"
        _leave(path, backlog)
        submitter = _start("submit", str(path), kind, str(rate), endpoint=endpoint)
        _line_of(submitter)  # by now it has imported everything, and opens its client
        began = time.monotonic()
        left = _watch(path, began + longest_s)
        seconds = time.monotonic() - began
        taken, twice = _counts(endpoint)
        out, _ = submitter.communicate(b"\n")
        submitted, refused, cpu_s = json.loads(out)
    return Run(
        submitted=submitted,
        refused=refused,
        seconds=seconds,
        left=left,
        taken=taken,
        twice=twice,
        cpu_s=cpu_s,
    )


def _row(rate: int, run: Run) -> str:
    cells = (
        f"{rate:,}",
        f"{run.submitted / run.seconds:,.0f}",
        f"{run.taken / run.seconds:,.0f}",
        "not" if run.left else f"{run.seconds:.1f} s",
        f"{run.left:,}",
        f"{run.refused:,}",
        f"{run.twice:,}",
        f"{run.cpu_s / run.taken * 1_000:.2f} s",
    )
    return f"{' | '.join(cells)} |"


def _leave(path: Path, backlog: int) -> None:
    """Leave a backlog as an outage does: submissions are paused, and the file keeps them."""
    os.environ["HEADGATE_PAUSED"] = "1"
    try:
        with Client(app, spool=path, events=Events()) as client:
            for start in range(0, backlog, 1_000):
                orders = [Order(number=start + each) for each in range(1_000)]
                client.submit_many(place_order, orders)
    finally:
        del os.environ["HEADGATE_PAUSED"]


def _watch(path: Path, until_s: float) -> int:
    """Wait until the file is empty; return what is left when the time is over."""
    with closing(sqlite3.connect(path)) as file:
        while True:
            [[left]] = file.execute("SELECT jobs FROM total").fetchall()
            if not left or time.monotonic() > until_s:
                return int(left)
            time.sleep(0.05)


# --- the floor -----------------------------------------------------------------------------------


def _floor(jobs: int) -> str:
    with _server() as endpoint:
        process = _start("floor", str(jobs), endpoint=endpoint)
        out, _ = process.communicate()
    rate, cpu_s = json.loads(out)
    return f"{rate:,.0f} | {cpu_s / jobs * 1_000:.2f} s"


def floor(jobs: str) -> None:
    """Send that many, ten at a time, as fast as boto3 can."""
    import boto3
    from botocore.config import Config

    sqs = boto3.client("sqs", config=Config(max_pool_connections=16, parameter_validation=False))
    body = json.dumps({"id": "0" * 36, "payload": "x" * 400})
    entries: list[Any] = [{"Id": str(each), "MessageBody": body} for each in range(10)]
    url = sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"]
    began, cpu_s = time.monotonic(), time.process_time()
    with ThreadPoolExecutor(16) as pool:
        for _ in pool.map(
            lambda _: sqs.send_message_batch(QueueUrl=url, Entries=entries), range(int(jobs) // 10)
        ):
            pass
    print(json.dumps([int(jobs) / (time.monotonic() - began), time.process_time() - cpu_s]))


# --- the submitter -------------------------------------------------------------------------------


def submit(path: str, kind: Kind, rate: str) -> None:
    """Submit at that rate until a line comes in; then print the number submitted."""
    for later in (
        "aiobotocore.session",
        "boto3",
        "headgate.jobs.aws.lean.async_http",
        "headgate.jobs.aws.lean.sockets",
        "headgate.jobs.client.spool.drainer",
    ):
        importlib.import_module(later)  # outside the measured time
    print(flush=True)
    cpu_s = time.process_time()
    spool = Spool(path)
    ended = threading.Event()
    threading.Thread(target=_wait_for_a_line, args=[ended], daemon=True).start()
    if kind == "plain":
        submitted, refused = _submit_plainly(spool, int(rate), ended)
    else:
        submitted, refused = asyncio.run(_submit_async(spool, int(rate), ended))
    print(json.dumps([submitted, refused, time.process_time() - cpu_s]))


def _wait_for_a_line(ended: threading.Event) -> None:
    sys.stdin.readline()
    ended.set()


def _submit_plainly(spool: Spool, rate: int, ended: threading.Event) -> tuple[int, int]:
    counts = [[0, 0] for _ in range(THREADS)]

    def go(mine: list[int]) -> None:
        for _ in _beats(rate / THREADS, ended):
            try:
                client.submit(place_order, Order(number=mine[0]))
                mine[0] += 1
            except SpoolFull:
                mine[1] += 1

    with Client(app, spool=spool, events=Events()) as client:
        threads = [threading.Thread(target=go, args=[mine]) for mine in counts if rate]
        for thread in threads:
            thread.start()
        ended.wait()
        for thread in threads:
            thread.join()
    return sum(mine[0] for mine in counts), sum(mine[1] for mine in counts)


def _beats(rate: float, ended: threading.Event) -> Iterator[None]:
    """Yield that many times a second; a lag of more than a second is not made up."""
    due = time.monotonic()
    while not ended.wait(max(0, due - time.monotonic())):
        due = max(due + 1 / rate, time.monotonic() - 1)
        yield


async def _submit_async(spool: Spool, rate: int, ended: threading.Event) -> tuple[int, int]:
    counts = [0, 0]

    async def one(client: AsyncClient) -> None:
        try:
            await client.submit(place_order, Order(number=counts[0]))
            counts[0] += 1
        except SpoolFull:
            counts[1] += 1

    async with AsyncClient(app, spool=spool, events=Events()) as client:
        running: set[asyncio.Task[None]] = set()
        began, begun = time.monotonic(), 0
        while not ended.is_set():
            wanted = min(int((time.monotonic() - began) * rate) - begun, 500 - len(running))
            for _ in range(wanted):
                task = asyncio.create_task(one(client))
                running.add(task)
                task.add_done_callback(running.discard)
                begun += 1
            await asyncio.sleep(0.01)
        await asyncio.gather(*running)
    return counts[0], counts[1]


# --- SQS -----------------------------------------------------------------------------------------


@contextmanager
def _server() -> Iterator[str]:
    process = _start("serve")
    try:
        yield _line_of(process)
    finally:
        process.kill()
        process.communicate()


def _line_of(process: subprocess.Popen[bytes]) -> str:
    if process.stdout is None:
        raise ValueError("its output is not read")
    return process.stdout.readline().decode().strip()


def _start(*arguments: str, endpoint: str = "") -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "benchmark",
        "AWS_SECRET_ACCESS_KEY": "benchmark",
    }
    return subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, __file__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        cwd=ROOT,
    )


def _counts(endpoint: str) -> tuple[int, int]:
    import urllib.request

    with urllib.request.urlopen(endpoint) as answer:  # noqa: S310 - our own
        taken, twice = json.load(answer)
    return int(taken), int(twice)


class _Queue:
    """A queue that accepts everything."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._taken = 0
        self._began = time.monotonic()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError), closing(writer):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                fields = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                text = json.dumps(await self._answer(fields.get("x-amz-target", ""), body))
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(text), text.encode())
                )

    async def _answer(self, action: str, body: bytes) -> Any:
        if action.endswith("getqueueurl"):
            return {"QueueUrl": f"http://localhost/{QUEUE}"}
        if not action.endswith("sendmessagebatch"):
            return [self._taken, self._taken - len(self._seen)]
        await asyncio.sleep(LATENCY_S)
        entries = json.loads(body)["Entries"]
        self._taken += len(entries)
        self._seen |= {json.loads(entry["MessageBody"])["id"] for entry in entries}
        return {
            "Successful": [{"Id": entry["Id"], "MessageId": entry["Id"]} for entry in entries],
            "Failed": [],
        }


async def serve() -> None:
    """Serve as SQS, at the printed address."""
    server = await asyncio.start_server(_Queue().connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            asyncio.run(serve())
        case ["floor", jobs]:
            floor(jobs)
        case ["submit", path, ("plain" | "async") as kind, rate]:
            submit(path, kind, rate)
        case _:
            main()
