"""Jobs that wait for a limit, a breaker, a child process, a budget or a group all end well.

However often they are received and given back meanwhile, none is dead-lettered, declared crashed or
quarantined, and none loses an attempt.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from headgate import (
    App,
    AsyncClient,
    Backoff,
    Breaker,
    Concurrency,
    JobContext,
    Priority,
    RateLimit,
    Retry,
    RetryBudget,
)
from headgate.jobs.core.events import BreakerOpened, JobCompleted, JobCrashed, JobStarted
from headgate.jobs.definitions.queue import Queue
from headgate.jobs.execution.delivery import Job
from tests.unit.workers.rig import LIMIT_S, Note, Rig, lanes, without_threads

pytestmark = without_threads

VISIBILITY_S = 60


def shared_queue() -> tuple[App, Queue]:
    """Return an app with one queue, and a type there that nothing ever holds back.

    Without it the worker would not even receive jobs that it couldn't run.
    """
    app = App("shop")
    lane = lanes(VISIBILITY_S)[Priority.NORMAL]
    queue = app.queue("mail", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lane})

    @queue.job("send-email")
    async def send_email(_note: Note) -> None: ...

    return app, queue


async def all_end_well(rig: Rig, jobs: int, attempts: Sequence[int]) -> None:
    """Wait until all jobs have left their queues, and check that as many have completed."""
    async with asyncio.timeout(LIMIT_S):
        while rig.remaining():  # noqa: ASYNC110 - SQS's redrive is no event
            await asyncio.sleep(10)
    became = Counter(
        completed=len(rig.heard(JobCompleted)),
        dead=sum(len(rig.sqs.messages(spec.dlq_name)) for spec in rig.app.topology.queues),
        quarantined=len(rig.sqs.messages(rig.app.topology.quarantine_name)),
        crashes=len(rig.heard(JobCrashed)),
    )
    assert +became == {"completed": jobs}
    assert {event.attempt for event in rig.heard(JobStarted)} == set(attempts)


async def test_ten_reports_of_ten_minutes_on_two_children_beside_email(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, queue = shared_queue()

    @queue.job("report", isolation="process")
    async def report(_note: Note) -> None:
        await asyncio.sleep(600)

    monkeypatch.setattr("headgate.workers.parts.app_path", lambda _app: "shop:app")
    monkeypatch.setattr("headgate.workers.parts.ChildPool", Children)
    rig = Rig(app)
    await rig.submit(report, *map(str, range(10)))
    async with rig.working(children=2):
        await all_end_well(rig, 10, attempts=(1,))


class Children:
    """A pool that runs handlers without processes, whose time would not be virtual."""

    def __init__(self, _app_path: str, *, size: int, **_options: object) -> None:
        self.capacity = size

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def call(self, job: Job, _body: str, _ctx: JobContext) -> None:
        """Run the handler."""
        await job.handler.function(job.payload)


async def test_six_jobs_one_at_a_time() -> None:
    app, queue = shared_queue()

    @queue.job("sync", concurrency=Concurrency(1))
    async def sync(_note: Note) -> None:
        await asyncio.sleep(600)

    rig = Rig(app)
    await rig.submit(sync, *map(str, range(6)))
    async with rig.working():
        await all_end_well(rig, 6, attempts=(1,))


async def test_forty_jobs_one_every_five_minutes() -> None:
    app, queue = shared_queue()

    @queue.job("crawl", rate_limit=RateLimit(1, per=timedelta(minutes=5)))
    async def crawl(_note: Note) -> None: ...

    rig = Rig(app)
    await rig.submit(crawl, *map(str, range(40)))
    async with rig.working():
        await all_end_well(rig, 40, attempts=(1,))


async def test_forty_jobs_of_one_tenant_two_at_a_time() -> None:
    app, queue = shared_queue()

    @queue.job("import", concurrency=Concurrency(2, key="tenant"))
    async def import_(_note: Note) -> None:
        await asyncio.sleep(180)

    rig = Rig(app)
    async with AsyncClient(app, backend=rig.backend) as client:
        await client.submit_many(import_, [Note()] * 40, tenant="org-1")
    async with rig.working():
        await all_end_well(rig, 40, attempts=(1,))


async def test_thirty_jobs_behind_a_breaker_that_is_open_for_two_hours() -> None:
    app, queue = shared_queue()
    down = True

    @queue.job(
        "capture",
        retry=Retry(max_attempts=3, backoff=Backoff.fixed(1)),
        breaker=Breaker(0.5, min_runs=4, open_for=timedelta(hours=2)),
    )
    async def capture(_note: Note) -> None:
        if down:
            raise ConnectionError("down")

    rig = Rig(app)
    await rig.submit(capture, *map(str, range(30)))
    async with rig.working(concurrency=4):
        await rig.happens(BreakerOpened)
        down = False
        await all_end_well(rig, 30, attempts=(1, 2))


async def test_retries_that_wait_for_their_budget() -> None:
    app, queue = shared_queue()
    failed: Counter[str] = Counter()

    @queue.job(
        "notify",
        retry=Retry(max_attempts=2, backoff=Backoff.fixed(1)),
        retry_budget=RetryBudget(1, per=timedelta(minutes=5), on_exhausted="wait"),
    )
    async def notify(_note: Note, ctx: JobContext) -> None:
        failed[ctx.id] += 1
        if failed[ctx.id] == 1:
            raise ConnectionError("down")

    rig = Rig(app)
    await rig.submit(notify, *map(str, range(20)))
    async with rig.working():
        await all_end_well(rig, 20, attempts=(1, 2))


async def test_a_fifo_group_of_ten_jobs_that_fail_often() -> None:
    app = App("shop")
    orders = app.queue("orders", fifo=True, priorities=[Priority.NORMAL])
    failed: Counter[str] = Counter()
    done: list[str] = []

    @orders.job("ship", retry=Retry(max_attempts=4, backoff=Backoff.fixed(1)))
    async def ship(note: Note) -> None:
        failed[note.text] += 1
        if failed[note.text] < 4:
            raise ConnectionError("down")
        done.append(note.text)

    rig = Rig(app)
    texts = [str(number) for number in range(10)]
    await rig.submit(ship, *texts, group="order-1")
    async with rig.working():
        await all_end_well(rig, 10, attempts=(1, 2, 3, 4))
    assert done == texts
