"""`RetryBudget(scope="fleet")`: no window gets more retries than its limit, whatever workers do."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import App, Priority, Retry, RetryBudget
from headgate.jobs.core.events import (
    BudgetSpent,
    Events,
    JobCompleted,
    JobFailed,
    JobStarted,
    LeaseFailed,
)
from headgate.jobs.core.limits import OnExhausted
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.execution.settling.settlement import BudgetAnswer, Exhausted, Granted
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.testing import LoopClock, MemoryTable
from headgate.workers.configuration import WorkerSettings
from headgate.workers.limits.fleet_retry_budget import PATIENCE_S, FleetBudget
from headgate.workers.worker import Worker
from tests.support.backends import async_over
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads

PER_S = 60.0
A_DAY_S = 86_400.0


class Fleet:
    """Workers that share a budget, and the planned retries."""

    def __init__(self, limit: int, seed: int = 0) -> None:
        self.clock = LoopClock()
        self.table = MemoryTable(self.clock)
        self.limit = limit
        self.rng = random.Random(seed)  # noqa: S311 - a test's own choices
        self.planned: Counter[int] = Counter()
        """By window, the retries that become due in it."""
        self.faults: list[str] = []

    def worker(self) -> FleetBudget:
        return FleetBudget(
            self.table,
            "budget:queue:calls",
            self.limit,
            PER_S,
            clock=self.clock,
            rng=self.rng,
            tell=self.faults.append,
        )

    async def take(self, worker: FleetBudget, delay_s: int, longest_s: float) -> BudgetAnswer:
        answer = await worker.take(delay_s, longest_s=longest_s)
        if isinstance(answer, Granted):
            due = self.clock.now().timestamp() + answer.delay_s
            self.planned[int(due // PER_S)] += 1
        return answer

    @property
    def most(self) -> int:
        return max(self.planned.values(), default=0)


@given(seed=st.integers(0, 2**32), limit=st.integers(1, 8), workers=st.integers(1, 5))
async def test_no_window_exceeds_the_limit_whatever_workers_do(
    seed: int, limit: int, workers: int
) -> None:
    fleet = Fleet(limit, seed)
    rng, made = fleet.rng, count()
    living = {next(made): fleet.worker() for _ in range(workers)}
    calls: dict[asyncio.Task[BudgetAnswer], int] = {}
    for _ in range(60):
        match rng.choice(["fail"] * 8 + ["join", "die", "lost", "away", "slow"]):
            case "fail":
                name = rng.choice([*living])
                longest_s = rng.choice([0.0, A_DAY_S])
                take = fleet.take(living[name], rng.choice([0, 1, 20, 60, 300]), longest_s)
                calls[asyncio.create_task(take)] = name
            case "join":
                living[next(made)] = fleet.worker()
            case "die" if len(living) > 1:
                name = rng.choice([*living])
                del living[name]
                for call, its in calls.items():
                    if its == name:
                        call.cancel()
            case "lost":
                fault = ServiceUnavailable("lost")
                fleet.table.faults.raise_on("replace", fault, applied=rng.random() < 0.5)
            case "away":
                fleet.table.faults.raise_on("replace", ServiceUnavailable("away"), times=4)
            case "slow":
                fleet.table.faults.slow_down("replace", rng.choice([0.01, 0.5, 3]))
        await asyncio.sleep(rng.choice([0, 0, 0.01, 1, 30]))
    await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 1000)
    assert fleet.most <= limit


async def test_what_the_budget_has_goes_to_whoever_fails_down_to_the_last_place() -> None:
    fleet = Fleet(100)
    one, two = fleet.worker(), fleet.worker()
    takes = [fleet.take(one, 5, 0) for _ in range(70)] + [fleet.take(two, 5, 0) for _ in range(80)]
    answers = await asyncio.gather(*takes)
    assert sum(isinstance(answer, Granted) for answer in answers) == 100
    assert fleet.most == 100
    assert len(fleet.table.calls) <= 6, "retries that have to be placed at once share a request"


async def test_retries_beyond_the_budget_fill_the_windows_one_after_the_other() -> None:
    fleet = Fleet(10)
    workers = [fleet.worker() for _ in range(3)]
    answers = await asyncio.gather(
        *(fleet.take(workers[n % 3], 5, A_DAY_S) for n in range(10 * 200))
    )
    assert all(isinstance(answer, Granted) for answer in answers)
    assert set(fleet.planned.values()) == {10}
    assert len(fleet.planned) == 200, "more than one item counts"


async def test_a_retry_that_would_begin_as_its_window_ends_is_counted_in_the_next() -> None:
    fleet = Fleet(1)
    worker = fleet.worker()
    await asyncio.sleep(PER_S - fleet.clock.now().timestamp() % PER_S)
    answer = await fleet.take(worker, 59, A_DAY_S)
    assert answer == Granted(60, is_put_off=False)


async def test_after_waiting_for_the_table_each_worker_keeps_the_limit_alone() -> None:
    fleet = Fleet(10)
    workers = [fleet.worker() for _ in range(3)]
    fleet.table.faults.raise_on(None, ServiceUnavailable("gone"), times=10_000)
    began = fleet.clock.monotonic()
    takes = [fleet.take(workers[number % 3], 30, 0) for number in range(60)]
    answers = await asyncio.gather(*takes)
    assert PATIENCE_S <= fleet.clock.monotonic() - began <= PATIENCE_S + 3
    assert sum(isinstance(answer, Granted) for answer in answers) == fleet.most == 30, (
        "the limit, from each"
    )
    assert fleet.faults == ["gone"] * 3, "each says so once"
    fleet.table.faults.clear()
    await asyncio.sleep(PATIENCE_S)
    for worker in workers:  # with their next retry they count those that they let pass meanwhile
        await fleet.take(worker, 300, 0)
    assert await fleet.take(fleet.worker(), 15, 0) == Exhausted()
    assert fleet.most == 30


async def test_a_table_that_hangs_holds_up_no_worker_that_stops() -> None:
    fleet = Fleet(10)
    worker = fleet.worker()
    fleet.table.faults.slow_down("replace", 1000, times=1000)
    take = asyncio.create_task(fleet.take(worker, 5, A_DAY_S))
    await asyncio.sleep(0.1)
    worker.hurry()
    began = fleet.clock.monotonic()
    await take
    await fleet.take(worker, 5, A_DAY_S)
    assert fleet.clock.monotonic() - began <= 1.5


# --- through workers -----------------------------------------------------------------------------

MANY = Retry(max_attempts=1000, backoff=Backoff.fixed(5))


def _app(on_exhausted: OnExhausted = "wait") -> App:
    app = App("shop")
    budget = RetryBudget(100, scope="fleet", on_exhausted=on_exhausted)
    app.queue("calls", priorities=[Priority.NORMAL], retry=MANY, retry_budget=budget)
    return app


def _worker(rig: Rig, name: str) -> Worker:
    return Worker(
        rig.app,
        async_over(rig.sqs, table=rig.table, clock=rig.clock, rng=random.Random(name)),  # noqa: S311 - spreads pauses
        WorkerSettings(concurrency=100),
        name=name,
        events=Events(rig.hear),
    )


async def test_two_workers_together_stay_within_the_fleets_retry_budget() -> None:
    app = _app()
    is_up = False

    @app.queues["calls"].job("call")
    async def call(_note: Note) -> None:
        if not is_up:
            raise ConnectionError("down")

    rig = Rig(app)
    await rig.submit(call, *map(str, range(300)))
    workers = [_worker(rig, "one"), _worker(rig, "two")]
    runs = [asyncio.create_task(worker.run()) for worker in workers]
    await asyncio.sleep(100)
    workers[0].stop()  # and another comes
    workers.append(_worker(rig, "three"))
    runs.append(asyncio.create_task(workers[-1].run()))
    await asyncio.sleep(500)
    retries = Counter(
        int(event.at.timestamp() // 60) for event in rig.heard(JobStarted) if event.attempt > 1
    )
    assert max(retries.values()) <= 100
    assert sum(retries.values()) >= 8 * 90, "and hardly less"
    assert rig.heard(BudgetSpent)
    is_up = True
    await rig.happens(JobCompleted, 300)
    for worker in workers:
        worker.stop()
    await asyncio.gather(*runs)
    assert rig.sqs.messages("shop-calls-normal-dlq") == []
    assert rig.in_flight() == 0


@pytest.mark.parametrize("stopped", [False, True])
async def test_retries_that_wait_for_the_table_are_visible_again_after_a_stop(
    stopped: bool,
) -> None:
    app = _app()

    @app.queues["calls"].job("call")
    async def call(_note: Note) -> None:
        raise ConnectionError("down")

    rig = Rig(app)
    await rig.submit(call, *map(str, range(20)))
    rig.table.faults.raise_on(None, ServiceUnavailable("gone"), times=10_000)
    async with rig.working(concurrency=20):
        await rig.happens(JobFailed, 20)
        [failed] = await rig.happens(LeaseFailed)
        assert failed.limit == "budget:queue:calls"
        if not stopped:
            await asyncio.sleep(PATIENCE_S + 10)
    assert rig.report is not None
    assert rig.report.unsettled == 0
    retried = sum(event.attempt > 1 for event in rig.heard(JobStarted))
    assert bool(retried) is not stopped
