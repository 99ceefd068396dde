"""The order in which a harness takes messages, and the jumps of its clock between them."""

from __future__ import annotations

from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.schedules.delayed_job import PREFIX
from headgate.jobs.testing.clock import VirtualClock
from headgate.jobs.testing.memory.scheduler import MemoryScheduler
from headgate.jobs.testing.memory.sqs import MemorySqs


class NextMessage:
    """Takes one message at a time, by priority; moves the clock on if none is visible.

    Args:
        app: the app; queues that it declares later are taken from, too.
        sqs: its queues.
        scheduler: holds its delayed jobs.
        clock: the time of both.
    """

    def __init__(
        self, app: App, sqs: MemorySqs, scheduler: MemoryScheduler, clock: VirtualClock
    ) -> None:
        self._app = app
        self._sqs = sqs
        self._scheduler = scheduler
        self._clock = clock

    async def take(self) -> tuple[QueueSpec, ReceivedMessage] | None:
        """Receive the next message, with its queue; None if no job is left."""
        queues = sorted(self._app.topology.queues, key=lambda spec: spec.priority.rank)
        while True:
            for spec in queues:
                if received := await self._sqs.receive(spec.name, limit=1, wait_s=0):
                    return spec, received[0]
            if not (due := self._next_due(queues)):
                return None
            self._clock.advance(due)

    def _next_due(self, queues: list[QueueSpec]) -> float:
        """Return the seconds until a hidden message shows or a delayed job is sent; 0 for never."""
        waits = [
            (message.visible_at - self._clock.now()).total_seconds()
            for spec in queues
            for message in self._sqs.messages(spec.name)
            if message.visible_at is not None
        ]
        if (delayed := self._scheduler.next_due(PREFIX)) is not None:
            waits.append((delayed - self._clock.now()).total_seconds())
        return min(waits, default=0.0)
