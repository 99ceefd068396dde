"""A deployed function on virtual time, whose environments may die at any await.

Lambda is simulated as documented: it polls, invokes, and deletes the messages that the answer
doesn't name. An environment that dies returns no answer: its messages become visible again by their
visibility timeout.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel

from headgate import App, Client, Priority, Retry
from headgate.jobs.core.events import Event, Events
from headgate.jobs.core.existing.arns import is_arn, region_of
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.core.topology import Lane
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.testing import MemoryBackend, StoredMessage, VirtualClock
from headgate.lambdas.consume import Consumer, Response, consumer

T = TypeVar("T")

_GRAVES: list[Any] = []
"""Dead environments, kept from garbage collection: closing a coroutine would run a part of it."""
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_GRAVES))


class Died(BaseException):
    """The execution environment died in the middle of its work."""


class EnvironmentLoop(asyncio.SelectorEventLoop):
    """An event loop on the world's time, which passes while the loop is idle, and may die.

    Callbacks run one at a time, so that it can die between any two steps. While it waits for a
    thread, the world's time passes like real time: at a faster pace the thread would come too late.
    """

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._world = clock
        self._clock_resolution = 1e-5  # the world counts microseconds
        self._is_dead = False
        self._in_threads = 0
        """Number of calls that threads have not ended, and nobody has given up."""
        self.steps = 0
        self.dies_after: int | None = None
        self.dies_at: float | None = None
        """The moment at which Lambda ends whatever is under way, on the world's time."""

    def time(self) -> float:
        return self._world.monotonic()

    def run_in_executor(  # type: ignore[override]  # what is run doesn't matter here
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._out_of_thread)
        return future

    def _out_of_thread(self, _ended: asyncio.Future[Any]) -> None:
        self._in_threads -= 1

    async def die(self) -> None:
        """End the environment: a handler that awaits this never resumes."""
        self._is_dead = True
        await asyncio.Event().wait()

    async def block(self) -> None:
        """Block the loop until Lambda ends the environment."""
        if self.dies_at is not None:
            self._world.advance(max(0.0, self.dies_at - self.time()))
        await self.die()

    def _run_once(self) -> None:
        self.steps += 1
        if self._is_dead or self.steps == self.dies_after:
            raise Died
        # Private to asyncio and missing from its stubs; so is `_run_once`, which is called below.
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not ready and scheduled and self._in_threads:
            began = time.monotonic()
            super()._run_once()  # type: ignore[misc]
            self._pass(time.monotonic() - began)
            return
        if not ready and scheduled:
            # At least a microsecond: the world's clock would not notice less.
            self._pass(max(1e-6, scheduled[0].when() - self.time()))
        rest = deque([ready.popleft() for _ in range(len(ready))])
        if rest:
            ready.append(rest.popleft())
        super()._run_once()  # type: ignore[misc]
        ready.extendleft(reversed(rest))

    def _pass(self, seconds: float) -> None:
        if self.dies_at is not None and self.time() + seconds >= self.dies_at:
            self._world.advance(max(0.0, self.dies_at - self.time()))
            raise Died
        self._world.advance(seconds)


class Note(BaseModel):
    """The payload of the functions' jobs."""

    text: str = ""


@dataclass
class Invocation:
    """Lambda's context object, on the world's time."""

    clock: VirtualClock
    ends_at: float
    aws_request_id: str = "invocation"

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds that the function may still run."""
        return int((self.ends_at - self.clock.monotonic()) * 1000)


@dataclass
class Function:
    """A function, its queue, and Lambda's pollers."""

    app: App
    queue: str
    timeout_s: float = 30.0
    options: dict[str, Any] = field(default_factory=dict)
    """Options of `lambdas.consume.consumer`."""
    events: list[Event] = field(default_factory=list)
    invocations: int = 0
    deaths: int = 0

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.backend = MemoryBackend(self.app, clock=self.clock)
        self.sqs, self.table = self.backend.sqs, self.backend.table
        self._environment: tuple[Consumer, EnvironmentLoop] | None = None

    @property
    def loop(self) -> EnvironmentLoop:
        """The event loop of the current environment."""
        return self._warm()[1]

    def submit(self, job: JobType[Any, Any], *payloads: Any, **overrides: Any) -> list[str]:
        """Submit one job per payload; return their ids."""
        with Client(self.app, backend=self.backend) as client:
            return [each.id for each in client.submit_many(job, list(payloads), **overrides)]

    def invoke(self, *, batch: int = 10, dies_after: int | None = None) -> Response | None:
        """Poll, invoke, delete what did not fail; None if the environment died or had nothing."""
        messages: list[ReceivedMessage] = []
        while len(messages) < batch:
            limit = min(10, batch - len(messages))
            found = asyncio.run(self.sqs.receive(self.queue, limit=limit, wait_s=0))
            messages += found
            if not found:
                break
        if not messages:
            return None
        self.invocations += 1
        made, loop = self._warm()
        loop.steps, loop.dies_after = 0, dies_after
        loop.dies_at = self.clock.monotonic() + self.timeout_s
        context = Invocation(self.clock, loop.dies_at)
        try:
            response = made({"Records": [self._record(each) for each in messages]}, context)
        except Died:
            self.deaths += 1
            self.die()
            return None
        loop.dies_at = loop.dies_after = None
        failed = {each["itemIdentifier"] for each in response["batchItemFailures"]}
        done = [each.receipt for each in messages if each.message_id not in failed]
        for at in range(0, len(done), 10):
            assert asyncio.run(self.sqs.delete(self.queue, done[at : at + 10])) == []
        return response

    def die(self) -> None:
        """End the environment, as Lambda does at any time with one that is idle."""
        made, loop = self._warm()
        _GRAVES.append((made, *asyncio.all_tasks(loop)))
        loop.close()
        self._environment = None

    def drain(self, *, batch: int = 10) -> None:
        """Invoke until the queue is empty, as messages become visible again."""
        ends_at = self.clock.monotonic() + 100_000
        while left := self.messages():
            assert self.clock.monotonic() < ends_at, f"{len(left)} messages are left"
            invocations = self.invocations
            self.invoke(batch=batch)
            if self.invocations == invocations:  # nothing is visible yet
                now = self.clock.now()
                later = (each.visible_at for each in left if each.visible_at is not None)
                self._wait_until(min((at for at in later if at > now), default=now))

    def messages(self, queue: str | None = None) -> list[StoredMessage]:
        """Return the messages of a queue, by default the function's own."""
        return self.sqs.messages(queue or self.queue)

    def heard(self, kind: type[Event]) -> int:
        """Return the number of events of a kind."""
        return sum(isinstance(event, kind) for event in self.events)

    def close(self) -> None:
        """Close the current environment."""
        if self._environment is not None:
            self._environment[0].close()

    def _warm(self) -> tuple[Consumer, EnvironmentLoop]:
        if self._environment is None:
            made = consumer(
                self.app,
                events=Events(self.events.append),
                backend=self.backend,
                **self.options,
            )
            loop = EnvironmentLoop(self.clock)
            made._runner = asyncio.Runner(loop_factory=lambda: loop)
            self._environment = made, loop
        return self._environment

    def _wait_until(self, at: datetime) -> None:
        self.clock.advance(max(0.001, (at - self.clock.now()).total_seconds()))

    def _record(self, message: ReceivedMessage) -> dict[str, Any]:
        return record_of(message, self.queue)


@contextmanager
def function_of_mail(
    send: Callable[..., Any],
    *,
    retry: Retry,
    visibility_s: float,
    fifo: bool = False,
    once: bool = False,
    records: RecordsLevel = "outcomes",
    **options: Any,
) -> Iterator[Function]:
    """Open a function whose one type, "send", runs that handler; other fields are `Function`'s."""
    lane = Lane(visibility=timedelta(seconds=visibility_s), start_within=timedelta(0), share=0)
    app = App("shop", records=records)
    queue = app.queue(
        "mail", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lane}, retry=retry, fifo=fifo
    )
    queue.job("send", once=once)(send)
    deployed = Function(app, app.topology.queues[-1].name, **options)
    try:
        yield deployed
    finally:
        deployed.close()


def submitted(deployed: Function, *texts: str, **overrides: Any) -> list[str]:
    """Submit one job of the type "send" per text; return their ids."""
    notes = (Note(text=text) for text in texts)
    return deployed.submit(deployed.app.types["send"], *notes, **overrides)


def record_of(
    message: ReceivedMessage, queue: str, *, place: str = "eu-central-1:123456789012"
) -> dict[str, Any]:
    """Return a message as Lambda hands it over.

    ``place`` is the queue's region and account, unless the queue is named by its ARN.
    """
    attributes = {
        "ApproximateReceiveCount": str(message.receive_count),
        "SentTimestamp": str(int(message.sent_at.timestamp() * 1000)),
        "ApproximateFirstReceiveTimestamp": message.first_received_ms,
    }
    if message.group is not None:
        attributes["MessageGroupId"] = message.group
    arn = queue if is_arn(queue) else f"arn:aws:sqs:{place}:{queue}"
    return {
        "messageId": message.message_id,
        "receiptHandle": message.receipt,
        "body": message.body,
        "attributes": attributes,
        "messageAttributes": {
            name: {"stringValue": value, "dataType": "String"}
            for name, value in message.attributes.items()
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": region_of(arn),
    }
