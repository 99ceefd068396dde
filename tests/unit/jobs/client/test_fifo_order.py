"""A FIFO group keeps the order of its submissions, whichever entries of a batch SQS fails."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headgate import App, AsyncClient, Client, JobContext, NewJob, Priority, Unique
from headgate.jobs.core.batcher import Pacing
from headgate.jobs.core.events import JobCompleted
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.errors import PartlySubmitted, ServiceUnavailable, TransportError
from headgate.jobs.messages.envelope import parse
from headgate.jobs.testing import Harness, LoopClock, MemorySqs, MemoryTable
from tests.support.backends import async_over, over
from tests.support.clients import Kind, awaited
from tests.unit.workers.rig import Note, Rig

QUEUE = "bank-ledger-normal.fifo"


class Entry(BaseModel):
    """One line of an account's ledger; the account is its group."""

    account: str
    number: int
    text: str = ""


app = App("bank")
ledger = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])


@ledger.job("book", group_by=lambda entry: entry.account)
def book(_entry: Entry) -> None: ...


class Flaky:
    """An SQS that fails entries and whole calls at random, and loses answers."""

    def __init__(self, sqs: MemorySqs, rng: random.Random, *, harm: float) -> None:
        self.batches: list[list[str | None]] = []
        """The groups of each batch."""
        self._sqs = sqs
        self._rng = rng
        self._harm = harm

    def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        self.batches.append([message.group for message in messages])
        if self._rng.random() < self._harm / 4:
            if self._rng.random() < 0.5:
                self._sqs.send_now(queue, messages)
            raise ServiceUnavailable("connection reset")
        failed = [index for index in range(len(messages)) if self._rng.random() < self._harm]
        taken = [message for index, message in enumerate(messages) if index not in failed]
        assert not (taken and self._sqs.send_now(queue, taken))
        return [
            EntryFailure(
                index=index,
                code="InternalError",
                message="no",
                sender_fault=self._rng.random() < 0.2,
            )
            for index in failed
        ]


class AsyncFlaky(Flaky):
    """The asynchronous version; answers take a random time."""

    async def receive(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    delete = change_visibility = depth = receive

    async def send(  # type: ignore[override]  # awaited
        self, queue: str, messages: Sequence[OutgoingMessage]
    ) -> list[EntryFailure]:
        await asyncio.sleep(self._rng.random() / 10)
        try:
            return super().send(queue, messages)
        finally:
            await asyncio.sleep(self._rng.random() / 10)


def accepted(sqs: MemorySqs) -> list[Entry]:
    """Return the entries that SQS has, in the order of arrival."""
    return [Entry.model_validate(parse(each.body).payload) for each in sqs.messages(QUEUE)]


def entries(groups: Iterable[int]) -> list[Entry]:
    """Return one numbered entry for each of these accounts."""
    return [Entry(account=f"a-{group}", number=number) for number, group in enumerate(groups)]


def by_account(found: Iterable[Entry]) -> Mapping[str, list[int]]:
    """Return the numbers of each account's entries."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for entry in found:
        numbers[entry.account].append(entry.number)
    return numbers


def assert_in_order(sqs: MemorySqs) -> None:
    for numbers in by_account(accepted(sqs)).values():
        assert numbers == sorted(numbers)


def assert_none_after_a_refused_one(
    call: Sequence[Entry], error: PartlySubmitted | TransportError
) -> None:
    """Assert that nothing in a group was accepted behind one of the same call that was not."""
    if not isinstance(error, PartlySubmitted):
        return  # then none was accepted
    refused = {refusal.index for refusal in error.refusals}
    stopped = set()
    for index, entry in enumerate(call):
        if index in refused:
            stopped.add(entry.account)
        else:
            assert entry.account not in stopped


ACCOUNTS = st.lists(st.integers(0, 4), min_size=1, max_size=40)
HARM = st.sampled_from([0.0, 0.1, 0.3, 0.7])
SEEDS = st.integers(0, 2**32)


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - a test's own choices


@given(calls=st.lists(ACCOUNTS, max_size=4), harm=HARM, seed=SEEDS)
@pytest.mark.looptime
async def test_a_clients_batches_keep_each_groups_order(
    calls: list[list[int]], harm: float, seed: int
) -> None:
    sqs = MemorySqs(LoopClock())
    sqs.provision(app.topology)
    flaky = Flaky(sqs, seeded(seed), harm=harm)
    client = Client(app, backend=over(flaky, sleep=lambda _seconds: None))
    numbered = entries(account for call in calls for account in call)
    for groups in calls:
        call = [numbered.pop(0) for _ in groups]
        try:
            client.submit_many(book, call)
        except (PartlySubmitted, TransportError) as error:
            assert_none_after_a_refused_one(call, error)
    assert_in_order(sqs)
    assert all(len(set(batch)) == len(batch) for batch in flaky.batches)


@given(calls=st.lists(ACCOUNTS, max_size=6), harm=HARM, seed=SEEDS)
@pytest.mark.looptime
async def test_calls_that_overlap_share_batches_and_keep_each_groups_order(
    calls: list[list[int]], harm: float, seed: int
) -> None:
    sqs = MemorySqs(clock := LoopClock())
    sqs.provision(app.topology)
    flaky = AsyncFlaky(sqs, seeded(seed), harm=harm)
    numbered = entries(account for call in calls for account in call)
    async with AsyncClient(app, backend=async_over(flaky, clock=clock)) as client:

        async def submit(call: Sequence[Entry]) -> None:
            try:
                await client.submit_many(book, call)
            except (PartlySubmitted, TransportError) as error:
                assert_none_after_a_refused_one(call, error)

        async with asyncio.TaskGroup() as tasks:
            for groups in calls:
                tasks.create_task(submit([numbered.pop(0) for _ in groups]))
    assert_in_order(sqs)
    assert all(len(set(batch)) == len(batch) for batch in flaky.batches)


@given(accounts=ACCOUNTS, harm=HARM, seed=SEEDS)
@pytest.mark.looptime
async def test_unique_jobs_keep_their_order_though_the_table_answers_in_another(
    accounts: list[int], harm: float, seed: int
) -> None:
    sqs, rng = MemorySqs(clock := LoopClock()), seeded(seed)
    sqs.provision(app.topology)
    table = MemoryTable(clock)
    for _ in accounts:
        table.faults.slow_down("replace", rng.random())
    flaky = AsyncFlaky(sqs, rng, harm=harm)
    async with AsyncClient(app, backend=async_over(flaky, clock=clock, table=table)) as client:
        calls = [
            client.submit(book, entry, unique=Unique(within=timedelta(minutes=1)))
            for entry in entries(accounts)
        ]
        await asyncio.gather(*calls, return_exceptions=True)
    assert_in_order(sqs)


def _some_unique() -> list[NewJob[None]]:
    """Return the jobs of one account, of which each second is unique."""
    once = Unique(within=timedelta(minutes=1))
    given = entries([0] * 6)
    return [book.new(each, unique=once if each.number % 2 else None) for each in given]


async def test_in_one_call_unique_jobs_keep_their_place_among_the_others(kind: Kind) -> None:
    harness = Harness(app)
    client = awaited(harness.client) if kind == "Client" else harness.async_client
    await client.submit_many(_some_unique())
    assert [each.number for each in accepted(harness.sqs)] == [*range(6)]


async def test_in_one_call_none_overtakes_a_refused_one_of_its_group_unique_or_not(
    kind: Kind,
) -> None:
    harness = Harness(app)
    client = awaited(harness.client) if kind == "Client" else harness.async_client
    harness.sqs.faults.fail_entries("send", code="InvalidMessageContents", sender_fault=True)
    with pytest.raises(PartlySubmitted) as partly:
        await client.submit_many([*_some_unique(), book.new(Entry(account="other", number=6))])
    assert [each.number for each in accepted(harness.sqs)] == [6]
    codes = [each.code for each in partly.value.refusals]
    assert codes == ["InvalidMessageContents", *["HeldBack"] * 5]


@given(accounts=ACCOUNTS, harm=HARM, seed=SEEDS)
@pytest.mark.looptime
async def test_with_a_spool_calls_that_overlap_an_outage_keep_each_groups_order(
    accounts: list[int], harm: float, seed: int
) -> None:
    sqs = MemorySqs(clock := LoopClock())
    sqs.provision(app.topology)
    flaky = AsyncFlaky(sqs, seeded(seed), harm=harm)
    with TemporaryDirectory() as directory:
        client = AsyncClient(
            app,
            spool=Path(directory) / "s",
            backend=async_over(flaky, clock=clock, pacing=Pacing(tries=1)),
        )
        async with client:
            calls = [client.submit(book, entry) for entry in entries(accounts)]
            await asyncio.gather(*calls, return_exceptions=True)
    assert_in_order(sqs)


@pytest.mark.looptime
async def test_what_a_handler_submits_without_awaiting_it_keeps_its_order() -> None:
    bank = App("bank")
    queue = bank.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    post = queue.define("book", Entry, group_by=lambda entry: entry.account)

    @post.handler
    async def _post(_entry: Entry) -> None: ...

    @bank.job("close-the-day")
    async def close(_note: Note, ctx: JobContext) -> None:
        for number in range(20):
            _ = ctx.submit(post, Entry(account="a", number=number))

    rig = Rig(bank)
    rig.sqs.faults.fail_entries("send", queue=QUEUE, times=3, indexes=[0])
    await rig.submit(close)
    async with rig.working(queues=["jobs"]):
        await rig.happens(JobCompleted)
    assert [entry.number for entry in accepted(rig.sqs)] == [*range(20)]


@pytest.mark.looptime
async def test_an_inline_job_can_submit_to_its_own_group_without_deadlock() -> None:
    bank = App("bank")
    queue = bank.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    ran: list[int] = []

    @queue.job("book", group_by=lambda entry: entry.account)
    async def post(entry: Entry, ctx: JobContext) -> None:
        ran.append(entry.number)
        if entry.number < 10:
            await ctx.submit(post, Entry(account=entry.account, number=entry.number + 10))

    sqs = MemorySqs(LoopClock())
    sqs.provision(bank.topology)
    sqs.faults.raise_on("send", ServiceUnavailable("down"), times=100)
    async with AsyncClient(bank, fallback="inline", backend=async_over(sqs)) as client:
        async with asyncio.timeout(60):
            await client.submit_many(post, [Entry(account="a", number=n) for n in range(3)])
    assert [number for number in ran if number < 10] == [0, 1, 2]
    assert sorted(ran) == [0, 1, 2, 10, 11, 12]


@pytest.mark.looptime
async def test_an_inline_job_can_submit_to_its_own_group_by_the_client_that_runs_it() -> None:
    bank = App("bank")
    queue = bank.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    ran: list[int] = []

    @queue.job("book", group_by=lambda entry: entry.account)
    async def post(entry: Entry) -> None:
        ran.append(entry.number)
        if entry.number == 0:
            await client.submit(post, Entry(account=entry.account, number=1))

    sqs = MemorySqs(LoopClock())
    sqs.provision(bank.topology)
    sqs.faults.raise_on("send", ServiceUnavailable("down"), times=100)
    async with AsyncClient(bank, fallback="inline", backend=async_over(sqs)) as client:
        async with asyncio.timeout(60):
            await client.submit(post, Entry(account="a", number=0))
    assert ran == [0, 1]


def test_what_an_inline_handler_submits_in_plain_code_keeps_its_order() -> None:
    bank = App("bank")
    queue = bank.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    ran: list[int] = []

    @queue.job("book", group_by=lambda entry: entry.account)
    async def post(entry: Entry, ctx: JobContext) -> None:
        ran.append(entry.number)
        if entry.number == 0:
            for number in range(1, 20):
                _ = ctx.submit(post, Entry(account=entry.account, number=number))

    class Down:
        def send(self, _queue: str, _messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
            raise ServiceUnavailable("down")

    client = Client(bank, fallback="inline", backend=over(Down(), sleep=lambda _seconds: None))
    client.submit(post, Entry(account="a", number=0))
    assert ran == [*range(20)]


@pytest.mark.looptime
async def test_groups_share_requests_though_a_batch_has_one_of_each() -> None:
    sqs = MemorySqs(clock := LoopClock())
    sqs.provision(app.topology)
    flaky, async_flaky = Flaky(sqs, seeded(1), harm=0), AsyncFlaky(sqs, seeded(1), harm=0)
    submitted = entries(number % 11 for number in range(110))
    Client(app, backend=over(flaky)).submit_many(book, submitted)
    async with AsyncClient(app, backend=async_over(async_flaky, clock=clock)) as client:
        await client.submit_many(book, submitted)
    assert [len(batch) for batch in flaky.batches] == [10] * 11
    assert len(async_flaky.batches) <= 30


async def test_a_small_job_does_not_overtake_a_large_one_that_a_thread_checks() -> None:
    sqs = MemorySqs(LoopClock())
    sqs.provision(app.topology)
    sizes = [100_000, 0, 70_000, 0]
    calls = [Entry(account="a", number=at, text="y" * size) for at, size in enumerate(sizes)]
    async with AsyncClient(app, backend=async_over(sqs, clock=LoopClock())) as client:
        await asyncio.gather(*(client.submit(book, call) for call in calls))
    assert accepted(sqs) == calls
