"""Execution of the story on virtual time: dead letters, and what becomes of them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import looptime

from benchmarks.war_story.world import (
    MAX_ATTEMPTS,
    REFUSED,
    Endpoint,
    EndpointDown,
    Story,
    Webhook,
    build,
)
from headgate import AsyncClient, DeadLetterFilter, Events, Priority
from headgate.jobs.core.events import Event, JobCompleted, JobDeadLettered
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.testing import LoopClock, MemoryBackend
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker

Way = Literal["replay", "redrive"]
"""The way in which the dead letters are sent back."""

WHY = {
    "Reason": "attempts-exhausted",
    "ErrorType": EndpointDown.__name__,
    "ErrorMessage": REFUSED,
    "Attempts": str(MAX_ATTEMPTS),
}
"""The error text of a webhook that died."""

_LAST_S = 3 * 3_600
"""Maximum number of seconds for all webhooks to end."""


@dataclass(slots=True)
class _Ends:
    """A subscriber that notes when webhooks end."""

    delivered: list[float] = field(default_factory=list)
    """The time of each delivery, in seconds of the loop."""
    died: int = 0
    _awaited: int = 0
    _reached: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, event: Event) -> None:
        if isinstance(event, JobCompleted):
            self.delivered.append(asyncio.get_running_loop().time())
        elif isinstance(event, JobDeadLettered):
            self.died += 1
        if len(self.delivered) + self.died >= self._awaited:
            self._reached.set()

    async def reach(self, count: int) -> None:
        """Return once that many webhooks have ended."""
        self._awaited = count
        self._reached.clear()
        if len(self.delivered) + self.died < count:
            await self._reached.wait()


def tell(way: Way, story: Story | None = None, *, seed: int = 1) -> dict[str, Any]:
    """Let the story happen; return what was observed, as JSON values."""
    loop = looptime.new_event_loop(start=0, noop_cycles=0)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(_Course(story or Story(), seed).run(way))


class _Course:
    """One course of the story."""

    def __init__(self, story: Story, seed: int) -> None:
        self._story = story
        self._endpoint = Endpoint(story)
        self._app, self._deliver = build(self._endpoint)
        self._backend = MemoryBackend(self._app, clock=LoopClock())
        self._backend.rng = random.Random(seed)  # noqa: S311 - a simulation
        self._ends = _Ends()
        self._queue = self._app.topology.queue("jobs", Priority.NORMAL)

    async def run(self, way: Way) -> dict[str, Any]:
        """Send the dead webhooks back; return what became of them."""
        client = AsyncClient(self._app, backend=self._backend)
        async with asyncio.timeout(_LAST_S), client:
            await self._outage(client)
            began_s = asyncio.get_running_loop().time()
            workers = [self._worker() for _ in range(self._story.workers)]
            runs = [asyncio.create_task(worker.run()) for worker in workers]
            sent = await (self._replay(client) if way == "replay" else self._redrive())
            await self._ends.reach(sent)
        for worker in workers:
            worker.stop()
        await asyncio.gather(*runs)
        return {
            "way": way,
            "most_per_s": self._story.most_per_s,
            "sent_back": sent,
            "delivered": len(self._ends.delivered),
            "died_again": self._ends.died,
            "falls": self._endpoint.falls,
            "requests": _by_second(self._endpoint.requests, began_s),
            "deliveries": _by_second(self._ends.delivered, began_s),
        }

    def _worker(self) -> Worker:
        settings = WorkerSettings(concurrency=self._story.concurrency)
        return Worker(self._app, self._backend, settings, events=Events(self._ends))

    async def _outage(self, client: AsyncClient) -> None:
        """Submit all webhooks, and leave them where a worker does after the last attempt."""
        sqs, queue = self._backend.sqs, self._queue
        webhooks = [Webhook(number=number) for number in range(self._story.webhooks)]
        await client.submit_many(self._deliver, webhooks)
        while messages := await sqs.receive(queue.name, limit=MAX_BATCH, wait_s=0):
            at = self._backend.clock.now().isoformat()
            letters = [
                OutgoingMessage(
                    body=each.body, attributes={**each.attributes, **WHY, "FailedAt": at}
                )
                for each in messages
            ]
            await sqs.send(queue.dlq_name, letters)
            await sqs.delete(queue.name, [each.receipt for each in messages])

    async def _replay(self, client: AsyncClient) -> int:
        """Replay them as the person on call would; return how many were sent."""
        report = await client.dead_letters.replay(
            DeadLetterFilter(errors=("EndpointDown",)),
            spread=self._story.spread,
            canary=self._story.canary,
        )
        return report.sent

    async def _redrive(self) -> int:
        """Move them as AWS's redrive does, as fast as it can; return how many were sent."""
        sqs, queue, moved = self._backend.sqs, self._queue, 0
        count = (await sqs.depth(queue.dlq_name)).visible
        while moved < count:
            for _ in range(self._story.redrive_per_s // MAX_BATCH):
                letters = await sqs.receive(queue.dlq_name, limit=MAX_BATCH, wait_s=0)
                messages = [
                    OutgoingMessage(body=each.body, attributes=each.attributes) for each in letters
                ]
                if messages:
                    await sqs.send(queue.name, messages)
                    await sqs.delete(queue.dlq_name, [each.receipt for each in letters])
                moved += len(letters)
            await asyncio.sleep(1)
        return moved


def _by_second(times: Iterable[float], began_s: float) -> list[int]:
    """Return how many times fall into each second since the beginning."""
    counts = Counter(int(at - began_s) for at in times if at >= began_s)
    return [counts[second] for second in range(max(counts, default=0) + 1)]
