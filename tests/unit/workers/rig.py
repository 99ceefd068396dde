"""A worker on in-memory SQS, with a record of its actions and events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, JobContext, Priority
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Event, Events, Subscriber
from headgate.jobs.core.ports.transport import (
    EntryFailure,
    OutgoingMessage,
    QueueDepth,
    ReceivedMessage,
    VisibilityChange,
)
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.core.topology import DEFAULT_LANES, Lane
from headgate.jobs.definitions.app import DEFAULT_PARKING
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.queue import Queue
from headgate.jobs.errors import QueueMissing
from headgate.jobs.retry.policy import DEFAULT_RETRY, Retry
from headgate.jobs.testing import (
    LoopClock,
    MemoryBackend,
    MemorySqs,
    MessageState,
)
from headgate.jobs.testing.memory.faults import Action
from headgate.workers.configuration import WorkerSettings
from headgate.workers.shutdown import Report
from headgate.workers.worker import Worker
from tests.support.backends import async_over

E = TypeVar("E", bound=Event)
T = TypeVar("T")

LIMIT_S = 50_000.0
"""Seconds that a test waits for an expected event; in virtual time, so they cost little."""


without_threads = pytest.mark.looptime(noop_cycles=0)
"""Marks tests of long waits in virtual time, in which everything runs on the loop.

Before each step of the time, looptime turns the loop 42 times for what threads may bring. Where
none run, that would be half of the cost.
"""


class Note(BaseModel):
    """The payload of the tests' jobs."""

    text: str = ""


def lanes(visibility_s: float) -> dict[Priority, Lane]:
    """Return the default lanes with another visibility timeout."""
    return {
        priority: Lane(
            visibility=timedelta(seconds=visibility_s),
            start_within=lane.start_within,
            share=lane.share,
        )
        for priority, lane in DEFAULT_LANES.items()
    }


def one_lane(
    retry: Retry = DEFAULT_RETRY,
    *,
    visibility_s: float = 30,
    parking: Retry = DEFAULT_PARKING,
    records: RecordsLevel = "outcomes",
) -> tuple[App, Queue]:
    """Return an app with the one queue ``shop-mail-normal``, and its queue group."""
    app = App("shop", parking=parking, records=records)
    lane = lanes(visibility_s)[Priority.NORMAL]
    queue = app.queue(
        "mail", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lane}, retry=retry
    )
    return app, queue


MAIL = "shop-mail-normal"
DEAD_MAIL = "shop-mail-normal-dlq"


class Wire:
    """`MemorySqs` behind a network: requests and answers can be held back, call by call."""

    def __init__(self, sqs: MemorySqs) -> None:
        self._sqs = sqs
        self.requests: dict[Action, Callable[[], Awaitable[None]]] = {}
        """Awaited before the service gets a call of that kind."""
        self.answers: dict[Action, Callable[[], Awaitable[None]]] = {}
        """Awaited before its answer comes back."""
        self.refused: Callable[[OutgoingMessage], bool] = lambda _message: False
        """Returns True for messages that the service rejects."""
        self.missing: set[str] = set()
        """Queues that can't be received from, since the service does not know their names."""

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        taken = [at for at, message in enumerate(messages) if not self.refused(message)]
        failures = [_refused(at) for at in range(len(messages)) if at not in taken]
        if not taken:
            return failures
        wanted = [messages[at] for at in taken]
        failed = await self._through("send", lambda: self._sqs.send(queue, wanted))
        return failures + [replace(each, index=taken[each.index]) for each in failed]

    async def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        if queue in self.missing:
            raise QueueMissing(queue)
        return await self._through(
            "receive",
            lambda: self._sqs.receive(queue, limit=limit, wait_s=wait_s, visibility_s=visibility_s),
        )

    async def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]:
        return await self._through("delete", lambda: self._sqs.delete(queue, receipts))

    async def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]:
        return await self._through(
            "change_visibility", lambda: self._sqs.change_visibility(queue, changes)
        )

    async def depth(self, queue: str) -> QueueDepth:
        return await self._through("depth", lambda: self._sqs.depth(queue))

    async def _through(self, action: Action, call: Callable[[], Awaitable[T]]) -> T:
        if request := self.requests.get(action):
            await request()
        answer = await call()
        if hold_back := self.answers.get(action):
            await hold_back()
        return answer


def _refused(index: int) -> EntryFailure:
    return EntryFailure(
        index=index, code="InvalidParameterValue", message="refused", sender_fault=True
    )


class Rig:
    """An app, in-memory SQS and a worker; made within a test, since its clock is the loop's."""

    def __init__(
        self, app: App, *, clock: Clock | None = None, old_receipts_work: bool = False
    ) -> None:
        self.app = app
        self.clock = clock or LoopClock()
        self.backend = MemoryBackend(app, clock=self.clock)
        """The surroundings of clients; the worker's requests go over the `wire`."""
        if old_receipts_work:
            self.backend.sqs = MemorySqs(self.clock, old_receipts_work=True)
            self.backend.sqs.provision(app.topology)
        self.sqs = self.backend.sqs
        self.wire = Wire(self.sqs)
        self.table = self.backend.table
        self.scheduler = self.backend.scheduler
        self.store = self.backend.store
        self.secrets = self.backend.secrets
        self.events: list[Event] = []
        self.subscribers: list[Subscriber] = []
        """Further subscribers to the events of workers made from now on."""
        self._happened = asyncio.Condition()
        self.report: Report | None = None

    def refuse_sends(self, refused: Callable[[OutgoingMessage], bool]) -> None:
        """Make SQS reject such messages."""
        self.wire.refused = refused

    @asynccontextmanager
    async def working(self, **settings: Any) -> AsyncIterator[Worker]:
        """Yield a running worker; it is stopped at the end, and must leave nothing behind."""
        before = asyncio.all_tasks()
        worker = self.worker(**settings)
        run = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            self.report = await asyncio.wait_for(run, LIMIT_S)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before, "the worker left tasks behind"

    def worker(self, **settings: Any) -> Worker:
        """Return a worker that has not been started."""
        return Worker(
            self.app,
            async_over(
                self.wire,
                table=self.table,
                scheduler=self.scheduler,
                store=self.store,
                keys=self.backend.keys,
                secrets=self.secrets,
                clock=self.clock,
                rng=random.Random(0),  # noqa: S311 - spreads pauses
            ),
            WorkerSettings(**settings),
            events=Events(self.hear, *self.subscribers),
        )

    def hear(self, event: Event) -> None:
        """Record an event, and wake whatever waits for it; a subscriber."""
        self.events.append(event)
        wake = asyncio.ensure_future(self._wake())
        wake.add_done_callback(lambda task: task.exception())

    async def _wake(self) -> None:
        async with self._happened:
            self._happened.notify_all()

    def heard(self, kind: type[E]) -> list[E]:
        """Return all events of a kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    async def happens(self, kind: type[E], times: int = 1) -> list[E]:
        """Wait until the event has happened that many times; return those events."""
        counted = found = 0

        def enough() -> bool:
            nonlocal counted, found  # asked after each event, so it looks at each but once
            found += sum(isinstance(event, kind) for event in self.events[counted:])
            counted = len(self.events)
            return found >= times

        async with asyncio.timeout(LIMIT_S), self._happened:
            await self._happened.wait_for(enough)
        return self.heard(kind)

    async def submit(self, job: JobType[Any, Any], *texts: str, **overrides: Any) -> list[str]:
        """Submit one job per text; return their ids."""
        # By a table of its own, so that `table` has the worker's items alone.
        backend = async_over(
            self.sqs,
            store=self.store,
            keys=self.backend.keys,
            secrets=self.secrets,
            clock=self.clock,
        )
        async with AsyncClient(self.app, backend=backend) as client:
            notes = [Note(text=text) for text in texts or ("",)]
            return [handle.id for handle in await client.submit_many(job, notes, **overrides)]

    def in_flight(self) -> int:
        """Return the number of messages of all queues that some receiver holds."""
        return sum(
            message.state is MessageState.IN_FLIGHT
            for spec in self.app.topology.queues
            for message in self.sqs.messages(spec.name)
        )

    def remaining(self) -> int:
        """Return the number of messages of all queues, without dead-letter queues."""
        return sum(len(self.sqs.messages(spec.name)) for spec in self.app.topology.queues)

    def calls(self, action: Action, queue: str | None = None) -> int:
        """Return the number of calls of that kind that SQS has received."""
        return sum(call.action == action and queue in (None, call.queue) for call in self.sqs.calls)


class Gate:
    """A gate at which handlers wait until the test lets them through, and a record of arrivals."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[str] = []
        self._open: dict[str, asyncio.Event] = {}
        self._arrival = asyncio.Condition()

    async def __call__(self, note: Note, ctx: JobContext) -> None:  # noqa: ARG002 - as handlers have it
        self.started.append(note.text)
        async with self._arrival:
            self._arrival.notify_all()
        await self._of(note.text).wait()
        self.ended.append(note.text)

    async def reached(self, count: int) -> None:
        """Wait until that many have started."""
        async with asyncio.timeout(LIMIT_S), self._arrival:
            await self._arrival.wait_for(lambda: len(self.started) >= count)

    def open(self, *texts: str) -> None:
        """Let those through, now and later."""
        for text in texts:
            self._of(text).set()

    def _of(self, text: str) -> asyncio.Event:
        return self._open.setdefault(text, asyncio.Event())


def gated_shop() -> tuple[App, Gate]:
    """Return an app with one type, "work", on all four lanes, and the gate that holds its jobs."""
    app = App("shop", priorities="all")
    gate = Gate()

    @app.job("work")
    async def work(note: Note, ctx: JobContext) -> None:
        await gate(note, ctx)

    return app, gate
