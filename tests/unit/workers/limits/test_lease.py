"""A limit of the fleet is divided fairly, and never exceeded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.ports.table import Item
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.testing import LoopClock, MemoryTable
from headgate.workers.limits.fair_shares import LargeNeed, Need, ShareClaim, wanted
from headgate.workers.limits.lease import LEASE_S, RENEW_S, Lease


class Holder:
    """A worker with one lease, and the number of tokens that it uses."""

    def __init__(
        self,
        table: MemoryTable,
        name: str,
        clock: LoopClock,
        limit: int = 10,
        *,
        lasting_s: float | None = 0,
        rank: int = 0,
        may_run: Callable[[str], bool] = lambda _worker: False,
    ) -> None:
        self.used = 0
        self.lease = Lease(
            table,
            "rate:app",
            name,
            limit,
            in_use=lambda: self.used,
            lasting_s=lasting_s,
            may_run=may_run,
            rank=rank,
            clock=clock,
            rng=random.Random(name),  # noqa: S311 - spreads renewals
        )

    @property
    def tokens(self) -> int:
        return self.lease.tokens

    async def renew(self, *, hungry: bool | None = None) -> None:
        """Renew the lease; ``hungry`` is None if no job was asked about."""
        if hungry is not None:
            self.lease.ask(enough=not hungry)
        await self.lease.renew()


@pytest.mark.looptime
async def test_a_worker_alone_leases_everything() -> None:
    clock = LoopClock()
    one = Holder(MemoryTable(clock), "one", clock)
    assert one.tokens == 0
    await one.renew()
    assert one.tokens == 10
    assert one.lease.fault == ""


@pytest.mark.looptime
async def test_hungry_workers_share_equally_within_the_limit() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    workers = [Holder(table, f"w{number}", clock, limit=12) for number in range(5)]
    for _ in range(4):
        await asyncio.gather(*(each.renew(hungry=True) for each in workers))
        assert sum(each.tokens for each in workers) <= 12
        await asyncio.sleep(RENEW_S)
    assert [each.tokens for each in workers] == [3, 3, 2, 2, 2], "nothing is left over"


@pytest.mark.looptime
async def test_a_worker_that_uses_every_token_still_gives_others_their_share() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    one, two = Holder(table, "one", clock), Holder(table, "two", clock)
    await one.renew()
    one.used = 10
    for _ in range(4):
        await two.renew(hungry=True)
        two.used = two.tokens
        await one.renew(hungry=True)
        one.used = max(one.tokens, one.used - 3)  # some end, and no more start than allowed
        assert one.used + two.used <= 10
    assert (one.tokens, two.tokens) == (5, 5)


@pytest.mark.looptime
async def test_what_is_in_use_when_it_is_given_up_is_nobody_s_until_it_is_back() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    one, two = Holder(table, "one", clock), Holder(table, "two", clock)
    await one.renew()
    for one.used in (9, 7, 4):
        await two.renew(hungry=True)
        await one.renew(hungry=True)
        await two.renew(hungry=True)
        assert one.tokens == 5
        assert two.tokens == 10 - max(one.used, 5)


@pytest.mark.looptime
async def test_what_starts_while_others_come_first_counts_as_in_use() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    one, two, three = (Holder(table, name, clock) for name in ("one", "two", "three"))
    await one.renew()
    await three.renew(hungry=True)  # which one does not know yet, so its next try comes too late
    table.faults.slow_down("replace", 0.5)
    renewal = asyncio.create_task(one.renew(hungry=True))
    await asyncio.sleep(0.1)
    one.used = one.tokens
    await renewal
    for other in (two, three):
        await other.renew(hungry=True)
        other.used = other.tokens
    assert one.used + two.used + three.used <= 10


@pytest.mark.looptime
async def test_what_is_given_up_is_not_used_while_that_is_being_said() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    one, two = Holder(table, "one", clock), Holder(table, "two", clock)
    await one.renew()
    await two.renew(hungry=True)
    table.faults.slow_down("replace", 0)  # which tells it about the other
    table.faults.slow_down("replace", 3)
    renewal = asyncio.create_task(one.renew(hungry=True))
    await asyncio.sleep(1)
    assert one.tokens == 5
    await renewal


@pytest.mark.looptime
async def test_a_lease_counts_from_the_request_and_not_from_its_answer() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    one = Holder(table, "one", clock)
    table.faults.slow_down("replace", 3)
    await one.renew()
    await asyncio.sleep(LEASE_S - 3.1)
    assert one.tokens == 10
    await asyncio.sleep(0.2)
    assert one.tokens == 0


@pytest.mark.looptime
async def test_a_worker_of_other_queues_holds_no_tokens_that_others_need() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    aside, busy = Holder(table, "aside", clock), Holder(table, "busy", clock)
    await aside.renew()
    for _ in range(3):
        await busy.renew(hungry=True)
        busy.used = busy.tokens
        await aside.renew()
    assert (aside.tokens, busy.tokens) == (0, 10)


@pytest.mark.looptime
async def test_a_worker_without_work_keeps_enough_to_begin_and_gets_its_part_back() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    calm, busy = Holder(table, "calm", clock), Holder(table, "busy", clock)
    await calm.renew()
    for _ in range(3):
        await busy.renew(hungry=True)
        busy.used = busy.tokens
        await calm.renew(hungry=False)
    assert (calm.tokens, busy.tokens) == (1, 9)
    calm.used = 1
    await calm.renew(hungry=True)
    await busy.renew(hungry=True)
    busy.used = busy.tokens
    await busy.renew(hungry=True)
    await calm.renew(hungry=True)
    assert (calm.tokens, busy.tokens) == (5, 5)


@pytest.mark.looptime
async def test_a_dead_workers_tokens_return_once_its_used_ones_have_expired() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    dead, heir = (Holder(table, name, clock, lasting_s=60) for name in ("dead", "heir"))
    await dead.renew()
    await heir.renew()
    assert heir.tokens == 0
    await asyncio.sleep(LEASE_S + SKEW_S + 59)
    await heir.renew()
    assert heir.tokens == 0
    await asyncio.sleep(2)
    await heir.renew()
    assert heir.tokens == 10


@pytest.mark.looptime
async def test_an_unrenewed_lease_ends_before_others_may_use_its_tokens() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    one = Holder(table, "one", clock)
    await one.renew()
    table.faults.raise_on(None, ServiceUnavailable("gone"), times=1000)
    await asyncio.sleep(RENEW_S)
    await one.renew()
    assert one.tokens == 10
    assert "gone" in one.lease.fault
    await asyncio.sleep(LEASE_S - RENEW_S)
    assert one.tokens == 0


@pytest.mark.looptime
async def test_a_renewal_whose_answer_was_lost_leaves_no_token_with_two_workers() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    one, two = Holder(table, "one", clock), Holder(table, "two", clock)
    await one.renew()
    for _ in range(10):
        table.faults.raise_on("replace", ServiceUnavailable("lost"), applied=True)
        await one.renew(hungry=True)
        await two.renew(hungry=True)
        assert one.tokens + two.tokens <= 10
        await asyncio.sleep(RENEW_S)


@pytest.mark.looptime
async def test_a_lease_given_back_is_free_at_once_but_for_what_is_still_out() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    one, two = (Holder(table, name, clock, lasting_s=60) for name in ("one", "two"))
    await one.renew()
    one.used = 3
    await one.lease.close()
    assert one.tokens == 0
    await two.renew()
    assert two.tokens == 7
    await asyncio.sleep(60 + SKEW_S + 1)
    await two.renew(hungry=True)
    assert two.tokens == 10


@pytest.mark.looptime
@pytest.mark.parametrize("renewal_first", [True, False])
async def test_a_renewal_under_way_takes_nothing_back_of_a_lease_given_up(
    *, renewal_first: bool
) -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    one, two = Holder(table, "one", clock), Holder(table, "two", clock)
    await one.renew()
    both = [one.lease.renew, one.lease.close]
    await asyncio.gather(*(each() for each in (both if renewal_first else reversed(both))))
    assert one.tokens == 0
    assert one.lease.fault == ""
    await two.renew()
    assert two.tokens == 10


@pytest.mark.looptime
@given(seed=st.integers(0, 10_000), workers=st.integers(1, 6), limit=st.integers(1, 20))
async def test_whatever_fails_and_whoever_dies_no_more_is_in_use_than_the_limit(
    seed: int, workers: int, limit: int
) -> None:
    rng = random.Random(seed)  # noqa: S311 - a test's own choices
    clock = LoopClock()
    table = MemoryTable(clock)
    made = count()

    def holder() -> Holder:
        return Holder(table, f"{seed}-{next(made)}", clock, limit=limit)

    living = [holder() for _ in range(workers)]
    for _ in range(40):
        one = rng.choice(living)
        if rng.random() < 0.3:
            fault = ServiceUnavailable("gone")
            table.faults.raise_on("replace", fault, applied=rng.random() < 0.5)
        if rng.random() < 0.1:  # killed, and another takes its place
            living.remove(one)
            living.append(holder())
        else:
            await one.renew(hungry=rng.choice([None, False, True]))
            assert sum(each.tokens for each in living) <= limit
        if one.tokens > one.used:
            one.used = rng.randint(one.used, one.tokens)
        pause_s = rng.choice([0.1, 1, 5, 30])
        assert sum(each.used for each in living) <= limit
        for each in living:  # lapsed tokens may no longer be in use
            each.used = rng.randint(0, each.used) if pause_s < SKEW_S else 0
        await asyncio.sleep(pause_s)


@pytest.mark.looptime
@given(seed=st.integers(0, 10_000), workers=st.integers(1, 6), limit=st.integers(1, 20))
async def test_however_long_jobs_outlast_their_leases_no_slot_is_taken_twice(
    seed: int, workers: int, limit: int
) -> None:
    rng = random.Random(seed)  # noqa: S311 - a test's own choices
    clock = LoopClock()
    table = MemoryTable(clock)
    made = count()
    living: dict[str, Holder] = {}

    def add() -> None:
        name = f"{seed}-{next(made)}"
        living[name] = Holder(
            table, name, clock, limit, lasting_s=None, may_run=living.__contains__
        )

    for _ in range(workers):
        add()
    for _ in range(40):
        name = rng.choice([*living])
        one = living[name]
        if rng.random() < 0.4:
            fault = ServiceUnavailable("gone")
            table.faults.raise_on("replace", fault, applied=rng.random() < 0.5)
        if rng.random() < 0.1:  # killed, and another takes its place
            del living[name]
            add()
        else:
            await one.renew(hungry=rng.choice([None, False, True]))
        if one.tokens > one.used:
            one.used = rng.randint(one.used, one.tokens)
        assert sum(each.used for each in living.values()) <= limit
        for each in living.values():  # some jobs end; leases don't end the others
            each.used = rng.randint(0, each.used) if rng.random() < 0.3 else each.used
        await asyncio.sleep(rng.choice([0.1, 1, 5, 30, 300]))


@pytest.mark.looptime
async def test_slots_of_a_worker_without_a_lease_are_free_once_it_runs_nothing() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    alive = {"away"}
    away, heir = (
        Holder(table, name, clock, lasting_s=None, may_run=alive.__contains__)
        for name in ("away", "heir")
    )
    await away.renew()
    away.used = 6
    await away.renew(hungry=True)
    for _ in range(3):
        await asyncio.sleep(LEASE_S + SKEW_S)
        assert away.tokens == 0
        await heir.renew(hungry=True)
        assert heir.tokens == 0, "nobody knows how many of its slots it still uses"
    await away.renew(hungry=True)
    await heir.renew(hungry=True)
    assert heir.tokens == 10 - away.used, "it is back, and has said so"
    away.used = 5
    await away.renew(hungry=True)
    await heir.renew(hungry=True)
    assert (away.tokens, heir.tokens) == (5, 5)
    alive.clear()
    await asyncio.sleep(LEASE_S + SKEW_S)
    await heir.renew(hungry=True)
    assert heir.tokens == 10


@given(
    limit=st.integers(1, 1000),
    needs=st.lists(st.sampled_from([Need.IDLE, Need.ENOUGH, Need.HUNGRY]), min_size=1, max_size=8),
    begun=st.lists(st.integers(0, 1000), min_size=8, max_size=8),
)
def test_wherever_the_tokens_are_they_come_to_those_who_need_them(
    limit: int, needs: list[Need], begun: list[int]
) -> None:
    claims: dict[str, ShareClaim] = {}
    for number, need in enumerate(needs):
        left = limit - sum(claim.tokens for claim in claims.values())
        claims[str(number)] = ShareClaim(min(left, begun[number]), need is Need.HUNGRY)
    for _ in range(4):  # each in turn, with the tokens it uses if it is hungry, and none otherwise
        for number, need in enumerate(needs):
            mine = claims.pop(me := str(number))
            used = mine.tokens if need is Need.HUNGRY else 0
            goal = wanted(limit, me, mine, used, need, claims)
            claims[me] = replace(mine, tokens=goal)
            assert 0 <= sum(claim.tokens for claim in claims.values()) <= limit
    hungry = [claims[str(n)].tokens for n, need in enumerate(needs) if need is Need.HUNGRY]
    if hungry:
        assert max(hungry) - min(hungry) <= 1, "equally"
        assert sum(hungry) >= limit - sum(need is Need.ENOUGH for need in needs), "nearly all"


@pytest.mark.looptime
async def test_a_job_that_needs_more_than_a_part_gets_its_tokens_and_then_gives_them_back() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    workers = [Holder(table, f"w{number}", clock, limit=12) for number in range(4)]
    for _ in range(3):
        for each in workers:
            await each.renew(hungry=True)
    assert [each.tokens for each in workers] == [3, 3, 3, 3]
    for needs in (10, 0):
        workers[2].lease.ask(enough=not needs, needs=needs)
        for _ in range(3):
            for each in workers:
                await each.renew(hungry=True)
                assert sum(other.tokens for other in workers) <= 12
            if needs:
                workers[2].lease.ask(enough=False, needs=needs)
        assert workers[2].tokens == (needs or 3)


@pytest.mark.looptime
async def test_a_job_that_nobody_asks_about_any_more_needs_no_tokens() -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    one, two = Holder(table, "one", clock), Holder(table, "two", clock)
    one.lease.ask(enough=False, needs=9)
    for _ in range(3):
        await one.renew(hungry=True)
        await two.renew(hungry=True)
    assert (one.tokens, two.tokens) == (9, 1)
    await asyncio.sleep(3 * RENEW_S)
    for _ in range(3):
        await one.renew(hungry=True)
        await two.renew(hungry=True)
    assert (one.tokens, two.tokens) == (5, 5)


def test_of_two_jobs_that_need_several_tokens_the_older_one_gets_them_first() -> None:
    older, newer = LargeNeed(100.0, 8), LargeNeed(101.0, 9)
    for mine, theirs, goal in ((older, newer, 8), (newer, older, 2)):
        other = {"b": ShareClaim(0, hungry=True, large=theirs)}
        claim = ShareClaim(5, hungry=True, large=mine)
        assert wanted(10, "a", claim, 0, Need.HUNGRY, other) == goal


@pytest.mark.looptime
@pytest.mark.parametrize("large", [7, "x", {}, {"tokens": 99, "since": 0}, {"tokens": 3}])
async def test_a_need_in_the_item_that_is_none_is_ignored(large: object) -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    until = clock.now().timestamp() + LEASE_S
    entry = {"tokens": 1, "until": until, "hungry": True, "large": large}
    one = Holder(table, "one", clock)
    item = Item(pk="limit#rate:app", sk="leases", data={"leases": {"two": entry}}, version=1)
    await table.replace(item)
    await one.renew(hungry=True)
    assert one.tokens == 5


@pytest.mark.looptime
@pytest.mark.parametrize("rank", [None, "x", -1, 99, True, 2.5])
async def test_a_lease_without_a_rank_is_served_last_and_never_beyond_the_limit(
    rank: object,
) -> None:
    clock = LoopClock()
    table = MemoryTable(clock)
    until = clock.now().timestamp() + LEASE_S
    entry = {"tokens": 1, "until": until, "hungry": True}  # as an older version writes it
    older = entry if rank is None else {**entry, "rank": rank}
    leases = {"a": older, "b": {**entry, "tokens": 0}}
    await table.replace(Item(pk="limit#rate:app", sk="leases", data={"leases": leases}, version=1))
    mine = Holder(table, "z", clock, limit=2, rank=3)
    await mine.renew(hungry=True)
    assert mine.tokens == 1


def test_times_of_leases_leave_room_for_two_failed_renewals() -> None:
    assert timedelta(seconds=LEASE_S) > 3 * timedelta(seconds=RENEW_S)
