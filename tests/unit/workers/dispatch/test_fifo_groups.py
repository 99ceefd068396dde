"""FIFO groups at the worker: one at a time, in order, and a failing one blocks only its own."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import timedelta

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Backoff, JobContext, Priority, Retry
from headgate.jobs.core.events import JobCancelled, JobCompleted, JobDeadLettered, JobStarted
from headgate.jobs.definitions.job_type import JobType
from tests.unit.workers.rig import Rig


class Entry(BaseModel):
    """One entry of an account's ledger."""

    account: str
    number: int


class Ledger:
    """A record of handlers' runs, and the maximum concurrency per account."""

    def __init__(self) -> None:
        self.done: defaultdict[str, list[int]] = defaultdict(list)
        self.most_at_once: defaultdict[str, int] = defaultdict(int)
        self.failures: dict[tuple[str, int], int] = {}
        """Number of times that an entry fails before it succeeds."""
        self.takes_s = 1.0
        self._running: defaultdict[str, int] = defaultdict(int)

    async def __call__(self, entry: Entry) -> None:
        account = entry.account
        self._running[account] += 1
        self.most_at_once[account] = max(self.most_at_once[account], self._running[account])
        try:
            await asyncio.sleep(self.takes_s)
            if self.failures.get((account, entry.number), 0) > 0:
                self.failures[account, entry.number] -= 1
                raise ConnectionError("the ledger is away")
            self.done[account].append(entry.number)
        finally:
            self._running[account] -= 1


def _books(retry: Retry | None = None) -> tuple[Rig, Ledger, JobType[Entry, None]]:
    app = App("shop")
    ledger = Ledger()
    books = app.queue(
        "books",
        priorities=[Priority.NORMAL],
        fifo=True,
        retry=retry or Retry(max_attempts=20, backoff=Backoff.fixed(60)),
    )

    @books.job("post", group_by=lambda entry: entry.account)
    async def post(entry: Entry, ctx: JobContext) -> None:
        del ctx
        await ledger(entry)

    return Rig(app), ledger, post


async def _post(rig: Rig, job: JobType[Entry, None], account: str, count: int) -> None:
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        entries = [Entry(account=account, number=number) for number in range(count)]
        await client.submit_many(job, entries)


@pytest.mark.looptime
async def test_a_group_runs_one_at_a_time_in_order_and_groups_run_beside_each_other() -> None:
    rig, ledger, post = _books()
    for account in "abc":
        await _post(rig, post, account, 25)
    async with rig.working(concurrency=10):
        began = rig.clock.monotonic()
        await rig.happens(JobCompleted, 75)
        took_s = rig.clock.monotonic() - began
    assert dict(ledger.done) == {account: [*range(25)] for account in "abc"}
    assert set(ledger.most_at_once.values()) == {1}
    assert took_s < 60, "75 s of work in three groups that run beside each other"
    assert rig.remaining() == 0


@pytest.mark.looptime
async def test_a_failing_job_blocks_its_group_until_it_succeeds_and_no_other_group() -> None:
    rig, ledger, post = _books()
    ledger.failures["a", 3] = 2
    for account in "ab":
        await _post(rig, post, account, 12)
    async with rig.working(concurrency=10):
        began = rig.clock.monotonic()
        await rig.happens(JobCompleted, 3 + 12)
        assert ledger.done["b"] == [*range(12)]
        assert ledger.done["a"] == [0, 1, 2]
        await rig.happens(JobCompleted, 24)
        took_s = rig.clock.monotonic() - began
    assert ledger.done["a"] == [*range(12)]
    assert ledger.most_at_once["a"] == 1
    assert took_s < 2 * 60 + 12 + 30, "those behind it come right after it"
    assert rig.remaining() == 0


@pytest.mark.looptime
async def test_a_job_that_is_given_up_lets_the_next_of_its_group_go_on() -> None:
    rig, ledger, post = _books(Retry(max_attempts=1))
    ledger.failures["a", 1] = 99
    await _post(rig, post, "a", 5)
    async with rig.working(concurrency=10):
        await rig.happens(JobCompleted, 4)
    assert ledger.done["a"] == [0, 2, 3, 4]
    assert len(rig.heard(JobDeadLettered)) == 1
    assert len(rig.sqs.messages("shop-books-normal-dlq.fifo")) == 1


@pytest.mark.looptime
async def test_a_worker_that_stops_gives_the_rest_of_a_group_back_in_order() -> None:
    rig, ledger, post = _books()
    await _post(rig, post, "a", 10)
    async with rig.working(concurrency=10):
        await rig.happens(JobStarted, 3)
    assert ledger.done["a"] == [0, 1, 2]
    assert rig.in_flight() == 0
    async with rig.working(concurrency=10):
        await rig.happens(JobCompleted, 10)
    assert ledger.done["a"] == [*range(10)]


@pytest.mark.looptime
async def test_a_slow_group_keeps_no_other_groups_messages_from_being_received() -> None:
    rig, ledger, post = _books()
    ledger.takes_s = 600
    await _post(rig, post, "slow", 10)
    async with rig.working(concurrency=10, give_back_after=timedelta(seconds=5)):
        await rig.happens(JobStarted, 1)
        await asyncio.sleep(60)
        ledger.takes_s = 1
        await _post(rig, post, "quick", 5)
        await rig.happens(JobCompleted, 5)
        assert ledger.done["quick"] == [*range(5)]
        assert ledger.done["slow"] == []
        await rig.happens(JobCompleted, 15)
    assert ledger.done["slow"] == [*range(10)]
    assert max(event.attempt for event in rig.heard(JobStarted)) == 1, "none was handed round"


@pytest.mark.looptime
async def test_a_cancelled_job_that_waits_in_its_group_lets_those_after_it_go_on() -> None:
    rig, ledger, post = _books()
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        entries = [Entry(account="a", number=number) for number in range(4)]
        handles = await client.submit_many(post, entries)
        ledger.takes_s = 60
        async with rig.working(concurrency=10):
            await rig.happens(JobStarted)
            await handles[1].cancel()
            await rig.happens(JobCancelled)
            await rig.happens(JobCompleted, 3)
    assert ledger.done["a"] == [0, 2, 3]
    assert len(rig.heard(JobCancelled)) == 1
    assert rig.remaining() == 0
