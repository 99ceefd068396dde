"""The parts of limits, each in isolation: meters, the guards composed of them, and budgets."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4
from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import App
from headgate.jobs.core.events import BreakerClosed, BreakerOpened, BreakerProbing, Event
from headgate.jobs.core.limits import Breaker, LimitKey
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.execution.delivery import Delivery, Job, load
from headgate.jobs.execution.outcome import Crashed, Discarded, Done, Failed, Outcome
from headgate.jobs.execution.settling.settlement import Exhausted, Granted
from headgate.jobs.submission.prepare import prepare
from headgate.jobs.testing import VirtualClock
from headgate.workers.limits.circuit_breaker import Circuit
from headgate.workers.limits.guards import Block, Guard, ending_of
from headgate.workers.limits.keys import key_of
from headgate.workers.limits.meters import Ending, Meter, OwnTokens, TokenCost
from headgate.workers.limits.retry_budget import WorkerBudget
from headgate.workers.limits.slots import Slots
from headgate.workers.limits.token_bucket import CostWindow, Window
from tests.unit.workers.rig import Note

# --- windows -------------------------------------------------------------------------------------

_steps = st.lists(st.floats(0, 3, allow_subnormal=False), min_size=1, max_size=200)


def _most_within(starts: list[float], per_s: float) -> int:
    return max(sum(start <= other < start + per_s for other in starts) for start in starts)


@given(st.integers(1, 10), _steps)
def test_no_window_whenever_it_begins_has_more_starts_than_the_limit(
    limit: int, steps: list[float]
) -> None:
    window, now, starts = Window(OwnTokens(limit), 5.0), 0.0, []
    for step in steps:
        now += step
        if not window.wait_s(now):
            window.start(now)
            starts.append(now)
    assert _most_within(starts, 5.0) <= limit


@given(st.integers(1, 10), _steps)
def test_whoever_waits_as_long_as_told_may_start_and_not_sooner(
    limit: int, steps: list[float]
) -> None:
    window, now = Window(OwnTokens(limit), 5.0), 0.0
    for step in steps:
        now += step
        wait_s = window.wait_s(now)
        if wait_s:
            assert window.wait_s(now + wait_s * 0.99) > 0
            now += wait_s + 1e-6
        assert not window.wait_s(now)
        window.start(now)


def test_a_limit_that_shrinks_leaves_out_what_is_out() -> None:
    tokens = OwnTokens(4)
    window = Window(tokens, 10.0)
    for moment in range(4):
        window.start(moment)
    tokens.count = 2
    assert window.in_use(3) == 4
    assert window.wait_s(3) == pytest.approx(12 - 3), "the third token's return leaves one of two"
    tokens.count = 0
    assert window.wait_s(3) == float("inf")


# --- costs ---------------------------------------------------------------------------------------

_jobs = st.lists(st.tuples(st.floats(0, 3, allow_subnormal=False), st.integers(0, 6)), max_size=80)


@given(st.integers(6, 20), _jobs)
def test_in_no_window_do_starts_cost_more_than_the_limit_and_waits_are_exact(
    limit: int, jobs: list[tuple[float, int]]
) -> None:
    window, now = CostWindow(OwnTokens(limit), 5.0), 0.0
    starts: list[tuple[float, int]] = []
    for step, cost in jobs:
        now += step
        if wait_s := window.wait_s(now, TokenCost(cost)):
            assert window.wait_s(now + wait_s * 0.99, TokenCost(cost)) > 0
            now += wait_s + 1e-6
        assert window.wait_s(now, TokenCost(cost)) == 0
        window.start(now, TokenCost(cost))
        starts.append((now, cost))
    for first, _ in starts:
        assert sum(cost for at, cost in starts if first <= at < first + 5) <= limit


def test_no_later_job_takes_the_tokens_that_a_larger_one_waits_for() -> None:
    window = CostWindow(OwnTokens(10), 10.0)
    window.start(0, TokenCost(4, rank=2))
    window.start(5, TokenCost(4, rank=2))
    assert window.wait_s(6, TokenCost(5, rank=2)) == pytest.approx(4)
    assert window.ahead(6) == 0, "nothing is received that would overtake it"
    for cost in (1, 2, 6):
        assert window.wait_s(7, TokenCost(cost, rank=2)) > 0
        assert window.wait_s(7, TokenCost(cost, rank=3)) > 0
    assert window.wait_s(7, TokenCost(1, rank=0)) == 0, "what is more urgent need not wait for it"
    assert window.wait_s(10, TokenCost(5, rank=2)) == 0
    window.start(10, TokenCost(5, rank=2))
    assert window.wait_s(10, TokenCost(1, rank=2)) == 0


def test_tokens_saved_for_a_job_that_has_gone_elsewhere_are_free_soon_after() -> None:
    window = CostWindow(OwnTokens(10), 10.0)
    window.start(0, TokenCost(8))
    assert window.wait_s(1, TokenCost(9)) == pytest.approx(9)
    wait_s = window.wait_s(1, TokenCost(2))
    assert window.wait_s(1 + wait_s - 0.1, TokenCost(2)) > 0
    assert window.wait_s(1 + wait_s, TokenCost(2)) == 0


def test_a_cost_window_tells_how_many_jobs_of_the_usual_cost_may_start_soon() -> None:
    window = CostWindow(OwnTokens(100), 10.0)
    assert (window.ahead(0), window.places) == (100, 100), "nothing is known yet"
    for _ in range(3):
        window.start(0, TokenCost(20))
    window.start(5, TokenCost(20))
    assert window.places == 5
    assert window.ahead(6) == 1
    assert window.ahead(9.5) == 4
    assert window.is_idle(15)


# --- breakers ------------------------------------------------------------------------------------


class _Bench:
    """A circuit, its clock, and its events."""

    def __init__(self, breaker: Breaker) -> None:
        self.clock = VirtualClock()
        self.told: list[Event] = []
        self.circuit = Circuit("breaker:type:t", breaker, clock=self.clock, tell=self.told.append)

    def let_through(self) -> bool:
        return self.circuit.wait_s(self.clock.monotonic()) == 0

    def start(self) -> object:
        return self.circuit.start(self.clock.monotonic())

    def end(self, passed: object, ending: Ending) -> None:
        self.circuit.end(passed, ending, self.clock.monotonic())

    def run(self, ending: Ending, times: int = 1) -> None:
        for _ in range(times):
            self.end(self.start(), ending)


_BREAKER = Breaker(0.5, min_runs=4, probes=2)


def test_a_breaker_opens_at_its_ratio_and_not_before_its_minimum() -> None:
    bench = _Bench(_BREAKER)
    bench.run(Ending.FAILURE, 3)
    assert bench.let_through()
    bench.run(Ending.FAILURE)
    assert not bench.let_through()
    [opened] = bench.told
    assert isinstance(opened, BreakerOpened)
    assert (opened.failures, opened.runs, opened.open_for_s) == (4, 4, 30)


def test_a_breaker_that_more_often_hears_of_success_stays_closed() -> None:
    bench = _Bench(_BREAKER)
    for _ in range(100):
        bench.run(Ending.SUCCESS, 3)
        bench.run(Ending.FAILURE, 2)
        bench.clock.advance(0.5)
    assert bench.let_through()
    assert bench.told == []


def test_failures_that_lie_apart_do_not_add_up() -> None:
    bench = _Bench(_BREAKER)
    for _ in range(20):
        bench.run(Ending.FAILURE)
        bench.clock.advance(15)
    assert bench.let_through()


def test_what_says_nothing_counts_as_nothing() -> None:
    bench = _Bench(_BREAKER)
    bench.run(Ending.NOTHING, 50)
    bench.run(Ending.FAILURE, 3)
    assert bench.let_through()


def test_an_open_breaker_probes_with_so_many_and_closes_when_all_succeed() -> None:
    bench = _Bench(_BREAKER)
    bench.run(Ending.FAILURE, 4)
    bench.clock.advance(29.9)
    assert not bench.let_through()
    bench.clock.advance(0.2)
    assert bench.let_through()
    first, second = bench.start(), bench.start()
    assert not bench.let_through(), "two probes and no more"
    bench.end(first, Ending.SUCCESS)
    assert not bench.let_through()
    bench.end(second, Ending.SUCCESS)
    assert bench.let_through()
    assert [type(event) for event in bench.told] == [BreakerOpened, BreakerProbing, BreakerClosed]
    bench.run(Ending.FAILURE, 3)
    assert bench.let_through(), "its window began anew"


def test_the_first_probe_that_fails_opens_it_again() -> None:
    bench = _Bench(_BREAKER)
    bench.run(Ending.FAILURE, 4)
    bench.clock.advance(31)
    first, second = bench.start(), bench.start()
    bench.end(first, Ending.FAILURE)
    assert not bench.let_through()
    bench.end(second, Ending.SUCCESS)
    assert not bench.let_through(), "a probe of a round that is over says nothing"
    bench.clock.advance(31)
    assert bench.let_through()


def test_a_probe_that_says_nothing_gives_its_place_to_another() -> None:
    bench = _Bench(_BREAKER)
    bench.run(Ending.FAILURE, 4)
    bench.clock.advance(31)
    first, second = bench.start(), bench.start()
    assert not bench.let_through()
    bench.end(first, Ending.NOTHING)
    assert bench.let_through()
    bench.run(Ending.SUCCESS)
    bench.end(second, Ending.SUCCESS)
    assert isinstance(bench.told[-1], BreakerClosed)


def test_what_began_before_it_opened_does_not_close_it() -> None:
    bench = _Bench(_BREAKER)
    early = [bench.start() for _ in range(10)]
    bench.run(Ending.FAILURE, 4)
    for passed in early[:5]:
        bench.end(passed, Ending.SUCCESS)
    assert not bench.let_through()
    bench.clock.advance(31)
    first, _second = bench.start(), bench.start()
    for passed in early[5:]:
        bench.end(passed, Ending.SUCCESS)
    assert not bench.let_through(), "they are no probes"
    bench.end(first, Ending.SUCCESS)
    assert not any(isinstance(event, BreakerClosed) for event in bench.told)


@given(st.lists(st.tuples(st.sampled_from(Ending), st.floats(0, 20)), max_size=100))
def test_while_it_is_open_nothing_is_let_through_whatever_ends(
    endings: list[tuple[Ending, float]],
) -> None:
    bench = _Bench(_BREAKER)
    for ending, pause_s in endings:
        bench.clock.advance(pause_s)
        opened = [event for event in bench.told if isinstance(event, BreakerOpened)]
        since_s = (bench.clock.now() - opened[-1].at).total_seconds() if opened else None
        state = type(bench.told[-1]) if bench.told else None
        if state is BreakerOpened and since_s is not None and since_s < 30:
            assert not bench.let_through()
        elif bench.let_through():
            bench.run(ending)


# --- guards: any key with any meter --------------------------------------------------------------

_APP = App("shop", records="off")


@_APP.job("work")
async def work(_note: Note) -> None: ...


def _job(text: str = "", tenant: str | None = None) -> Job:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = prepare(
        _APP, _APP.topology, work, Note(text=text), {"tenant": tenant}, now=now, job_id=uuid4()
    )
    message = ReceivedMessage(
        message_id="m", receipt="r", body=made.message.body, receive_count=1, sent_at=now
    )
    return load(_APP, Delivery(message=message, queue=made.queue, received_at=0))


def _window(_limit: str) -> Window:
    return Window(OwnTokens(2), 10.0)


def _slots(_limit: str) -> Slots:
    return Slots(OwnTokens(2))


def _open_after_two(limit: str) -> Circuit:
    """Return a breaker that opens at its second failure."""
    return Circuit(limit, Breaker(min_runs=2), clock=VirtualClock(), tell=lambda _event: None)


METERS = pytest.mark.parametrize("meter", [_window, _slots, _open_after_two])


def _by_text(note: Note) -> str | None:
    return note.text or None


def _exhaust(guard: Guard, job: Job) -> None:
    """Start as many jobs as the guard lets start; failures end where they open a breaker."""
    for _ in range(2):
        assert guard.block(job, 0) is None
        start = guard.start(job, 0)
        assert start is not None
        if isinstance(start.meter, Circuit):
            start.end(Ending.FAILURE, 0)


@METERS
def test_without_a_key_all_jobs_are_counted_together(meter: Callable[[str], Meter]) -> None:
    guard = Guard("limit:app", key_of("limit:app", None), meter)
    _exhaust(guard, _job("a", "one"))
    for job in (_job("a", "one"), _job("b", "two"), _job()):
        block = guard.block(job, 0)
        assert block is not None
        assert (block.limit, block.retry_in_s > 0) == ("limit:app", True)
    assert guard.ahead(0) == 0


@METERS
@pytest.mark.parametrize(
    ("key", "mine", "other", "exempt"),
    [
        ("tenant", _job("a", "one"), _job("a", "two"), _job("a")),
        (_by_text, _job("one", "a"), _job("two", "a"), _job("", "a")),
    ],
)
def test_with_a_key_each_of_its_values_is_counted_apart(
    meter: Callable[[str], Meter], key: LimitKey, mine: Job, other: Job, exempt: Job
) -> None:
    guard = Guard("limit:app", key_of("limit:app", key), meter)
    _exhaust(guard, mine)
    block = guard.block(mine, 0)
    assert block is not None
    assert block.limit == "limit:app#one"
    assert guard.block(other, 0) is None
    assert guard.start(exempt, 0) is None
    assert [guard.block(exempt, 0) for _ in range(5)] == [None] * 5
    assert guard.ahead(0) == math.inf, "others may start"


def test_a_block_tells_how_many_jobs_may_start_and_soon() -> None:
    window = Guard("rate:app", key_of("rate:app", None), _window)
    _exhaust(window, _job())
    assert window.block(_job(), 1) == Block("rate:app", 9.0, 2, 0.0)
    assert window.block(_job(), 9.5) == Block("rate:app", 0.5, 2, 2.0)
    slots = Guard("concurrency:app", key_of("concurrency:app", None), _slots)
    first, _second = slots.start(_job(), 0), slots.start(_job(), 0)
    assert first is not None
    assert first.end(Ending.SUCCESS, 1) == "concurrency:app", "another may start for it"
    slots.start(_job(), 1)
    assert slots.block(_job(), 1.5) == Block("concurrency:app", 1.0, 2, 1.0)
    assert slots.block(_job(), 2.5) == Block("concurrency:app", 1.0, 2, 0.0)


@METERS
def test_keys_of_the_past_take_no_memory_and_those_in_use_are_kept(
    meter: Callable[[str], Meter],
) -> None:
    alive: WeakSet[Any] = WeakSet()
    now = 0.0

    def made(limit: str) -> Meter:
        alive.add(new := meter(limit))
        return new

    guard = Guard("limit:app", key_of("limit:app", _by_text), made)
    _exhaust(guard, _job("kept"))
    for number in range(100):
        now += 60.0 if number == 50 else 0.01
        start = guard.start(_job(f"key-{number}"), now)
        assert start is not None
        start.end(Ending.SUCCESS, now)
        if number == 49:
            assert guard.block(_job("kept"), now) is not None
    for number in range(100):
        guard.block(_job(f"new-{number}"), now := now + 60)
    assert len(alive) <= 5


@pytest.mark.parametrize(
    ("outcome", "retryable", "ending"),
    [
        (Done(result=None), False, Ending.SUCCESS),
        (Failed(error=OSError(), at=datetime(2026, 1, 1, tzinfo=UTC)), True, Ending.FAILURE),
        (Failed(error=OSError(), at=datetime(2026, 1, 1, tzinfo=UTC)), False, Ending.SUCCESS),
        (Crashed(detail=""), False, Ending.FAILURE),
        (Discarded(reason=""), False, Ending.NOTHING),
    ],
)
def test_what_an_outcome_says_of_what_the_job_calls(
    outcome: Outcome, retryable: bool, ending: Ending
) -> None:
    assert ending_of(outcome, retryable=retryable) is ending


# --- budgets -------------------------------------------------------------------------------------


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 200)), max_size=100),
)
async def test_no_window_has_more_retries_than_the_budget_wherever_they_are_put(
    limit: int, retries: list[tuple[float, float]]
) -> None:
    clock = VirtualClock()
    budget = WorkerBudget(limit, 60.0, clock=clock, rng=random.Random(1))  # noqa: S311 - spreads retries
    planned: Counter[int] = Counter()
    for step, delay_s in retries:
        clock.advance(step)
        answer = await budget.take(math.ceil(delay_s), longest_s=1e6)
        assert isinstance(answer, Granted)
        assert answer.delay_s >= delay_s
        assert answer.is_put_off or answer.delay_s <= math.ceil(delay_s) + 3
        planned[int((clock.monotonic() + answer.delay_s) // 60)] += 1
    assert max(planned.values(), default=0) <= limit


async def test_a_retry_is_put_off_no_further_than_allowed() -> None:
    budget = WorkerBudget(1, 60.0, clock=VirtualClock(), rng=random.Random(1))  # noqa: S311 - spreads retries
    for window in range(10):
        await budget.take(window * 60, longest_s=0)
    assert budget.left() == 0
    assert await budget.take(5, longest_s=0) == Exhausted()
    last = await budget.take(5, longest_s=100)
    assert isinstance(last, Granted)
    assert last.delay_s <= 120
