"""The order in which a harness takes jobs, and the jumps of its clock between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import timedelta

from headgate.jobs.core.topology import MAX_BATCH, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import HeadgateError
from headgate.jobs.execution.delivery import Delivery, deliveries_of_jobs
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.schedules.delayed_job import PREFIX
from headgate.jobs.testing.clock import VirtualClock
from headgate.jobs.testing.memory.scheduler import MemoryScheduler
from headgate.jobs.testing.memory.sqs import MemorySqs

_LONG_S = timedelta(days=1).total_seconds()
"""The shortest jump of the clock at which it is asked what schedules submit on the way."""


class DrainUnfinished(HeadgateError):
    """Jobs kept coming: more than the runs that `headgate.testing.Harness.drain` allows."""


def unfinished(max_runs: int, waiting: Iterable[tuple[Envelope, int]]) -> DrainUnfinished:
    """Return the error of a drain that has made its runs, and has left these jobs waiting."""
    types = sorted({envelope.type for envelope, _receives in waiting})
    return DrainUnfinished(
        f"after {max_runs} runs there are still jobs in the queues, of: {', '.join(types)}. If "
        "they end after more runs, raise max_runs="
    )


class NextMessage:
    """Takes one job at a time, by priority; moves the clock on if no message is visible.

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
        self._ahead: defaultdict[str, list[Delivery]] = defaultdict(list)
        """By queue, the jobs that have been received while others were looked for, or with others
        in a bundle."""

    @property
    def is_done(self) -> bool:
        """True if no job is left, not even a delayed one."""
        if self._scheduler.next_due(PREFIX) is not None:
            return False
        return not any(self._sqs.messages(spec.name) for spec in self._app.topology.queues)

    async def take(self, max_runs: int) -> Delivery | None:
        """Return the next job's delivery; None if no job is left.

        Raises:
            DrainUnfinished: it is due so late that schedules submit more than ``max_runs`` before.
        """
        queues = sorted(self._app.topology.queues, key=lambda spec: spec.priority.rank)
        while True:
            for spec in queues:
                if self._ahead[spec.name] or await self._receive(spec, 1):
                    return self._ahead[spec.name].pop(0)
            if not (due := self._next_due(queues)):
                return None
            self._check_jump(due, max_runs)
            self._clock.advance(due)

    def _check_jump(self, due: float, max_runs: int) -> None:
        until = self._clock.now() + timedelta(seconds=due)
        if due < _LONG_S or not self._scheduler.fires_often(until, max_runs):
            return
        raise DrainUnfinished(
            f"the next job is due at {until:%Y-%m-%d %H:%M} UTC, and it is "
            f"{self._clock.now():%Y-%m-%d %H:%M} by the harness's clock: schedules would submit "
            f"more than {max_runs} jobs until then. If your code takes times from datetime.now(), "
            "begin there: Harness(app, start=datetime.now(UTC))"
        )

    async def take_if(
        self, queue: QueueSpec, wanted: Callable[[Delivery], bool], *, most: int
    ) -> list[Delivery]:
        """Receive the first jobs of a queue that are wanted; others are taken in their turn."""
        ahead, found, at = self._ahead[queue.name], list[Delivery](), 0
        while len(found) < most:
            if at == len(ahead) and not await self._receive(queue, MAX_BATCH):
                break
            if wanted(ahead[at]):
                found.append(ahead.pop(at))
            else:
                at += 1
        return found

    async def _receive(self, queue: QueueSpec, limit: int) -> bool:
        """Receive messages of a queue; return True if there were any."""
        messages = await self._sqs.receive(queue.name, limit=limit, wait_s=0)
        at = self._clock.monotonic()
        for message in messages:
            whole = Delivery(message=message, queue=queue, received_at=at)
            self._ahead[queue.name] += deliveries_of_jobs(whole)
        return bool(messages)

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
