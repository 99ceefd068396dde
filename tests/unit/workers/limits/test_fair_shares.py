"""A fleet limit with fewer tokens than workers: urgent jobs first, and each worker in its turn."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headgate import App, Concurrency, Priority
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.table import Item
from headgate.workers.configuration import WorkerSettings
from headgate.workers.limits.fair_shares import UNRANKED, Need, ShareClaim, wanted
from headgate.workers.worker import Worker
from tests.support.backends import async_over
from tests.unit.workers.rig import Note, Rig, without_threads

RANKS = st.lists(st.integers(0, UNRANKED), min_size=1, max_size=9)
TURNS = st.integers(0, 10**8)

_ROUNDS = 4
"""Renewals of each worker after which the tokens are where they are to be in a turn."""

_MINUTE_S = 60


class Fleet:
    """Workers, all but those that are calm hungry; the hungry ones use every token they have."""

    def __init__(self, limit: int, ranks: Sequence[int]) -> None:
        self._limit = limit
        self.claims = {
            f"w{number}": ShareClaim(0, hungry=True, rank=rank) for number, rank in enumerate(ranks)
        }

    def turn(self, turn: int) -> dict[str, int]:
        """Have the workers renew their leases in a turn; return the tokens of each."""
        for me in [*self.claims] * _ROUNDS:
            mine = self.claims.pop(me)
            need, used = (Need.HUNGRY, mine.tokens) if mine.hungry else (Need.IDLE, 0)
            goal = wanted(self._limit, me, mine, used, need, self.claims, turn)
            self.claims[me] = replace(mine, tokens=goal)
            assert sum(claim.tokens for claim in self.claims.values()) <= self._limit
        return {name: claim.tokens for name, claim in sorted(self.claims.items())}


@given(limit=st.integers(1, 12), ranks=RANKS)
def test_every_hungry_worker_has_a_token_in_some_turn(limit: int, ranks: list[int]) -> None:
    fleet = Fleet(limit, ranks)
    served: set[str] = set()
    for turn in range(4 * len(ranks)):
        tokens = fleet.turn(turn)
        assert sum(tokens.values()) == limit, "none lies idle"
        assert max(tokens.values()) - min(tokens.values()) <= 1, "equally"
        served |= {name for name, count in tokens.items() if count}
    assert served == fleet.claims.keys()


@given(limit=st.integers(2, 12), ranks=RANKS, turn=TURNS)
def test_all_tokens_but_one_go_to_the_most_urgent_in_every_turn(
    limit: int, ranks: list[int], turn: int
) -> None:
    fleet = Fleet(limit, ranks)
    tokens = fleet.turn(turn)
    served = sorted(fleet.claims[name].rank for name, count in tokens.items() if count)
    assert served[: limit - 1] == sorted(ranks)[: limit - 1]


@given(ranks=RANKS, lap=st.integers(0, 10**6))
def test_a_single_token_goes_by_urgency_in_three_turns_of_four(ranks: list[int], lap: int) -> None:
    fleet = Fleet(1, ranks)
    for turn in range(4 * lap + 1, 4 * lap + 4):
        [holder] = [name for name, count in fleet.turn(turn).items() if count]
        assert fleet.claims[holder].rank == min(ranks)


@given(limit=st.integers(2, 12), ranks=RANKS, turn=TURNS)
def test_when_one_worker_becomes_hungry_no_other_gets_a_token(
    limit: int, ranks: list[int], turn: int
) -> None:
    fleet = Fleet(limit, [0, *ranks])
    fleet.claims["w0"] = ShareClaim(0, hungry=False, rank=0)
    before = fleet.turn(turn)
    fleet.claims["w0"] = ShareClaim(0, hungry=True, rank=0)
    after = fleet.turn(turn)
    assert {name for name in before if after[name] > before[name]} <= {"w0"}


@without_threads
async def test_an_urgent_queue_is_served_though_others_hold_all_tokens_and_come_first() -> None:
    app = App("shop")
    db = app.queue("db", priorities=list(Priority), concurrency=Concurrency(3, scope="fleet"))
    starts: list[tuple[str, float]] = []

    @db.job("charge", priority=Priority.CRITICAL)
    async def charge(_note: Note) -> None:
        starts.append(("charge", rig.clock.monotonic()))
        await asyncio.sleep(1)

    @db.job("report", priority=Priority.LOW)
    async def report(_note: Note) -> None:
        starts.append(("report", rig.clock.monotonic()))
        await asyncio.sleep(1)

    rig = Rig(app)
    await rig.submit(report, *["x"] * 2000)
    workers = [_worker(rig, name, Priority.NORMAL, Priority.LOW) for name in "abcd"]
    workers.append(_worker(rig, "urgent", Priority.CRITICAL, Priority.HIGH))
    runs = [asyncio.create_task(worker.run()) for worker in workers]
    await asyncio.sleep(_MINUTE_S)
    began = rig.clock.monotonic()
    await rig.submit(charge, *["x"] * 5)
    await asyncio.sleep(5 * _MINUTE_S)
    charged = [at - began for kind, at in starts if kind == "charge"]
    assert len(charged) == 5
    assert charged[-1] < 30
    reports = sum(kind == "report" and at > began for kind, at in starts)
    assert reports > 2 * 5 * _MINUTE_S * 0.9, "the others use what is left"
    assert {name: entry.get("rank") for name, entry in (await _leases(rig)).items()} == {
        **dict.fromkeys("abcd", Priority.NORMAL.rank),
        "urgent": Priority.CRITICAL.rank,
    }
    for worker in workers:
        worker.hurry()
    await asyncio.gather(*runs)


def _worker(rig: Rig, name: str, *priorities: Priority) -> Worker:
    backend = async_over(
        rig.wire,
        table=rig.table,
        scheduler=rig.scheduler,
        store=rig.store,
        clock=rig.clock,
        rng=random.Random(name),  # noqa: S311 - spreads renewals
    )
    settings = WorkerSettings(priorities=priorities)
    return Worker(rig.app, backend, settings, name=name, events=Events(rig.hear))


async def _leases(rig: Rig) -> dict[str, dict[str, object]]:
    item: Item | None = await rig.table.get("limit#concurrency:queue:db", "leases")
    assert item is not None
    return dict(item.data["leases"])
