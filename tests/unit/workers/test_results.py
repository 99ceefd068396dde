"""From a submission to its result, through a worker and the app's table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Backoff, Discard, JobContext, JobState, Retry
from headgate.jobs.core.events import JobRetryScheduled, JobStarted
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.core.topology import Priority
from headgate.jobs.definitions.queue import Queue
from headgate.jobs.errors import JobDead, JobDiscarded, ResultTimeout
from headgate.jobs.records.items import Mark
from headgate.jobs.records.lives import Life, life_item
from tests.support.records import mark
from tests.unit.workers.rig import Note, Rig

pytestmark = pytest.mark.looptime


class Receipt(BaseModel):
    number: int


def mailing(records: RecordsLevel = "outcomes") -> tuple[App, Queue]:
    app = App("shop", records=records)
    retry = Retry(max_attempts=2, backoff=Backoff.fixed(60))
    return app, app.queue("mail", priorities=[Priority.NORMAL], retry=retry)


@asynccontextmanager
async def client_of(rig: Rig) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        yield client


async def test_what_a_handler_returned_comes_back_to_its_submitter() -> None:
    app, mail = mailing()

    @mail.job("send")
    async def send(note: Note) -> Receipt:
        await asyncio.sleep(3)
        return Receipt(number=len(note.text))

    rig = Rig(app)
    async with rig.working(), client_of(rig) as client:
        jobs = await client.submit_many(send, [Note(text="x" * size) for size in range(5)])
        results = await asyncio.gather(*(job.result(timeout=30) for job in jobs))
        history = await jobs[0].history()
    assert results == [Receipt(number=size) for size in range(5)]
    [attempt] = history.attempts
    assert (attempt.number, attempt.outcome) == (1, Mark.COMPLETED)
    assert attempt.ran_s == pytest.approx(3, abs=0.1)
    assert (history.type, history.queue) == ("send", "mail")


class Open(dict[str, Any]):
    """A dictionary whose items are attributes too, and hide its methods."""

    def __init__(self, **items: Any) -> None:
        super().__init__(items)
        self.__dict__.update(items)


class Uncounted(list[Any]):
    def __len__(self) -> int:
        raise RuntimeError("not yet")


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize(
    "result",
    [Open(values=[1, 2]), Uncounted([1]), 10**5_000],
    ids=lambda result: type(result).__name__,
)
async def test_a_job_is_over_whatever_its_handler_returns(result: object, once: bool) -> None:
    app, mail = mailing()

    @mail.job("send", once=once)
    async def send(_note: Note) -> Any:
        return result

    rig = Rig(app)
    await rig.submit(send)
    async with rig.working():
        await asyncio.sleep(120)
    assert len(rig.heard(JobStarted)) == 1
    assert rig.remaining() == 0


async def test_a_job_is_followed_from_its_start_through_a_retry_to_its_end() -> None:
    app, mail = mailing("full")
    go_on = asyncio.Event()

    @mail.job("send")
    async def send(_note: Note, ctx: JobContext) -> None:
        await ctx.progress(40, "packing", boxes=2)
        await go_on.wait()
        if ctx.attempt == 1:
            raise ConnectionError("refused")

    rig = Rig(app)
    async with client_of(rig) as client:
        job = await client.submit(send, Note(), tenant="org-1")
        await asyncio.sleep(1)  # the submission is written concurrently
        assert await job.state() is JobState.WAITING
        async with rig.working():
            await rig.happens(JobStarted)
            await asyncio.sleep(2)
            assert await job.state() is JobState.RUNNING
            progress = await job.progress()
            go_on.set()
            await rig.happens(JobRetryScheduled)
            retrying = await job.state()
            assert await job.wait(timeout=120) is JobState.COMPLETED
            await job.result()
        history = await job.history()
    assert progress is not None
    assert (progress.percent, progress.note, progress.data) == (40, "packing", {"boxes": 2})
    assert retrying is JobState.RETRYING
    assert history.tenant is not None
    assert history.tenant.org == "org-1"
    first, second = history.attempts
    assert (first.outcome, first.error_type) == (Mark.FAILED, "ConnectionError")
    assert (first.error_message, first.retry_in_s) == ("refused", 60)
    assert "refused" in first.traceback
    assert (second.number, second.outcome) == (2, Mark.COMPLETED)
    assert first.worker == second.worker != ""


async def test_a_delayed_job_is_delayed_until_it_starts() -> None:
    app, mail = mailing("full")

    @mail.job("send")
    async def send(_note: Note) -> None: ...

    rig = Rig(app)
    async with rig.working(), client_of(rig) as client:
        job = await client.submit(send, Note(), delay=timedelta(minutes=5))
        with pytest.raises(ResultTimeout, match="its state is delayed"):
            await job.wait(timeout=60)
        assert await job.wait(timeout=600) is JobState.COMPLETED


async def test_a_dead_job_says_to_who_waits_what_it_died_of() -> None:
    app, mail = mailing()

    @mail.job("send")
    async def send(_note: Note) -> None:
        raise ConnectionError("refused")

    rig = Rig(app)
    async with rig.working(), client_of(rig) as client:
        job = await client.submit(send, Note())
        with pytest.raises(JobDead, match="refused") as raised:
            await job.result(timeout=600)
    dead = raised.value
    assert (dead.reason, dead.error_type) == ("attempts-exhausted", "ConnectionError")


async def test_a_discarded_job_has_no_result() -> None:
    app, mail = mailing()

    @mail.job("send")
    async def send(_note: Note) -> Receipt:
        raise Discard("stale")

    rig = Rig(app)
    async with rig.working(), client_of(rig) as client:
        job = await client.submit(send, Note())
        with pytest.raises(JobDiscarded, match="stale"):
            await job.result(timeout=600)


async def test_a_job_that_killed_its_workers_is_dead_to_who_waits() -> None:
    app = App("shop", records="outcomes")
    retry = Retry(max_attempts=3, backoff=Backoff.fixed(1))
    mail = app.queue("mail", priorities=[Priority.NORMAL], retry=retry)

    @mail.job("send-email")
    async def send(_note: Note) -> None: ...

    rig = Rig(app)
    async with client_of(rig) as client:
        job = await client.submit(send, Note())
        [spec] = app.topology.queues
        dead = Life(name="worker-1", beat=1, groups=frozenset({"mail"}), at=rig.clock.now())
        await rig.table.put([life_item(dead)])
        for _ in range(app.crash_limit.crashes):  # deliveries that kill its worker
            [message] = await rig.sqs.receive(spec.name, limit=1, wait_s=20)
            started = mark(
                job.id, message.message_id, message.receive_count, Mark.STARTED, rig.clock.now()
            )
            await rig.table.put([started])
            await asyncio.sleep(spec.visibility_s + 0.1)
        async with rig.working():
            with pytest.raises(JobDead, match="ended with their worker") as raised:
                await job.result(timeout=600)
        assert raised.value.reason == "quarantined"
        assert await job.state() is JobState.QUARANTINED
