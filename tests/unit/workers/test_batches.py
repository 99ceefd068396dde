"""Batch handlers at a worker: one call for several jobs, each of which keeps its own life."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

from headgate import (
    App,
    AsyncClient,
    Backoff,
    Batch,
    BatchContext,
    Breaker,
    Concurrency,
    Discard,
    JobContext,
    Priority,
    RateLimit,
    Retry,
    RetryBudget,
    RetryLater,
)
from headgate.errors import Stopped
from headgate.jobs.core.events import (
    JobCancelled,
    JobCompleted,
    JobDeadLettered,
    JobDeferred,
    JobDiscarded,
    JobFailed,
    JobInterrupted,
    JobProgress,
    JobRetryScheduled,
    JobStalled,
    JobStarted,
    PollReceived,
    SettlementFailed,
)
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.definitions.queue import Queue
from headgate.jobs.testing import MessageState
from tests.unit.workers.rig import LIMIT_S, MAIL, Gate, Note, Rig, one_lane
from tests.unit.workers.running.test_cancelling import cancel

pytestmark = pytest.mark.looptime

SOON = Retry(max_attempts=3, backoff=Backoff.fixed(1))
WAIT_S = 2.0


def texts_of(items: list[Note]) -> list[str]:
    return sorted(item.text for item in items)


def now() -> float:
    return asyncio.get_running_loop().time()


class Session:
    """A resource of each call."""


class Calls:
    """The items of each call, and the time of its start."""

    def __init__(self) -> None:
        self.texts: list[list[str]] = []
        self.at: list[float] = []

    def add(self, items: list[Note]) -> None:
        self.texts.append(texts_of(items))
        self.at.append(now())


async def received(rig: Rig, count: int) -> None:
    """Wait until the worker has received that many messages."""
    times = 1
    while sum(each.messages for each in await rig.happens(PollReceived, times)) < count:
        times += 1


async def results_of(rig: Rig, ids: list[str]) -> list[object]:
    """Return the recorded results of jobs, once the worker has ended."""
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        return [await client.handle(each).result() for each in ids]


def batching(queue: Queue, batch: Batch, **options: Any) -> Calls:
    """Declare the type ``embed``, whose calls are recorded."""
    calls = Calls()

    @queue.job("embed", batch=batch, **options)
    async def embed(items: list[Note], _ctx: BatchContext) -> None:
        calls.add(items)

    return calls


async def test_jobs_submitted_one_by_one_run_in_one_call_each_with_its_own_result() -> None:
    app, mail = one_lane()
    seen: list[tuple[list[str], list[int]]] = []

    @mail.job("embed", batch=Batch(5, wait=WAIT_S))
    async def embed(items: list[Note], ctx: BatchContext) -> list[str]:
        seen.append((texts_of(items), [job.attempt for job in ctx.jobs]))
        assert [job.id for job in ctx.jobs] == [ctx.job(item).id for item in items]
        return [item.text.upper() for item in items]

    rig = Rig(app)
    ids = await rig.submit(embed, *"abcde")
    async with rig.working():
        started = await rig.happens(JobStarted, 5)
        await rig.happens(JobCompleted, 5)
    assert seen == [(["a", "b", "c", "d", "e"], [1] * 5)]
    assert {each.job_id for each in started} == set(ids)
    assert await results_of(rig, ids) == [*"ABCDE"]
    assert rig.remaining() == 0


async def test_a_full_batch_waits_no_longer_and_the_rest_for_as_long_as_its_type_says() -> None:
    app, mail = one_lane()
    calls = batching(mail, Batch(4, wait=WAIT_S))
    rig = Rig(app)
    await rig.submit(app.types["embed"], *"abcdef")
    async with rig.working():
        began = now()
        await rig.happens(JobCompleted, 6)
    assert [len(each) for each in calls.texts] == [4, 2]
    full, rest = (at - began for at in calls.at)
    assert full < 1
    assert WAIT_S <= rest < WAIT_S + 1


async def test_jobs_that_come_later_join_but_the_first_waits_no_longer_for_them() -> None:
    app, mail = one_lane()
    calls = batching(mail, Batch(100, wait=WAIT_S))
    rig = Rig(app)
    async with rig.working():
        began = now()
        for text in "abc":
            await rig.submit(app.types["embed"], text)
            await asyncio.sleep(0.75)
        await rig.happens(JobCompleted, 3)
    assert calls.texts == [["a", "b", "c"]]
    assert calls.at[0] - began < WAIT_S + 0.5


async def test_a_batch_that_waits_takes_no_slot_and_a_batch_that_runs_takes_one() -> None:
    app, mail = one_lane()
    gate, running = Gate(), asyncio.Event()

    @mail.job("embed", batch=Batch(3, wait=WAIT_S))
    async def embed(_items: list[Note], _ctx: BatchContext) -> None:
        running.set()
        await asyncio.sleep(10)

    other = mail.job("other")(gate.__call__)
    rig = Rig(app)
    async with rig.working(concurrency=2) as worker:
        await rig.submit(embed, "a", "b")
        await rig.submit(other, "x", "y")
        await gate.reached(2)  # while the batch waits, both slots are for others
        gate.open("x", "y")
        await rig.submit(embed, "c")
        await running.wait()
        await rig.submit(other, "z")
        await gate.reached(3)  # beside the batch, which has one slot for three jobs
        assert len(worker.active()) == 4
        gate.open("z")
        await rig.happens(JobCompleted, 6)


async def test_a_worker_with_one_slot_fills_batches_of_a_queue_of_batches() -> None:
    app, mail = one_lane()
    calls = batching(mail, Batch(20, wait=WAIT_S))
    rig = Rig(app)
    await rig.submit(app.types["embed"], *[str(number) for number in range(40)])
    async with rig.working(concurrency=1):
        await rig.happens(JobCompleted, 40)
    assert [len(each) for each in calls.texts] == [20, 20]
    assert rig.calls("receive", MAIL) < 20


async def test_what_failed_is_retried_alone_and_what_was_done_is_done() -> None:
    app, mail = one_lane(retry=SOON)
    seen: list[list[tuple[str, int]]] = []

    @mail.job("embed", batch=Batch(10, wait=WAIT_S))
    async def embed(items: list[Note], ctx: BatchContext) -> list[str | Exception]:
        pairs = zip(items, ctx.jobs, strict=True)
        seen.append([(item.text, job.attempt) for item, job in pairs])
        for item in items:
            if item.text == "fails":
                ctx.fail(item, ConnectionError("this one alone"))
        return [
            ConnectionError("in the list") if item.text == "returns" else item.text
            for item in items
        ]

    rig = Rig(app)
    ids = await rig.submit(embed, "a", "fails", "b", "returns")
    async with rig.working():
        dead = await rig.happens(JobDeadLettered, 2)
        await rig.happens(JobCompleted, 2)
    assert seen[0] == [("a", 1), ("fails", 1), ("b", 1), ("returns", 1)]
    assert sorted(pair for [pair] in seen[1:]) == [
        ("fails", 2), ("fails", 3), ("returns", 2), ("returns", 3)
    ]  # fmt: skip
    assert {each.job_id for each in dead} == {ids[1], ids[3]}
    failed = {each.job_id: each.error_message for each in rig.heard(JobFailed)}
    assert failed == {ids[1]: "this one alone", ids[3]: "in the list"}


async def test_an_error_of_the_handler_fails_the_jobs_of_which_nothing_was_said() -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))

    @mail.job("embed", batch=Batch(4, wait=WAIT_S))
    async def embed(items: list[Note], ctx: BatchContext) -> list[int]:
        ctx.complete(items[0], 7)
        ctx.fail(items[1], Discard("nobody wants it"))
        ctx.fail(ctx.jobs[2], RetryLater(5))
        raise ConnectionError("the service is down")

    rig = Rig(app)
    ids = await rig.submit(embed, *"abcd")
    async with rig.working():
        [completed] = await rig.happens(JobCompleted)
        [discarded] = await rig.happens(JobDiscarded)
        [deferred] = await rig.happens(JobDeferred)
        [failed] = await rig.happens(JobFailed)
    assert completed.job_id == ids[0]
    assert await results_of(rig, ids[:1]) == [7]
    assert [discarded.job_id, deferred.job_id, failed.job_id] == ids[1:]
    assert failed.traceback.count("ConnectionError: the service is down") == 1


async def test_a_handler_that_returns_too_few_results_fails_its_jobs() -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))

    @mail.job("embed", batch=Batch(2, wait=WAIT_S))
    async def embed(items: list[Note], _ctx: BatchContext) -> list[str]:
        return [items[0].text]

    rig = Rig(app)
    await rig.submit(embed, "a", "b")
    async with rig.working():
        failed = await rig.happens(JobFailed, 2)
    assert all("returned 1 results for 2 items" in each.error_message for each in failed)


async def test_a_plain_function_runs_a_batch_in_one_thread() -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))
    threads: list[tuple[int, str]] = []

    @mail.job("embed", batch=Batch(3, wait=WAIT_S))
    def embed(items: list[Note], ctx: BatchContext) -> list[str]:
        threads.append((len(items), threading.current_thread().name))
        ctx.fail(items[1], ValueError("no"))
        ctx.progress(50, "halfway")
        return [item.text for item in items]

    rig = Rig(app)
    ids = await rig.submit(embed, *"abc")
    async with rig.working():
        completed = await rig.happens(JobCompleted, 2)
        [failed] = await rig.happens(JobFailed)
    assert [(jobs, name.partition("_")[0]) for jobs, name in threads] == [(3, "headgate-job")]
    assert {each.job_id for each in completed} == {ids[0], ids[2]}
    assert await results_of(rig, [ids[0], ids[2]]) == ["a", "c"]
    assert failed.job_id == ids[1]
    assert {each.job_id for each in rig.heard(JobProgress)} == {ids[0], ids[2]}  # still open


async def test_a_batch_that_takes_too_long_fails_as_a_whole_but_for_what_was_done() -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))

    @mail.job("embed", batch=Batch(3, wait=WAIT_S), timeout=5)
    async def embed(items: list[Note], ctx: BatchContext) -> None:
        ctx.complete(items[0])
        await asyncio.sleep(3600)

    rig = Rig(app)
    ids = await rig.submit(embed, *"abc")
    async with rig.working():
        failed = await rig.happens(JobFailed, 2)
        [completed] = await rig.happens(JobCompleted)
    assert {each.job_id for each in failed} == set(ids[1:])
    assert {each.error_type for each in failed} == {"JobTimeout"}
    assert completed.job_id == ids[0]


async def test_an_overrun_of_a_plain_batch_asks_it_to_stop_and_each_job_times_out() -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))

    @mail.job("embed", batch=Batch(2, wait=WAIT_S), timeout=0.2)
    def embed(_items: list[Note], ctx: BatchContext) -> None:
        while True:
            ctx.raise_if_cancelled()

    rig = Rig(app)
    await rig.submit(embed, *"ab")
    async with rig.working():
        failed = await rig.happens(JobFailed, 2)
    assert {each.error_type for each in failed} == {"JobTimeout"}
    assert len(rig.heard(JobStalled)) == 2


@pytest.mark.parametrize("asks_call", [True, False])
async def test_what_a_plain_batch_leaves_out_as_its_time_is_over_is_not_done(
    asks_call: bool,
) -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))

    @mail.job("embed", batch=Batch(3, wait=WAIT_S), timeout=0.2)
    def embed(items: list[Note], ctx: BatchContext) -> list[str | None]:
        until = ctx if asks_call else ctx.jobs[2]
        while not until.cancelled:
            time.sleep(0.001)
        ctx.complete(items[0])
        return [None, "done" if ctx.jobs[1].cancelled else None, None]

    rig = Rig(app)
    ids = await rig.submit(embed, *"abc")
    async with rig.working():
        completed = await rig.happens(JobCompleted, 2)
        [failed] = await rig.happens(JobFailed)
    assert {each.job_id for each in completed} == {*ids[:2]}
    assert (failed.job_id, failed.error_type) == (ids[2], "JobTimeout")


async def test_a_plain_batch_that_overruns_and_asks_for_nothing_has_done_all() -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))
    overrun = threading.Event()

    @mail.job("embed", batch=Batch(2, wait=WAIT_S), timeout=0.2)
    def embed(_items: list[Note], ctx: BatchContext) -> None:
        assert overrun.wait(LIMIT_S)
        assert ctx.deadline is not None

    rig = Rig(app)
    ids = await rig.submit(embed, *"ab")
    async with rig.working():
        await rig.happens(JobStalled, 2)
        overrun.set()
        completed = await rig.happens(JobCompleted, 2)
    assert {each.job_id for each in completed} == {*ids}


async def test_what_a_plain_batch_leaves_out_as_its_worker_stops_runs_again() -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    @mail.job("embed", batch=Batch(3, wait=WAIT_S))
    def embed(items: list[Note], ctx: BatchContext) -> None:
        ctx.complete(items[0])
        loop.call_soon_threadsafe(begun.set)
        for item in items[1:]:
            while not ctx.job(item).cancelled:
                time.sleep(0.001)

    rig = Rig(app)
    ids = await rig.submit(embed, *"abc")
    async with rig.working(drain=timedelta(seconds=5)):
        await begun.wait()
    assert [each.job_id for each in rig.heard(JobCompleted)] == ids[:1]
    assert {each.job_id for each in rig.heard(JobInterrupted)} == {*ids[1:]}
    assert rig.remaining() == 2


async def test_a_cancelled_job_that_a_plain_batch_leaves_out_is_cancelled() -> None:
    app, mail = one_lane(records="failures")
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    @mail.job("embed", batch=Batch(2, wait=WAIT_S))
    def embed(_items: list[Note], ctx: BatchContext) -> None:
        loop.call_soon_threadsafe(begun.set)
        while not ctx.jobs[0].cancelled:
            time.sleep(0.001)
        assert not ctx.cancelled

    rig = Rig(app)
    first, second = await rig.submit(embed, "a", "b")
    async with rig.working():
        await begun.wait()
        await cancel(rig, first)
        [cancelled] = await rig.happens(JobCancelled)
        [completed] = await rig.happens(JobCompleted)
    assert (cancelled.job_id, completed.job_id) == (first, second)


async def test_a_cancelled_job_ends_with_its_batch_which_goes_on_for_the_others() -> None:
    app, mail = one_lane(records="failures")
    begun, stopped, running = asyncio.Event(), list[bool](), list[int]()

    @mail.job("embed", batch=Batch(2, wait=WAIT_S), concurrency=Concurrency(2))
    async def embed(items: list[Note], ctx: BatchContext) -> None:
        running.append(len(items))
        if not begun.is_set():
            begun.set()
            while not ctx.jobs[0].cancelled:  # noqa: ASYNC110 - all that a handler is told
                await asyncio.sleep(1)
            stopped.extend([*(job.cancelled for job in ctx.jobs), ctx.cancelled])
            await asyncio.sleep(60)  # the next one's place under the limit is not free yet
            assert running == [2]

    rig = Rig(app)
    first, second, third = await rig.submit(embed, "a", "b", "c")
    async with rig.working():
        await begun.wait()
        await cancel(rig, first)
        [cancelled] = await rig.happens(JobCancelled)
        completed = await rig.happens(JobCompleted, 2)
    assert cancelled.job_id == first
    assert [each.job_id for each in completed] == [second, third]
    assert stopped == [True, False, False]
    assert running == [2, 1]
    assert rig.remaining() == 0


async def test_what_was_done_of_a_cancelled_job_counts() -> None:
    app, mail = one_lane(records="failures")
    begun = asyncio.Event()

    @mail.job("embed", batch=Batch(2, wait=WAIT_S))
    async def embed(items: list[Note], ctx: BatchContext) -> None:
        begun.set()
        while not ctx.jobs[0].cancelled:  # noqa: ASYNC110 - all that a handler is told
            await asyncio.sleep(1)
        ctx.complete(items[0])

    rig = Rig(app)
    jobs = await rig.submit(embed, "a", "b")
    async with rig.working():
        await begun.wait()
        await cancel(rig, jobs[0])
        completed = await rig.happens(JobCompleted, 2)
    assert {each.job_id for each in completed} == {*jobs}


_OPTIONS: dict[str, dict[str, Any]] = {
    "plain type": {},
    "once": {"once": True},
    "breaker": {"breaker": Breaker(0.1, min_runs=1, open_for=3600)},
    "budget": {"retry_budget": RetryBudget(1, per=3600, on_exhausted="dead-letter")},
    "bundle": {"bundle": True},
    "timeout": {"timeout": 3600},
    "tenant": {"concurrency": Concurrency(4, key="tenant")},
}


class StoppingBatch:
    """A handler whose first call ends as soon as its first job is cancelled.

    It completes the second job before.
    """

    def __init__(self, queue: Queue, kind: str, **options: Any) -> None:
        self.calls: list[list[str]] = []
        self.attempts: set[int] = set()
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        kinds: dict[str, Any] = {"plain": self._plain, "async": self._async, "tasks": self._tasks}
        queue.job("embed", batch=Batch(4, wait=WAIT_S), **options)(kinds[kind])

    def _is_first(self, items: list[Note], ctx: BatchContext) -> bool:
        self.calls.append(texts_of(items))
        self.attempts |= {job.attempt for job in ctx.jobs}
        if len(self.calls) > 1:
            return False
        ctx.complete(items[1])
        self._loop.call_soon_threadsafe(self.begun.set)
        return True

    def _plain(self, items: list[Note], ctx: BatchContext) -> None:
        if self._is_first(items, ctx):
            while True:
                ctx.jobs[0].raise_if_cancelled()
                time.sleep(0.001)

    async def _async(self, items: list[Note], ctx: BatchContext) -> None:
        if self._is_first(items, ctx):
            await _stop(ctx.jobs[0])

    async def _tasks(self, items: list[Note], ctx: BatchContext) -> None:
        if self._is_first(items, ctx):
            async with asyncio.TaskGroup() as tasks:
                for job in ctx.jobs:
                    tasks.create_task(_stop(job))


async def _stop(job: JobContext) -> None:
    while True:
        job.raise_if_cancelled()
        await asyncio.sleep(1)


@pytest.mark.parametrize("options", _OPTIONS.values(), ids=_OPTIONS)
@pytest.mark.parametrize("kind", ["plain", "async", "tasks"])
async def test_a_call_that_stops_with_a_cancelled_job_costs_its_neighbours_nothing(
    kind: str, options: dict[str, Any]
) -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))
    batch = StoppingBatch(mail, kind, **options)
    rig = Rig(app)
    ids = await rig.submit(app.types["embed"], *"abcd")
    async with rig.working():
        await batch.begun.wait()
        await cancel(rig, ids[0])
        [cancelled] = await rig.happens(JobCancelled)
        completed = await rig.happens(JobCompleted, 3)
    assert cancelled.job_id == ids[0]
    assert {each.job_id for each in completed} == {*ids[1:]}
    assert {each.job_id for each in rig.heard(JobInterrupted)} == {*ids[2:]}
    assert not rig.heard(JobFailed)
    assert batch.calls[0] == [*"abcd"]
    assert sorted(text for each in batch.calls[1:] for text in each) == ["c", "d"]
    assert batch.attempts == {1}
    assert rig.remaining() == 0


async def test_a_stop_with_a_job_whose_worker_lost_it_costs_its_neighbours_nothing() -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))
    batch = StoppingBatch(mail, "async")
    rig = Rig(app)
    ids = await rig.submit(app.types["embed"], *"abc")
    async with rig.working() as worker:
        await batch.begun.wait()
        [hold] = [
            each
            for each in worker._parts.running.unfinished
            if each.run.job is not None and each.run.job.attempt.job_id == ids[0]
        ]
        hold.run.interrupt("its receipt was lost")
        completed = await rig.happens(JobCompleted, 3)
    assert {each.job_id for each in completed} == {*ids}
    assert {each.job_id for each in rig.heard(JobInterrupted)} == {ids[0], ids[2]}
    assert batch.attempts == {1}
    assert len(batch.calls) > 1
    assert rig.report is not None
    assert rig.report.clean  # the stop cut none short


async def test_a_stop_that_nobody_asked_for_is_a_failure_of_the_call() -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))
    calls = 0

    @mail.job("embed", batch=Batch(2, wait=WAIT_S))
    async def embed(_items: list[Note], _ctx: BatchContext) -> None:
        nonlocal calls
        calls += 1
        assert calls == 1, "it is called again, uncounted"
        raise Stopped

    rig = Rig(app)
    await rig.submit(embed, "a", "b")
    async with rig.working():
        failed = await rig.happens(JobFailed, 2)
    assert {each.error_type for each in failed} == {"Stopped"}


async def test_a_limit_counts_each_job_and_lets_a_batch_have_what_may_start_now() -> None:
    app, mail = one_lane()
    calls = batching(mail, Batch(10, wait=WAIT_S), rate_limit=RateLimit(3, per=60))
    rig = Rig(app)
    await rig.submit(app.types["embed"], *"abcde")
    async with rig.working():
        await rig.happens(JobCompleted, 5)
    assert [len(each) for each in calls.texts] == [3, 2]
    assert calls.at[1] - calls.at[0] >= 60 - 1


async def test_a_tenants_limit_holds_back_its_own_jobs_and_no_neighbours() -> None:
    app, mail = one_lane()
    calls = batching(mail, Batch(10, wait=WAIT_S), concurrency=Concurrency(1, key="tenant"))
    rig = Rig(app)
    await rig.submit(app.types["embed"], "a1", "a2", tenant="a")
    await rig.submit(app.types["embed"], "b1", "b2", tenant="b")
    async with rig.working():
        await rig.happens(JobCompleted, 4)
    assert [len(each) for each in calls.texts] == [2, 2]
    assert all({text[0] for text in each} == {"a", "b"} for each in calls.texts)


@pytest.mark.parametrize("by_tenant", [True, False])
async def test_jobs_of_one_group_alone_share_a_call(by_tenant: bool) -> None:
    app, mail = one_lane()
    by_text = Batch(10, wait=WAIT_S, group_by=lambda note: note.text[0])
    calls = batching(mail, Batch(10, wait=WAIT_S, group_by="tenant") if by_tenant else by_text)
    rig = Rig(app)
    for tenant in "ab":
        await rig.submit(app.types["embed"], f"{tenant}1", f"{tenant}2", tenant=tenant)
    async with rig.working():
        await rig.happens(JobCompleted, 4)
    assert sorted(calls.texts) == [["a1", "a2"], ["b1", "b2"]]


async def test_a_group_by_that_raises_fails_its_own_job() -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))

    def group_by(note: Note) -> str:
        if note.text == "bad":
            raise LookupError("no such group")
        return ""

    calls = batching(mail, Batch(2, wait=WAIT_S, group_by=group_by))
    rig = Rig(app)
    await rig.submit(app.types["embed"], "a", "bad", "b")
    async with rig.working():
        [failed] = await rig.happens(JobFailed)
        await rig.happens(JobCompleted, 2)
    assert failed.error_type == "LookupError"
    assert calls.texts == [["a", "b"]]


async def test_a_batch_that_waits_when_the_worker_stops_is_given_back_at_once() -> None:
    app, mail = one_lane()
    calls = batching(mail, Batch(10, wait=300))
    rig = Rig(app)
    await rig.submit(app.types["embed"], "a", "b")
    async with rig.working() as worker:
        await received(rig, 2)
        began = now()
        worker.stop()
    assert now() - began < 5
    assert calls.texts == []
    assert {each.state for each in rig.sqs.messages(MAIL)} == {MessageState.VISIBLE}


async def test_jobs_of_a_batch_cut_by_a_stop_wait_for_its_end_and_go_back_unblamed() -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))
    begun, cleaned = asyncio.Event(), list[int]()

    @mail.job("embed", batch=Batch(3, wait=WAIT_S))
    async def embed(items: list[Note], ctx: BatchContext) -> None:
        ctx.complete(items[0])
        begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            cleaned.append(rig.in_flight())
            raise

    rig = Rig(app)
    ids = await rig.submit(embed, *"abc")
    async with rig.working(drain=timedelta(seconds=5)):
        await begun.wait()
    assert cleaned == [3]  # none was given back while the handler still cleaned up
    assert {each.job_id for each in rig.heard(JobInterrupted)} == set(ids[1:])
    assert [each.job_id for each in rig.heard(JobCompleted)] == ids[:1]
    assert rig.remaining() == 2


@pytest.mark.parametrize("texts", ["a", "abc"])
async def test_what_a_batch_has_completed_counts_though_its_clean_up_takes_too_long(
    texts: str,
) -> None:
    app, mail = one_lane(retry=Retry(max_attempts=1))
    begun = asyncio.Event()

    @mail.job("embed", batch=Batch(3, wait=WAIT_S))
    async def embed(items: list[Note], ctx: BatchContext) -> list[int]:
        ctx.complete(items[0], 7)
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(10)
        return []

    rig = Rig(app)

    async def slow_delete() -> None:
        await asyncio.sleep(0.05)

    rig.wire.requests["delete"] = slow_delete  # what is released comes again before it
    ids = await rig.submit(embed, *texts)
    worker = rig.worker(drain=timedelta(seconds=5))
    run = asyncio.create_task(worker.run())
    await begun.wait()
    worker.stop()
    report = await run
    assert [each.job_id for each in rig.heard(JobCompleted)] == ids[:1]
    assert await results_of(rig, ids[:1]) == [7]
    assert rig.remaining() == len(ids) - 1
    assert set(report.interrupted) == set(report.abandoned) == set(ids[1:])
    assert not rig.heard(SettlementFailed)
    await asyncio.sleep(20)  # the rest of the clean-up


async def test_claimed_jobs_share_a_call_and_one_that_is_done_takes_no_part() -> None:
    app, mail = one_lane()
    calls = batching(mail, Batch(4, wait=WAIT_S), once=True)
    rig = Rig(app)
    embed = app.types["embed"]
    await rig.submit(embed, *"abc")
    bodies = [each.body for each in rig.sqs.messages(MAIL)]
    async with rig.working():
        await rig.happens(JobCompleted, 3)
        assert await rig.sqs.send(MAIL, [OutgoingMessage(body=bodies[0])]) == []
        await rig.submit(embed, "d", "e", "f")
        await rig.happens(JobCompleted, 6)
    assert calls.texts == [["a", "b", "c"], ["d", "e", "f"]]
    assert rig.remaining() == 0


async def test_a_retry_and_its_budget_count_each_job() -> None:
    app, mail = one_lane(retry=SOON)

    @mail.job("embed", batch=Batch(3, wait=WAIT_S))
    async def embed(items: list[Note], _ctx: BatchContext) -> None:
        if len(items) > 1:
            raise ConnectionError("together they fail")

    rig = Rig(app)
    await rig.submit(embed, *"abc")
    async with rig.working():
        await rig.happens(JobCompleted, 3)
    assert [each.attempt for each in rig.heard(JobRetryScheduled)] == [1] * 3
    assert [each.attempt for each in rig.heard(JobCompleted)] == [2] * 3


async def test_resources_are_opened_once_a_call_and_an_around_is_entered_for_each_job() -> None:
    app, mail = one_lane()
    entered: list[str] = []

    @app.resource(scope="job")
    async def session() -> AsyncIterator[Session]:
        entered.append("session")
        yield Session()

    @app.around
    async def around(ctx: JobContext) -> AsyncIterator[None]:
        entered.append(ctx.id)
        yield

    async def embed(_items: list[Note], _ctx: BatchContext, session: Session) -> None:
        assert isinstance(session, Session)

    rig = Rig(app)
    ids = await rig.submit(mail.job("embed", batch=Batch(2, wait=WAIT_S))(embed), "a", "b")
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    assert sorted(entered) == sorted([*ids, "session"])


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
async def test_an_around_without_a_jobs_context_is_entered_once_where_a_batch_runs(
    is_async: bool,
) -> None:
    app, mail = one_lane()
    entered: list[str] = []
    within: ContextVar[str] = ContextVar("within", default="nothing")

    @app.resource(scope="job")
    def session() -> Iterator[Session]:
        entered.append(f"session in {threading.current_thread().name}")
        yield Session()

    @app.around
    def around(_session: Session) -> Iterator[None]:
        token = within.set(threading.current_thread().name)
        try:
            yield
        finally:
            within.reset(token)
            entered.append("left")

    @app.around
    async def outer() -> AsyncIterator[None]:
        entered.append("outer")
        yield

    def embed(_items: list[Note], _ctx: BatchContext, _session: Session) -> None:
        assert within.get() == threading.current_thread().name

    async def embed_async(_items: list[Note], _ctx: BatchContext) -> None:
        assert within.get() == threading.current_thread().name

    batch = Batch(2, wait=WAIT_S)
    job = mail.job("embed", batch=batch)(embed_async if is_async else embed)
    rig = Rig(app)
    await rig.submit(job, "a", "b")
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    [opened] = [each for each in entered if each.startswith("session")]
    assert sorted(entered) == sorted([opened, "outer", "left"]), "once for both"
    assert entered[-1] == "left"
    assert ("MainThread" in opened) == is_async


async def test_an_around_of_a_batch_may_replace_the_error_of_its_handler() -> None:
    app, mail = one_lane()

    @app.around
    def around() -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise Discard("nobody wants them") from error

    @mail.job("embed", batch=Batch(2, wait=WAIT_S))
    def embed(items: list[Note], ctx: BatchContext) -> None:
        ctx.fail(items[0], RetryLater(5, reason="this one alone"))
        raise ValueError("the rest")

    rig = Rig(app)
    await rig.submit(embed, "a", "b")
    async with rig.working():
        await rig.happens(JobDeferred)
        await rig.happens(JobDiscarded)


async def test_a_critical_job_starts_at_once_beside_batches_that_wait() -> None:
    app = App("shop", records="off")
    gate = Gate()

    @app.job("embed", batch=Batch(100, wait=60))
    async def embed(_items: list[Note], _ctx: BatchContext) -> None: ...

    urgent = app.job("urgent", priority=Priority.CRITICAL)(gate.__call__)
    rig = Rig(app)
    async with rig.working(concurrency=1) as worker:
        await rig.submit(embed, *"abc")
        await received(rig, 1)
        began = now()
        await rig.submit(urgent, "x")
        async with asyncio.timeout(LIMIT_S):
            await gate.reached(1)
        assert now() - began < 1
        gate.open("x")
        await rig.happens(JobCompleted)
        worker.stop()
