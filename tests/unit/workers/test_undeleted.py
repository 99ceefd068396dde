"""A finished job whose message SQS delivers again and again: no delivery of it is a crash."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Backoff, JobContext, Keep, Priority, Retry, RetryLater
from headgate.events import JobCompleted, JobCrashed, JobDeadLettered, JobQuarantined
from headgate.jobs.core.events import JobAlreadyDone
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.records.items import partition
from headgate.jobs.records.lives import LIVES
from headgate.jobs.retry.policy import CrashLimit
from tests.support.undeleting import undelete
from tests.unit.workers.rig import Note, Rig, lanes, one_lane

pytestmark = pytest.mark.looptime

VISIBILITY_S = 60
"""Long enough for a new worker to see which workers are dead before the message is visible."""

_ENDS: Any = (JobCompleted, JobAlreadyDone)

LEVELS: list[tuple[RecordsLevel, float]] = [
    ("off", 0),
    ("failures", 86_400),
    ("outcomes", 0),
    ("outcomes", 86_400),
    ("full", 0),
]
"""Levels of records, and the seconds for which completed jobs are kept."""


class World:
    """An app with one job, whose message the first deletes leave where it is."""

    def __init__(
        self, level: RecordsLevel, keep_s: float, *, once: bool, undeletes: int, **options: Any
    ) -> None:
        app = App("shop", records=level, keep=Keep(timedelta(seconds=keep_s)), **options)
        lane = lanes(VISIBILITY_S)[Priority.NORMAL]
        retry = Retry(max_attempts=10, backoff=Backoff.fixed(1))
        queue = app.queue(
            "mail", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lane}, retry=retry
        )
        self.runs = 0

        @queue.job("send", once=once)
        async def send(_note: Note) -> str:
            self.runs += 1
            return "sent"

        self.job = send
        self.rig = Rig(app)
        undelete(self.rig.sqs, undeletes)

    @asynccontextmanager
    async def killed(self) -> AsyncIterator[None]:
        """Run a worker that is killed once it has nothing to do."""
        async with self.rig.working():
            yield
            lives = await self.rig.table.query(LIVES)
        if lives:
            await self.rig.table.put(lives)  # a killed worker doesn't delete its life


@pytest.mark.parametrize(("level", "keep_s"), LEVELS)
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize(("undeletes", "first"), [(2, 1), (2, 2), (3, 2)])
async def test_a_finished_job_that_is_delivered_again_has_not_crashed(
    level: RecordsLevel, keep_s: float, once: bool, is_killed: bool, undeletes: int, first: int
) -> None:
    """The ``first`` deliveries come to one worker, and the later ones to another."""
    world = World(level, keep_s, once=once, undeletes=undeletes)
    rig = world.rig
    await rig.submit(world.job)
    async with world.killed() if is_killed else rig.working():
        await rig.happens(_ENDS, first)
    async with rig.working():
        await rig.happens(_ENDS, undeletes + 1)
    assert rig.remaining() == 0
    assert not rig.heard(JobQuarantined)
    assert not rig.heard(JobDeadLettered)
    # A worker that is gone may have died of a first delivery that left no trace.
    left_none = first == 1 and not once and (level == "failures" or not keep_s)
    assert len(rig.heard(JobCrashed)) <= (is_killed and left_none)
    assert world.runs == (1 if once else undeletes + 1)


async def test_a_claimed_job_that_was_done_before_its_worker_died_is_not_quarantined() -> None:
    """Its end is in its claim, and nothing is in its records."""
    world = World("failures", 0, once=True, undeletes=2, crash_limit=CrashLimit(crashes=1))
    rig = world.rig
    [job_id] = await rig.submit(world.job)
    async with world.killed():
        await rig.happens(_ENDS, 2)
    ends = await rig.table.query(partition(job_id), prefix="run#")
    written = [(each.pk, each.sk) for each in ends if each.sk.endswith("#completed")]
    assert len(written) == 1
    await rig.table.delete(written)
    async with rig.working():
        await rig.happens(_ENDS, 3)
    assert rig.remaining() == 0
    assert not rig.heard(JobCrashed)
    assert not rig.heard(JobQuarantined)


async def test_a_worker_knows_how_a_delivery_ended_before_the_table_does() -> None:
    app, queue = one_lane(retry=Retry(max_attempts=5, backoff=Backoff.fixed(1)))
    seen: list[int] = []

    @queue.job("flaky")
    async def flaky(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        if len(seen) == 2:
            rig.table.faults.raise_on("put", ServiceUnavailable("HTML"), times=10**6)
        if len(seen) < 4:
            raise RetryLater(1)

    rig = Rig(app)
    await rig.submit(flaky)
    async with rig.working():
        await rig.happens(JobCompleted)
        rig.table.faults.clear()
    assert seen == [1, 1, 1, 1]
