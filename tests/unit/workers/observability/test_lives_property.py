"""Workers that live, end, die and lose their table: only the killed are declared dead."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.jobs.core.events import Event, Events
from headgate.jobs.errors import ServiceUnavailable, TransportError
from headgate.jobs.records.lives import LEASE_S, RENEW_S, Fate, Lives
from headgate.jobs.testing import LoopClock, MemoryTable
from headgate.workers.observability.lifeline import Lifeline

pytestmark = pytest.mark.looptime


class Fleet:
    """Workers that live in one table, and the deaths that each has seen."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.table = MemoryTable(self.clock)
        self.events: list[Event] = []
        self._running: dict[str, asyncio.Task[None]] = {}

    def watcher(self, name: str = "watcher") -> Lives:
        return Lives(self.table, own=name, clock=self.clock)

    def lifeline(self, name: str, lives: Lives | None = None, *, group: str = "jobs") -> Lifeline:
        return Lifeline(
            self.table,
            lives or self.watcher(name),
            name=name,
            groups=[group],
            hides_s=0,
            clock=self.clock,
            events=Events(self.events.append),
            rng=random.Random(name),  # noqa: S311 - spreads beats
        )

    async def begin(self, name: str, lives: Lives | None = None, *, group: str = "jobs") -> None:
        """Start a worker."""
        lifeline = self.lifeline(name, lives, group=group)
        await lifeline.start()
        self._running[name] = asyncio.create_task(self._live(lifeline))

    async def kill(self, name: str) -> None:
        """Kill a worker, which leaves no trace."""
        task = self._running.pop(name)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def end(self, name: str) -> None:
        """End a worker in order."""
        await self.kill(name)
        await self.lifeline(name).close()

    async def close(self) -> None:
        for name in [*self._running]:
            await self.kill(name)

    async def _live(self, lifeline: Lifeline) -> None:
        await lifeline.run()


async def watched(lives: Lives, seconds: float) -> None:
    """Look every few seconds during that time, as a worker does."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    while loop.time() < ends_at:
        with suppress(TransportError):
            await lives.look()
        await asyncio.sleep(RENEW_S)
    with suppress(TransportError):
        await lives.look()


async def test_an_outage_of_the_table_makes_nobody_dead() -> None:
    lives = (fleet := Fleet()).watcher()
    await fleet.begin("one")
    await fleet.begin("two")
    await watched(lives, 60)
    fleet.table.faults.raise_on(None, ServiceUnavailable("gone"), times=10_000)
    await watched(lives, 600)
    await fleet.end("two")  # which can't report it
    for name in ("one", "two"):
        assert lives.fate(name) is Fate.OPEN
    fleet.table.faults.clear()
    await lives.look()
    assert lives.fate("one") is Fate.OPEN, "it has had no time to beat"
    await watched(lives, LEASE_S + RENEW_S)
    assert lives.fate("one") is Fate.OPEN
    assert lives.fate("two") is Fate.LIVED, "it may have ended while it could not say so"
    await fleet.kill("one")
    await watched(lives, LEASE_S + RENEW_S)
    assert lives.fate("one") is Fate.DIED, "one that beat again is watched as before"
    await fleet.close()


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    steps=st.lists(
        st.sampled_from(["wait", "wait", "away", "back", "begin", "end", "kill"]), max_size=25
    ),
)
async def test_whoever_is_called_dead_was_killed_whatever_the_table_does(
    seed: int, steps: list[str]
) -> None:
    rng, fleet = random.Random(seed), Fleet()  # noqa: S311 - a test's own choices
    lives = fleet.watcher()
    living, killed, number, is_away = list[str](), set[str](), 0, False
    watching = asyncio.create_task(watched(lives, 10**6))
    for step in steps:
        if step == "begin":
            number += 1
            await fleet.begin(name := f"w{number}")
            living.append(name)
        elif step in ("end", "kill") and living:
            name = living.pop(rng.randrange(len(living)))
            await (fleet.end(name) if step == "end" else fleet.kill(name))
            # A worker that ends while the table is away can't be told from a killed one.
            if step == "kill" or is_away:
                killed.add(name)
        elif step == "away":
            is_away = True
            fleet.table.faults.raise_on(None, ServiceUnavailable("gone"), times=10_000)
        elif step == "back":
            is_away = False
            fleet.table.faults.clear()
        await asyncio.sleep(rng.choice([0.5, 5, 20, 60]))
        dead = {f"w{n}" for n in range(number + 1) if lives.fate(f"w{n}") is Fate.DIED}
        assert dead <= killed
    fleet.table.faults.clear()
    watching.cancel()
    await fleet.close()
