"""Random bodies for a worker and a function: each is run or parked, and never quoted in a log.

All of it happens in this process, in virtual time and on queues in memory, so that a hundred
thousand take minutes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import looptime
from pydantic import BaseModel

from headgate import Accepts, App, Backoff, Priority, Retry
from headgate.jobs.core.event_log import log_event, name_job
from headgate.jobs.core.events import Event, Events, JobCompleted, Subscriber
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.testing import LoopClock, MemoryBackend, MemorySqs
from headgate.workers.configuration import WorkerSettings
from headgate.workers.logs import json_formatter
from headgate.workers.worker import Worker
from tests.crash.trials.bodies import SECRET, Bodies
from tests.crash.trials.findings import Findings
from tests.support.functions import Function
from tests.support.loggers import restored

_ROUND = 500
"""Number of bodies per life of a worker or a function."""
_FUNCTIONS = 1 / 5
"""Fraction of the bodies that a function gets; a worker gets the others."""
_LIMIT_S = 100_000.0
"""Virtual seconds, longer than parking takes and shorter than a queue's retention."""
_LOOK_S = 1.0


class Note(BaseModel):
    """A payload that accepts anything."""

    text: str = ""
    rest: Any = None


class Order(BaseModel):
    """A payload that is strict."""

    text: str
    lines: list[int]


def _make_app() -> App:
    """Return an app with a type for each way in which a message can be read."""
    app = App("fuzz", parking=Retry(max_attempts=2, backoff=Backoff.fixed(1)))
    queue = app.queue("work", priorities=[Priority.NORMAL])

    @queue.job("done", accepts=Accepts.json())
    async def done(note: Note) -> Any:
        return note.rest

    @queue.job("order")
    async def order(_order: Order) -> None: ...

    @queue.job("once", once=True)
    async def once(_note: Note) -> None: ...

    @queue.job("told", schema=3, accepts=Accepts.sns(), upgrade={2: lambda value: value["text"]})
    async def told(_told: Any) -> None: ...

    @queue.job("event", accepts=Accepts.eventbridge(fields={"text": "$.detail.text"}))
    async def event(_note: Note) -> None: ...

    @queue.job("files", accepts=Accepts.s3())
    async def files(_files: list[Any]) -> None: ...

    return app


class _Log(logging.Handler):
    """Reads each line that a worker or a function would log, and counts those that quote."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(name_job)
        self.setFormatter(json_formatter())
        self.lines = 0
        self.quoting: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += 1
        line = self.format(record)
        if SECRET in line:
            self.quoting.append(line)


@contextmanager
def _log() -> Iterator[_Log]:
    handler = _Log()
    with restored() as logger:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        yield handler


def feed(seed: int, count: int) -> Findings:
    """Feed that many bodies, and report what became of them."""
    bodies = iter(Bodies(random.Random(seed), [*_make_app().types]))  # noqa: S311 - makes bodies
    to_function = int(count * _FUNCTIONS)
    worker, function, findings = Counter[str](), Counter[str](), Findings()
    with _log() as log, asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        for size in _rounds(count - to_function):
            runner.run(_feed_worker(islice(bodies, size), worker))
        for size in _rounds(to_function):
            _feed_function(islice(bodies, size), function)
    for name, fate in (("worker", worker), ("function", function)):
        findings.figures |= {f"{name}: {what}": times for what, times in sorted(fate.items())}
        findings.expect(
            fate["run"] + fate["parked"] == fate["fed"], f"the {name} lost bodies: {dict(fate)}"
        )
    findings.figures |= {"log lines": log.lines, "log lines that quote a payload": len(log.quoting)}
    findings.expect(not log.quoting, f"the log quotes a payload: {log.quoting[:1]}")
    return findings


def _rounds(count: int) -> Iterator[int]:
    while count > 0:
        yield min(_ROUND, count)
        count -= _ROUND


async def _feed_worker(bodies: Iterator[str], fate: Counter[str]) -> None:
    app, clock = _make_app(), LoopClock()
    backend = MemoryBackend(app, clock=clock)
    sqs = backend.sqs
    worker = Worker(
        app,
        backend,
        WorkerSettings(),
        events=Events(log_event, _counting(fate)),
    )
    running = asyncio.create_task(worker.run())
    queue = app.topology.queue("work", Priority.NORMAL)
    fate["fed"] += await _send(sqs, queue.name, bodies)
    async with asyncio.timeout(_LIMIT_S):
        while sqs.messages(queue.name) and not running.done():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(_LOOK_S)
    fate["parked"] += await _take(sqs, app, queue.dlq_name)
    worker.stop()
    await running


def _feed_function(bodies: Iterator[str], fate: Counter[str]) -> None:
    app = _make_app()
    queue = app.topology.queue("work", Priority.NORMAL)
    function = Function(app, queue.name)
    fate["fed"] += asyncio.run(_send(function.sqs, queue.name, bodies))
    function.drain()
    fate["parked"] += asyncio.run(_take(function.sqs, app, queue.dlq_name))
    tell = Events(log_event, _counting(fate))
    for event in function.events:
        tell.emit(event)
    function.close()


async def _send(sqs: MemorySqs, queue: str, bodies: Iterator[str]) -> int:
    """Send the bodies that SQS accepts; return their number."""
    sent, left = 0, list(bodies)
    for at in range(0, len(left), MAX_BATCH):
        messages = [OutgoingMessage(body=body) for body in left[at : at + MAX_BATCH]]
        sent += len(messages) - len(await sqs.send(queue, messages))
    return sent


async def _take(sqs: MemorySqs, app: App, dlq: str) -> int:
    """Take out the parked messages, each with its reason; return their number."""
    taken = 0
    for name in (dlq, app.topology.quarantine_name):
        while messages := await sqs.receive(name, limit=MAX_BATCH, wait_s=0):
            taken += sum("Reason" in message.attributes for message in messages)
            await sqs.delete(name, [message.receipt for message in messages])
    return taken


def _counting(fate: Counter[str]) -> Subscriber:
    def count(event: Event) -> None:
        if isinstance(event, JobCompleted):
            fate["run"] += 1

    return count
