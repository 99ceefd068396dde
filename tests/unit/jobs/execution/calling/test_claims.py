"""Claims: whatever is lost, late or dead, a job has one runner at a time, and ends once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from headgate import App, Priority
from headgate.jobs.core.clock import SKEW_S, Clock
from headgate.jobs.core.ports.table import Item
from headgate.jobs.errors import ServiceUnavailable, TransportError
from headgate.jobs.execution.calling.claim_items import (
    ClaimSubject,
    Ended,
    Held,
    Unreadable,
    ended,
    standing_of,
)
from headgate.jobs.execution.calling.claims import GRACE_S, Claim, Claims
from headgate.jobs.execution.outcome import Discarded, Done
from headgate.jobs.records.items import partition
from headgate.jobs.records.results import MAX_RESULT_BYTES
from headgate.jobs.testing import LoopClock, MemoryTable, VirtualClock

LEASE_S = 20.0
JOB = "0198"
SUBJECT = ClaimSubject(job_type="pay", queue="jobs")


def _claim(table: Any, runner: str, clock: Clock) -> Claim:
    return Claim(
        table,
        JOB,
        SUBJECT,
        runner=runner,
        lease_s=LEASE_S,
        keep=timedelta(days=7),
        outstanding=timedelta(days=400),
        clock=clock,
        seals=None,
    )


# --- one after the other -------------------------------------------------------------------------


async def test_a_job_that_nobody_has_is_claimed_with_one_request() -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    claim = _claim(table, "one", clock)
    assert claim.left_s < 0
    assert await claim.take() is None
    assert claim.left_s == LEASE_S
    assert table.calls == ["replace"]


async def test_a_claimed_job_is_held_until_its_lease_has_ended_by_all_clocks() -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    assert await _claim(table, "one", clock).take() is None
    clock.advance(5)
    assert await _claim(table, "two", clock).take() == Held(left_s=LEASE_S - 5 + SKEW_S, ran_s=5)
    clock.advance(LEASE_S - 5)
    assert await _claim(table, "two", clock).take() == Held(left_s=SKEW_S, ran_s=LEASE_S)
    clock.advance(SKEW_S - 0.001)
    assert isinstance(await _claim(table, "two", clock).take(), Held)
    clock.advance(0.001)
    assert await _claim(table, "two", clock).take() == Held(left_s=GRACE_S + SKEW_S, ran_s=0)


async def test_a_lease_that_has_ended_is_taken_over_only_after_the_grace() -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    assert await _claim(table, "one", clock).take() is None
    clock.advance(LEASE_S + SKEW_S)
    assert await _claim(table, "two", clock).take() == Held(left_s=GRACE_S + SKEW_S, ran_s=0)
    clock.advance(GRACE_S)
    assert isinstance(await _claim(table, "three", clock).take(), Held)
    clock.advance(SKEW_S)
    assert await _claim(table, "three", clock).take() is None


@pytest.mark.parametrize("action", ["finish", "release", "renew"])
async def test_within_the_grace_what_its_runner_says_counts(action: str) -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    one = _claim(table, "one", clock)
    assert await one.take() is None
    clock.advance(LEASE_S + SKEW_S)
    assert isinstance(await _claim(table, "two", clock).take(), Held)
    assert await (one.finish(Done(result=1)) if action == "finish" else getattr(one, action)())
    standing = await _claim(table, "two", clock).take()
    expected: dict[str, object] = {
        "finish": Ended(outcome=Done(result=1)),
        "release": None,
        "renew": Held(left_s=LEASE_S + SKEW_S, ran_s=LEASE_S + SKEW_S),
    }
    assert standing == expected[action]


@pytest.mark.parametrize("keep", [timedelta(0), timedelta(days=1), timedelta(days=30)])
async def test_a_done_claim_outlives_every_message_of_its_job(
    keep: timedelta,
) -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    app = App("shop")
    app.queue("mail", priorities=[Priority.NORMAL])
    [spec] = app.topology.queues
    claims = Claims(table, owner="one", clock=clock)
    claim = claims.on(JOB, "pay", spec, keep=keep)
    assert await claim.take() is None
    assert await claim.finish(Done())
    clock.advance(max(keep, spec.retention) - timedelta(seconds=1))
    assert await claims.on(JOB, "pay", spec).take() == Ended(outcome=Done())
    clock.advance(2)
    assert await claims.on(JOB, "pay", spec).take() is None


async def test_a_job_tried_before_is_known_for_as_long_as_schedules_may_bring_it() -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    one = _claim(table, "one", clock)
    assert await one.take() is None
    assert await one.release()
    clock.advance(timedelta(days=399))  # the longest wait possible, in a schedule
    two = _claim(table, "two", clock)
    assert await two.take() is None
    assert await two.finish(Done())
    clock.advance(timedelta(days=399))
    assert await _claim(table, "three", clock).take() == Ended(outcome=Done())


async def _pass_the_lease(table: MemoryTable, clock: VirtualClock) -> None:
    """Let a lease end, and the grace after it."""
    clock.advance(LEASE_S + SKEW_S)
    assert isinstance(await _claim(table, "another", clock).take(), Held)
    clock.advance(GRACE_S + SKEW_S)


@pytest.mark.looptime
async def test_a_lease_counts_from_the_request_and_not_from_its_answer() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    claim = _claim(table, "one", clock)
    table.faults.slow_down("replace", 1.5)
    assert await claim.take() is None
    assert claim.left_s == pytest.approx(LEASE_S - 1.5)


async def test_a_renewed_claim_holds_on() -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    one = _claim(table, "one", clock)
    assert await one.take() is None
    for _ in range(10):
        clock.advance(LEASE_S - 1)
        assert await one.renew()
        assert one.left_s == LEASE_S
    assert await _claim(table, "two", clock).take() == Held(
        left_s=LEASE_S + SKEW_S, ran_s=10 * (LEASE_S - 1)
    )


async def test_a_released_job_can_be_claimed_at_once() -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    one, two = _claim(table, "one", clock), _claim(table, "two", clock)
    assert await one.take() is None
    assert await one.release()
    assert one.left_s < 0
    assert await two.take() is None
    assert not await one.renew()
    assert not await one.release()
    assert not await one.finish(Done())


@pytest.mark.parametrize(
    "outcome",
    [
        Done(),
        Done(result={"pages": [1, 2.5, None]}),
        Done(result="x"),
        Discarded(reason="too late"),
    ],
)
async def test_a_job_that_is_done_is_never_claimed_again_and_its_outcome_is_told(
    outcome: Done | Discarded,
) -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    one = _claim(table, "one", clock)
    assert await one.take() is None
    assert await one.finish(outcome)
    clock.advance(timedelta(days=6))
    assert await _claim(table, "two", clock).take() == Ended(outcome=outcome)
    clock.advance(timedelta(days=1))
    assert await _claim(table, "two", clock).take() is None, "it is remembered for so long"


async def test_an_overtaken_runner_can_not_mark_the_job_done() -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    one, two = _claim(table, "one", clock), _claim(table, "two", clock)
    assert await one.take() is None
    await _pass_the_lease(table, clock)
    assert await two.take() is None
    assert not await one.finish(Done(result="of the first"))
    assert await two.finish(Done(result="of the second"))
    assert await one.take() == Ended(outcome=Done(result="of the second"))


async def test_a_lease_that_has_ended_lets_its_runner_finish_while_nobody_came() -> None:
    clock = VirtualClock()
    one = _claim(MemoryTable(clock), "one", clock)
    assert await one.take() is None
    clock.advance(timedelta(hours=11))
    assert one.left_s < 0
    assert await one.finish(Done())


@pytest.mark.parametrize("action", ["renew", "release", "finish"])
async def test_a_write_whose_answer_was_lost_is_known_again(action: str) -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    one = _claim(table, "one", clock)
    assert await one.take() is None
    table.faults.raise_on("replace", ServiceUnavailable("gone"), applied=True, times=2)
    act: Callable[[], Awaitable[bool]] = {
        "renew": one.renew,
        "release": one.release,
        "finish": lambda: one.finish(Done(result=1)),
    }[action]
    for _ in range(2):
        with pytest.raises(ServiceUnavailable):
            await act()
        clock.advance(1)
    assert await act()


async def test_a_renewal_after_a_lost_one_is_believed_only_from_when_it_was_written() -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    one = _claim(table, "one", clock)
    assert await one.take() is None
    clock.advance(7)
    table.faults.raise_on("replace", ServiceUnavailable("gone"), applied=True)
    with pytest.raises(ServiceUnavailable):
        await one.renew()
    assert one.left_s == LEASE_S - 7
    clock.advance(1)
    assert await one.renew()
    [item] = await table.query(partition(JOB), prefix="claim")
    assert item.data["until"] == clock.now().timestamp() + LEASE_S


@pytest.mark.parametrize(
    "result", [object(), {1: object()}, "x" * MAX_RESULT_BYTES, {"a": b"\xff"}]
)
def test_a_result_that_can_not_be_remembered_leaves_the_job_done(result: object) -> None:
    item = Item(pk="job", sk="claim", version=2, data=ended(Done(result=result)))
    assert standing_of(item, 0) == Ended(outcome=Done())


# --- any interleaving ----------------------------------------------------------------------------


@dataclass
class SkewedClock:
    """A machine's own clocks: the wall clock is wrong, the monotonic one has another origin."""

    true: VirtualClock
    skew_s: float

    def now(self) -> datetime:
        return self.true.now() + timedelta(seconds=self.skew_s)

    def monotonic(self) -> float:
        return self.true.monotonic() + 1000 * self.skew_s


@dataclass(frozen=True)
class Fate:
    """The network's effect on one request."""

    late_s: float = 0
    """Seconds that the request takes, and so does its answer."""
    loses: str = ""
    """``request``, ``answer``, or ``delays``: the request arrives after its sender gave it up."""


class Network:
    """The network between the runners and their table."""

    def __init__(self, table: MemoryTable, clock: VirtualClock) -> None:
        self.table = table
        self.fate = Fate()
        self.delayed: list[Item] = []
        self._clock = clock

    async def replace(self, item: Item) -> Item | None:
        fate = self.fate
        if fate.loses == "delays":
            self.delayed.append(item)
        if fate.loses in ("request", "delays"):
            raise ServiceUnavailable("no answer")
        self._clock.advance(fate.late_s)
        standing = await self.table.replace(item)
        self._clock.advance(fate.late_s)
        if fate.loses == "answer":
            raise ServiceUnavailable("no answer")
        return standing


@dataclass
class Runner:
    """A process that may have the job."""

    clock: SkewedClock
    claim: Claim | None = None
    """The claim it holds; None while it does not work on the job."""


FATES = st.builds(
    Fate,
    late_s=st.sampled_from([0.0, 0.0, 0.5, 4.0, 30.0]),
    loses=st.sampled_from(["", "", "", "request", "answer", "delays"]),
)
RUNNERS = st.integers(min_value=0, max_value=3)


async def test_a_lease_is_believed_in_from_before_it_was_asked_for() -> None:
    clock = VirtualClock()
    network = Network(MemoryTable(clock), clock)
    network.fate = Fate(late_s=4)
    claim = _claim(network, "one", clock)
    assert await claim.take() is None
    assert claim.left_s == LEASE_S - 8


class Claiming(RuleBasedStateMachine):
    """Runners on machines with different clocks compete for one job, over a faulty network."""

    @initialize(skews=st.lists(st.floats(-SKEW_S / 2, SKEW_S / 2), min_size=4, max_size=4))
    def begin(self, skews: list[float]) -> None:
        self.clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
        # The table's own clock plays no part: only expiry, days later, depends on it.
        self.table = MemoryTable(self.clock)
        self.network = Network(self.table, self.clock)
        self.runners = [Runner(SkewedClock(self.clock, skew)) for skew in skews]
        self.named = 0
        self.ends = 0
        self.loop = asyncio.Runner()

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def _ask(self, fate: Fate, asking: Awaitable[Any]) -> Any:
        async def ask() -> Any:
            return await asking

        self.network.fate = fate
        try:
            return self.loop.run(ask())
        except TransportError:
            return None

    def _standing(self) -> Item | None:
        return self.loop.run(self.table.get(partition(JOB), "claim"))

    def _is_done(self) -> bool:
        standing = self._standing()
        return standing is not None and standing.data["state"] == "done"

    @rule(who=RUNNERS, fate=FATES)
    def deliver(self, who: int, fate: Fate) -> None:
        runner = self.runners[who]
        if runner.claim is not None:
            return
        self.named += 1
        claim = _claim(self.network, f"runner-{self.named}", runner.clock)
        was_done = self._is_done()
        answer = self._ask(fate, _taken(claim))
        if was_done:
            assert answer is None or isinstance(answer, Ended)
        if answer == "mine":
            runner.claim = claim

    @rule(who=RUNNERS, other=RUNNERS)
    def deliver_twice(self, who: int, other: int) -> None:
        """Let two runners ask at the same time."""
        idle = [self.runners[each] for each in {who, other} if self.runners[each].claim is None]
        claims = []
        for runner in idle:
            self.named += 1
            claims.append(_claim(self.network, f"runner-{self.named}", runner.clock))
        answers = self._ask(Fate(), _together([_taken(claim) for claim in claims]))
        for runner, claim, answer in zip(idle, claims, answers, strict=True):
            if answer == "mine":
                runner.claim = claim

    @rule(who=RUNNERS, fate=FATES)
    def renew(self, who: int, fate: Fate) -> None:
        runner = self.runners[who]
        # A runner whose lease has ended stops, so it renews nothing.
        if runner.claim is not None and runner.claim.left_s > 0:
            # A refused runner goes on, as a synchronous handler does, and may want to finish.
            self._ask(fate, runner.claim.renew())

    @rule(who=RUNNERS, fate=FATES)
    def fail(self, who: int, fate: Fate) -> None:
        runner = self.runners[who]
        if runner.claim is not None:
            self._ask(fate, runner.claim.release())
            runner.claim = None

    @rule(who=RUNNERS, fate=FATES)
    def finish(self, who: int, fate: Fate) -> None:
        runner = self.runners[who]
        if runner.claim is None:
            return
        match self._ask(fate, runner.claim.finish(Done(result=who))):
            case True:
                self.ends += 1
                runner.claim = None
            case False:
                runner.claim = None
            case _:
                pass  # it tries again, for as long as it can

    @rule(who=RUNNERS)
    def crash(self, who: int) -> None:
        self.runners[who].claim = None

    @rule(by_s=st.sampled_from([0.1, 1.0, 6.0, LEASE_S, 60.0]))
    def pass_time(self, by_s: float) -> None:
        self.clock.advance(by_s)

    @precondition(lambda self: self.network.delayed)
    @rule(place=st.integers(min_value=0))
    def arrive(self, place: int) -> None:
        """Let a request arrive that its sender gave up long ago."""
        delayed = self.network.delayed
        self.loop.run(self.table.replace(delayed.pop(place % len(delayed))))

    @invariant()
    def nobody_shares_the_job(self) -> None:
        if hasattr(self, "runners"):
            claims = [each.claim for each in self.runners if each.claim is not None]
            assert sum(claim.left_s > 0 for claim in claims) <= 1

    @invariant()
    def the_job_ends_once(self) -> None:
        if hasattr(self, "runners"):
            assert self.ends <= 1
            assert not self.ends or self._is_done()


async def _taken(claim: Claim) -> Held | Ended | Unreadable | str:
    return await claim.take() or "mine"


async def _together(asking: list[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*asking)


TestClaiming = Claiming.TestCase
TestClaiming.settings = settings(max_examples=300, stateful_step_count=40)
