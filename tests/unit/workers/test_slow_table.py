"""A table that hangs, fails or is away: jobs go on, and no verdict rests on missing knowledge."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from headgate import Backoff, JobContext, Retry, RetryLater
from headgate.jobs.core.events import (
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobFailed,
    JobQuarantined,
    JobRetryScheduled,
    JobStarted,
)
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.records.items import Mark, partition
from tests.unit.workers.rig import DEAD_MAIL, Gate, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

FOR_EVER = 10**6
HUNG_S = 3600.0


def hang(rig: Rig) -> None:
    """Make the table answer nothing."""
    rig.table.faults.slow_down(None, HUNG_S, times=FOR_EVER)


async def marks(rig: Rig, job_id: str) -> list[str]:
    rig.table.faults.clear()
    rig.table.missing = False
    return [item.sk.rpartition("#")[2] for item in await rig.table.query(partition(job_id))]


async def test_a_retry_after_a_second_comes_within_about_two_more() -> None:
    app, mail = one_lane(Retry(max_attempts=5, backoff=Backoff.fixed(1)))

    @mail.job("fail")
    async def fail(_note: Note) -> None:
        raise ConnectionError("down")

    rig = Rig(app)
    await rig.submit(fail)
    hang(rig)
    async with rig.working():
        starts = [event.at for event in await rig.happens(JobStarted, 4)]
        waits = [(later - earlier).total_seconds() for earlier, later in pairwise(starts)]
        assert waits[0] <= 1 + 2
        assert max(waits[1:]) <= 1 + 1
        rig.table.faults.clear()


async def test_a_worker_that_stops_leaves_no_message_hidden() -> None:
    app, mail = one_lane(visibility_s=600)
    gate = Gate()
    slow = mail.define("slow", Note)
    slow.handler(gate.__call__)
    rig = Rig(app)
    await rig.submit(slow, *map(str, range(20)))
    async with rig.working(concurrency=5, drain=timedelta(0)) as worker:
        await gate.reached(5)
        hang(rig)
        began = rig.clock.monotonic()
        worker.stop()
        while rig.in_flight():
            await asyncio.sleep(0.1)
            assert rig.clock.monotonic() - began < 5
    assert rig.remaining() == 20
    assert rig.in_flight() == 0


async def test_what_could_not_be_written_is_written_once_the_table_answers() -> None:
    app, mail = one_lane(Retry(max_attempts=5, backoff=Backoff.fixed(1)))

    @mail.job("fail")
    async def fail(_note: Note) -> None:
        raise ConnectionError("down")

    rig = Rig(app)
    [job_id] = await rig.submit(fail)
    rig.table.faults.raise_on(None, ServiceUnavailable("away"), times=FOR_EVER)
    async with rig.working():
        await rig.happens(JobRetryScheduled, 3)
        rig.table.faults.clear()
        await rig.happens(JobDeadLettered)
    assert (await marks(rig, job_id)).count(Mark.FAILED) == 5
    assert len(rig.heard(JobFailed)) == 5, "and the attempts are counted right"
    assert rig.heard(JobCrashed) == []


async def test_deliveries_alone_never_spend_the_attempts_of_a_job() -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(1)))
    ready = False

    @mail.job("poll")
    async def poll(_note: Note) -> None:
        if not ready:
            raise RetryLater(timedelta(seconds=5), "not ready")

    rig = Rig(app)
    [job_id] = await rig.submit(poll)
    async with rig.working():
        await rig.happens(JobDeferred, 5)
        rig.table.missing = True
        ready = True
        deferred = await rig.happens(JobDeferred, 10)
        assert rig.heard(JobCompleted) == []
        rig.table.missing = False
        await rig.happens(JobCompleted)
    waits = [event.delay_s for event in deferred if event.reason == "its records can't be read"]
    assert len(waits) >= 3
    assert max(waits) <= 300
    assert [event.job_id for event in rig.heard(JobCompleted)] == [job_id]
    assert rig.heard(JobDeadLettered) == []


async def test_a_possibly_last_failure_is_not_dead_lettered_without_records() -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(1)))
    seen: list[int] = []

    @mail.job("fail")
    async def fail(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        raise ConnectionError("down")

    rig = Rig(app)
    [job_id] = await rig.submit(fail)
    rig.table.faults.raise_on(None, ServiceUnavailable("away"), times=FOR_EVER)
    async with rig.working():
        await rig.happens(JobRetryScheduled, 2)
        await rig.happens(JobDeferred, 3)
        assert rig.heard(JobDeadLettered) == []
        rig.table.faults.clear()
        [dead] = await rig.happens(JobDeadLettered)
    assert seen == [1, 2], "the attempts were spent, and are not made again"
    assert (dead.job_id, dead.reason, dead.attempt) == (job_id, "attempts-exhausted", 2)
    assert (dead.error_type, dead.error_message) == ("ConnectionError", "down")


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ConnectionError("down"), "attempts-exhausted"), (KeyError("id"), "permanent-error")],
)
async def test_attempts_that_are_spent_are_not_made_again_after_a_restart(
    error: Exception, reason: str
) -> None:
    app, mail = one_lane(
        Retry(max_attempts=2, backoff=Backoff.fixed(1), never_on=(KeyError,)), visibility_s=30
    )
    runs = 0

    @mail.job("fail")
    async def fail(_note: Note) -> None:
        nonlocal runs
        runs += 1
        raise error

    rig = Rig(app)
    await rig.submit(fail)
    rig.sqs.faults.raise_on("send", ServiceUnavailable("no dead letters now"), times=FOR_EVER)
    made = 2 if reason == "attempts-exhausted" else 1
    async with rig.working(drain=timedelta(0)):
        await rig.happens(JobFailed, made)
        await asyncio.sleep(60)
    assert rig.remaining() == 1
    rig.sqs.faults.clear()
    async with rig.working():
        [dead] = await rig.happens(JobDeadLettered)
    assert runs == made
    assert (dead.reason, dead.attempt, dead.error_type) == (reason, made, type(error).__name__)
    assert len(rig.sqs.messages(DEAD_MAIL)) == 1
    assert rig.heard(JobQuarantined) == []


async def test_a_job_that_runs_for_a_second_is_said_to_run() -> None:
    app, mail = one_lane()
    gate = Gate()
    slow = mail.define("slow", Note)
    slow.handler(gate.__call__)
    rig = Rig(app)
    [job_id] = await rig.submit(slow, "a")
    async with rig.working():
        await gate.reached(1)
        [began] = await rig.happens(JobStarted)
        await asyncio.sleep(0.9)
        assert await marks(rig, job_id) == []
        await asyncio.sleep(0.4)
        [started] = await rig.table.query(partition(job_id))
        assert started.sk.endswith(f"#{Mark.STARTED}")
        began_at = datetime.fromisoformat(started.data["at"])
        assert abs(began_at - began.at) < timedelta(seconds=0.1)
        gate.open("a")
        await rig.happens(JobCompleted)
