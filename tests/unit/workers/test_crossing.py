"""Jobs that a type accepts from another queue, alongside that queue's own."""

from __future__ import annotations

import asyncio

import pytest

from headgate import App, Concurrency, JobContext, Priority, Retry
from headgate.jobs.core.events import JobCompleted, JobDeadLettered, JobStarted
from headgate.jobs.core.ports.transport import OutgoingMessage
from tests.unit.workers.rig import Gate, Note, Rig

pytestmark = pytest.mark.looptime

UPLOADS, DEAD_UPLOADS = "shop-uploads-normal", "shop-uploads-normal-dlq"


async def _cross(rig: Rig, job_type: str, *texts: str) -> None:
    """Put jobs of a type into ``uploads``, as its sender does."""
    await rig.submit(rig.app.types[job_type], *texts)
    home = rig.app.types[job_type].queue
    for message in await rig.sqs.receive(f"shop-{home}-normal", limit=10, wait_s=0):
        await rig.sqs.send(
            UPLOADS, [OutgoingMessage(body=message.body, attributes=message.attributes)]
        )
        await rig.sqs.delete(f"shop-{home}-normal", [message.receipt])


async def test_a_limit_of_the_queue_it_came_through_is_not_the_job_s() -> None:
    gate, app = Gate(), App("shop")
    priorities = [Priority.NORMAL]
    uploads = app.queue("uploads", priorities=priorities, concurrency=Concurrency(1))
    payments = app.queue("payments", priorities=priorities)
    uploads.job("thumbnail")(gate.__call__)

    @payments.job("capture", accepts_from=["uploads"])
    async def capture(_note: Note) -> None: ...

    rig = Rig(app)
    await rig.submit(app.types["thumbnail"], "a", "b", "c")
    async with rig.working(queues=["uploads"]):
        await gate.reached(1)
        await _cross(rig, "capture", "x")
        began = rig.clock.monotonic()
        await rig.happens(JobCompleted)
        assert rig.clock.monotonic() - began < 30
        assert gate.started == ["a"]
        gate.open("a", "b", "c")
        await rig.happens(JobCompleted, 4)


async def test_a_limit_of_its_own_group_holds_wherever_it_comes_from() -> None:
    gate, app = Gate(), App("shop")
    priorities = [Priority.NORMAL]
    app.queue("uploads", priorities=priorities).job("thumbnail")(gate.__call__)
    payments = app.queue("payments", priorities=priorities, concurrency=Concurrency(1))
    payments.job("capture", accepts_from=["uploads"])(gate.__call__)
    rig = Rig(app)
    await _cross(rig, "capture", "x", "y")
    await rig.submit(app.types["capture"], "z")
    async with rig.working():
        await gate.reached(1)
        await rig.submit(app.types["thumbnail"], "a")
        await gate.reached(2)
        assert gate.started[1] == "a"
        gate.open("a", "x", "y", "z")
        await rig.happens(JobCompleted, 4)
    running = 0
    for event in rig.events:
        if isinstance(event, JobStarted | JobCompleted) and event.job_type == "capture":
            running += 1 if isinstance(event, JobStarted) else -1
            assert running <= 1


async def test_it_dies_where_it_came_from_and_by_the_policy_of_its_type() -> None:
    app = App("shop")
    priorities = [Priority.NORMAL]
    app.queue("uploads", priorities=priorities)
    attempts: list[int] = []

    @app.queue("payments", priorities=priorities, retry=Retry(max_attempts=2)).job(
        "capture", accepts_from=["uploads"]
    )
    async def capture(_note: Note, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        raise ConnectionError

    rig = Rig(app)
    await _cross(rig, "capture", "x")
    async with rig.working(queues=["uploads"]):
        [dead] = await rig.happens(JobDeadLettered)
    assert attempts == [1, 2]
    assert (dead.queue, dead.reason) == ("uploads", "attempts-exhausted")
    assert len(rig.sqs.messages(DEAD_UPLOADS)) == 1


async def test_a_worker_of_its_own_queue_alone_leaves_the_other_to_others() -> None:
    app = App("shop")
    priorities = [Priority.NORMAL]
    app.queue("uploads", priorities=priorities)

    @app.queue("payments", priorities=priorities).job("capture", accepts_from=["uploads"])
    async def capture(_note: Note) -> None: ...

    rig = Rig(app)
    await _cross(rig, "capture", "x")
    async with rig.working(queues=["payments"]):
        await asyncio.sleep(60)
    assert len(rig.sqs.messages(UPLOADS)) == 1
