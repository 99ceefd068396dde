"""The limits that hold jobs back are reported once, and each is asked again in its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headgate.jobs.core.events import Event, Events, LimitCleared, LimitReached
from headgate.jobs.testing import LoopClock
from headgate.workers.limits.held_limits import HeldLimits

pytestmark = pytest.mark.looptime


class Desk:
    """Limits that hold jobs back for as long as it says, by name."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.told: list[Event] = []
        self.asked: list[tuple[float, list[str]]] = []
        self.still: dict[str, float] = {}
        self.held = HeldLimits(clock=self.clock, events=Events(self.told.append), on_due=self._ask)
        self._began = self.clock.monotonic()

    def _ask(self, limits: Sequence[str]) -> None:
        self.asked.append((round(self.clock.monotonic() - self._began, 2), sorted(limits)))
        for limit in limits:
            if limit in self.still:
                self.held.note(limit, self.still[limit])


async def test_each_limit_is_asked_in_its_time_and_no_other_with_it() -> None:
    desk = Desk()
    for number in (3, 1, 2):
        desk.held.note(f"rate:app#{number}", number)
    desk.held.note("rate:app#3", 4)  # later than known: it is asked at 3 all the same
    desk.held.note("rate:app#2", 0.5)
    await asyncio.sleep(20)
    assert desk.asked == [
        (0.5, ["rate:app#2"]),
        (1.0, ["rate:app#1"]),
        (3.0, ["rate:app#3"]),
    ]


async def test_a_keyed_limit_is_reported_once_and_cleared_with_its_last_key() -> None:
    desk = Desk()
    desk.still = {"rate:app#a": 2}
    desk.held.note("rate:app#a", 2)
    desk.held.note("rate:app#b", 2)
    await asyncio.sleep(3)
    assert [type(event) for event in desk.told] == [LimitReached]
    desk.still.clear()
    await asyncio.sleep(2)
    assert [(type(event), getattr(event, "limit", "")) for event in desk.told] == [
        (LimitReached, "rate:app"),
        (LimitCleared, "rate:app"),
    ]
    desk.held.note("rate:app#a", 1)
    assert len(desk.told) == 3


@pytest.mark.parametrize(("wait_s", "asked_after_s"), [(0, 0.01), (3600, 5), (float("inf"), 5)])
async def test_a_limit_is_asked_neither_at_once_nor_only_after_hours(
    wait_s: float, asked_after_s: float
) -> None:
    desk = Desk()
    desk.held.note("rate:app", wait_s)
    await asyncio.sleep(6)
    assert desk.asked == [(asked_after_s, ["rate:app"])]


async def test_breakers_report_themselves() -> None:
    desk = Desk()
    desk.held.note("breaker:type:work", 1)
    await asyncio.sleep(6)
    assert desk.asked == [(1.0, ["breaker:type:work"])]
    assert desk.told == []


async def test_a_worker_that_has_ended_asks_no_more() -> None:
    desk = Desk()
    desk.held.note("rate:app", 1)
    desk.held.close()
    await asyncio.sleep(6)
    assert desk.asked == []
