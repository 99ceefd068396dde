"""Jobs that come one by one at a steady rate, on SQS in memory and in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from headgate import App, AsyncClient, Lane, Priority
from headgate.jobs.core.topology import DEFAULT_LANES
from headgate.jobs.values.durations import Duration
from tests.support.backends import async_over
from tests.unit.workers.rig import Note, Rig

LATENCY_S = 0.005
"""Time that SQS takes for a request, each way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """The figures of a steady load."""

    jobs: int
    calls: dict[str, int]
    """The requests by action, those of the worker's start and end included."""
    sends: int
    """Requests of the submissions: one each, as from independent clients, unless theirs gathers."""
    pickups_s: dict[Priority, list[float]]
    """Seconds from a job's submission to its start, in ascending order."""

    @property
    def requests(self) -> float:
        """Requests a job, the submission's and the worker's."""
        return (self.sends + self.calls["receive"] + self.calls["delete"]) / self.jobs

    def pickup_s(self, priority: Priority, part: float) -> float:
        """Return a percentile of the pickups, ``part`` in [0, 1)."""
        return self.pickups_s[priority][int(part * len(self.pickups_s[priority]))]


async def steady(
    rate: float,
    *,
    jobs: int = 200,
    lane_gather: Duration | None = None,
    client_gather: Duration = 0,
    priorities: tuple[Priority, ...] = (Priority.NORMAL,),
    concurrency: int = 50,
    runs_s: float = 0.01,
) -> Steady:
    """Submit jobs one by one to a running worker; return the figures.

    Args:
        rate: jobs a second, at random moments.
        jobs: the number of jobs.
        lane_gather: the lanes' `Lane.gather`.
        client_gather: the client's ``gather``.
        priorities: the priorities that jobs take turns in.
        concurrency: the worker's slots.
        runs_s: seconds that a job runs.
    """
    load = _Load(priorities, lane_gather, runs_s)
    rig = Rig(load.app)
    rig.wire.requests = dict.fromkeys(("send", "receive", "delete"), _latency)
    rig.wire.answers = dict(rig.wire.requests)
    async with (
        rig.working(concurrency=concurrency),
        AsyncClient(
            load.app, backend=async_over(rig.wire, clock=rig.clock), gather=client_gather
        ) as client,
        asyncio.TaskGroup() as submissions,
    ):
        await load.submit(client, rate, jobs, submissions)
    calls = {name: rig.calls(name) for name in ("send", "receive", "delete")}
    return Steady(
        jobs=jobs,
        calls=calls,
        sends=calls["send"] if client_gather else jobs,
        pickups_s={priority: sorted(load.pickups_s[priority]) for priority in priorities},
    )


async def _latency() -> None:
    await asyncio.sleep(LATENCY_S)


class _Load:
    """An app with a job type for each priority, and when its jobs have started."""

    def __init__(
        self, priorities: tuple[Priority, ...], gather: Duration | None, runs_s: float
    ) -> None:
        self.app = App("shop", records="off")
        self.pickups_s: dict[Priority, list[float]] = {priority: [] for priority in priorities}
        self._submitted_at: dict[str, float] = {}
        self._left = 0
        self._done = asyncio.Event()
        lanes = {priority: _lane(priority, gather) for priority in priorities}
        queue = self.app.queue("mail", priorities=priorities, lanes=lanes)
        self._types = [
            queue.job(f"send-{priority}", priority=priority)(self._handler(priority, runs_s))
            for priority in priorities
        ]

    def _handler(self, priority: Priority, runs_s: float) -> Callable[[Note], Awaitable[None]]:
        async def handle(note: Note) -> None:
            waited_s = asyncio.get_running_loop().time() - self._submitted_at[note.text]
            self.pickups_s[priority].append(waited_s)
            await asyncio.sleep(runs_s)
            self._left -= 1
            if not self._left:
                self._done.set()

        return handle

    async def submit(
        self, client: AsyncClient, rate: float, jobs: int, tasks: asyncio.TaskGroup
    ) -> None:
        """Submit the jobs, each in a task of its own, and wait until all have run."""
        rng, self._left = random.Random(0), jobs  # noqa: S311 - draws the moments
        for number in range(jobs):
            await asyncio.sleep(rng.expovariate(rate))
            self._submitted_at[str(number)] = asyncio.get_running_loop().time()
            job = self._types[number % len(self._types)]
            tasks.create_task(client.submit(job, Note(text=str(number))))
        await self._done.wait()


def _lane(priority: Priority, gather: Duration | None) -> Lane:
    usual = DEFAULT_LANES[priority]
    return Lane(
        visibility=usual.visibility,
        start_within=usual.start_within,
        share=usual.share,
        gather=None if priority is Priority.CRITICAL else gather,
    )
