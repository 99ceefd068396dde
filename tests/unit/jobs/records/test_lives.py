"""Detection of dead workers by their signs of life and the watcher's own clock alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.ports.table import Item
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.records.lives import LEASE_S, LIVES, Fate, Life, Lives, life_item, read_life
from headgate.jobs.testing import MemoryTable, VirtualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600


class Watching:
    """A worker that watches another."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.table = MemoryTable(self.clock)
        self.lives = Lives(self.table, own="me", clock=self.clock)

    async def beats(
        self,
        beat: int,
        *,
        name: str = "other",
        groups: frozenset[str] = frozenset({"mail"}),
        hides_s: int = 0,
    ) -> None:
        at = self.clock.now()
        life = Life(name=name, beat=beat, groups=groups, at=at, hides_s=hides_s)
        await self.table.put([life_item(life)])

    async def look_for(self, seconds: float, *, every: float = 10) -> None:
        """Look at regular intervals for that many seconds."""
        for _ in range(int(seconds / every)):
            self.clock.advance(every)
            await self.lives.look()

    def fate(self, *, seen: int | None = None) -> Fate:
        return self.lives.fate("other", seen=seen)


async def test_a_worker_that_has_been_silent_for_the_lease_has_died() -> None:
    it = Watching()
    await it.beats(1)
    await it.lives.look()
    await it.look_for(LEASE_S - 10)
    assert it.fate() is Fate.OPEN
    await it.look_for(10)
    assert it.fate() is Fate.DIED


async def test_a_worker_may_run_jobs_until_it_has_ended_or_is_silent_for_the_lease() -> None:
    it = Watching()
    assert it.lives.may_run("other"), "nobody has looked"
    await it.beats(1)
    await it.look_for(LEASE_S)
    assert it.lives.may_run("other")
    await it.look_for(10)
    assert not it.lives.may_run("other"), "it is silent"
    await it.beats(2)
    await it.lives.look()
    assert it.lives.may_run("other"), "it is back"
    it.table.faults.raise_on("page", ServiceUnavailable("gone"))
    with pytest.raises(ServiceUnavailable):
        await it.lives.look()
    await it.table.delete([(LIVES, "other")])
    assert it.lives.may_run("other"), "what is so now is unknown"
    await it.lives.look()
    assert not it.lives.may_run("other"), "it has ended"


async def test_a_worker_that_does_not_come_back_after_an_outage_runs_nothing() -> None:
    it = Watching()
    await it.beats(1)
    await it.lives.look()
    it.lives.doubt()
    await it.look_for(LEASE_S)
    assert it.lives.may_run("other")
    await it.look_for(10)
    assert not it.lives.may_run("other")
    assert it.fate() is Fate.LIVED, "though nobody can say that it crashed"


async def test_a_worker_that_keeps_beating_never_counts_as_dead() -> None:
    it = Watching()
    for beat in range(1, 20):
        await it.beats(beat)
        await it.look_for(10)
        assert it.fate() is Fate.OPEN


async def test_who_has_just_begun_to_watch_judges_nobody() -> None:
    it = Watching()
    assert it.fate() is Fate.OPEN
    await it.beats(1)
    it.clock.advance(3600)
    await it.lives.look()
    assert it.fate() is Fate.OPEN


async def test_silence_is_measured_between_looks() -> None:
    it = Watching()
    await it.beats(1)
    await it.lives.look()
    it.clock.advance(10 * LEASE_S)  # the watcher itself stood still
    assert it.fate() is Fate.OPEN


async def test_a_worker_that_ended_in_order_has_not_died() -> None:
    it = Watching()
    await it.beats(1)
    await it.lives.look()
    await it.table.delete([(LIVES, "other")])
    await it.look_for(10)
    assert it.fate() is Fate.LIVED


async def test_a_worker_that_beat_after_its_message_had_come_again_has_outlived_it() -> None:
    it = Watching()
    await it.beats(7)
    await it.lives.look()
    await it.look_for(LEASE_S)
    assert it.fate(seen=6) is Fate.LIVED
    assert it.fate(seen=7) is Fate.DIED


async def test_a_worker_always_counts_itself_as_alive() -> None:
    it = Watching()
    await it.beats(1, name="me")
    await it.lives.look()
    await it.look_for(LEASE_S)
    assert it.lives.fate("me") is Fate.LIVED


async def test_silence_across_a_table_outage_is_not_a_death() -> None:
    it = Watching()
    await it.beats(1)
    await it.lives.look()
    await it.look_for(LEASE_S - 10)
    it.table.faults.raise_on("page", ServiceUnavailable("away"))
    with pytest.raises(ServiceUnavailable):
        await it.lives.look()
    assert it.fate() is Fate.OPEN
    await it.look_for(LEASE_S)
    assert it.fate() is Fate.OPEN, "the looks before the outage don't count"
    await it.look_for(10)
    assert it.fate() is Fate.LIVED


async def test_a_worker_that_beat_after_an_outage_can_die_like_any_other() -> None:
    it = Watching()
    await it.beats(1)
    await it.lives.look()
    it.lives.doubt()
    await it.beats(2)
    await it.lives.look()
    await it.look_for(LEASE_S)
    assert it.fate() is Fate.DIED


async def test_a_look_of_a_moment_ago_serves_many() -> None:
    it = Watching()
    await it.lives.look()
    for _ in range(100):
        await it.lives.catch_up()
    assert it.table.calls == ["page"]
    it.clock.advance(1)
    await it.lives.catch_up()
    assert it.table.calls == ["page"] * 2


async def test_the_beats_of_those_that_are_known_are_told() -> None:
    it = Watching()
    await it.beats(3)
    await it.lives.look()
    assert it.lives.beats({"other", "nobody"}) == {"other": 3}


@pytest.mark.parametrize(("theirs_s", "ours_s"), [(3 * HOUR, 60), (0, 3 * HOUR)])
async def test_a_life_is_kept_until_no_message_of_its_worker_can_be_hidden(
    theirs_s: int, ours_s: int
) -> None:
    it = Watching()
    await it.beats(1, hides_s=theirs_s)
    await it.beats(1, name="me")
    await it.lives.look()
    await it.look_for(5 * HOUR - 10)
    await it.beats(2, name="me")
    await it.lives.look()
    assert it.lives.forgettable(ours_s) == []
    await it.look_for(10)
    assert it.lives.forgettable(ours_s) == ["other"]


# --- detection of deaths -------------------------------------------------------------------------


async def _after_a_death(groups: frozenset[str] = frozenset({"mail"})) -> tuple[Watching, datetime]:
    it = Watching()
    await it.beats(1, groups=groups)
    died_at = it.clock.now()
    await it.lives.look()
    await it.look_for(LEASE_S)
    return it, died_at


async def test_a_death_counts_for_what_was_sent_before_and_came_again_after() -> None:
    it, died_at = await _after_a_death()
    second = timedelta(seconds=1)
    lease, skew = timedelta(seconds=LEASE_S), timedelta(seconds=SKEW_S)

    def fate(since: datetime, until: datetime) -> Fate:
        return it.lives.fate_of_any("mail", since, until)

    assert fate(died_at - second, died_at + second) is Fate.DIED
    assert fate(died_at + lease, died_at + lease) is Fate.DIED, "it may have died after its beat"
    assert fate(died_at + lease + second, died_at + 2 * lease) is not Fate.DIED
    assert fate(died_at - 100 * lease, died_at - skew) is Fate.DIED
    assert fate(died_at - 100 * lease, died_at - skew - second) is not Fate.DIED


async def test_a_death_counts_for_the_queues_that_the_worker_served() -> None:
    it, died_at = await _after_a_death(frozenset({"uploads"}))
    assert it.lives.fate_of_any("mail", died_at, died_at) is Fate.LIVED
    assert it.lives.fate_of_any("uploads", died_at, died_at) is Fate.DIED


async def test_a_death_before_a_workers_later_sign_of_life_counts_for_nothing() -> None:
    it, died_at = await _after_a_death()
    assert it.lives.fate_of_any("mail", died_at, died_at, without={"other"}) is Fate.LIVED
    assert it.lives.fate_of_any("mail", died_at, died_at, without={"someone else"}) is Fate.DIED


async def test_that_nobody_died_is_known_once_whoever_did_would_have_been_found() -> None:
    it = Watching()
    await it.lives.look()
    now = it.clock.now()
    assert it.lives.fate_of_any("mail", now, now) is Fate.OPEN
    await it.look_for(LEASE_S - 10)
    assert it.lives.fate_of_any("mail", now, now) is Fate.OPEN
    await it.look_for(10)
    assert it.lives.fate_of_any("mail", now, now) is Fate.LIVED
    assert it.lives.fate_of_any("mail", now, it.clock.now()) is Fate.OPEN, "it came just now"


# --- items ---------------------------------------------------------------------------------------


def test_a_life_is_read_as_it_was_written() -> None:
    life = Life(name="w", beat=3, groups=frozenset({"a", "b"}), at=NOW, hides_s=600)
    item = life_item(life)
    assert read_life(item) == life
    assert item.expires_at == NOW + timedelta(days=1)


def test_a_life_of_a_version_that_does_not_tell_its_visibility_is_read() -> None:
    life = Life(name="w", beat=3, groups=frozenset({"a"}), at=NOW)
    for told in ({}, {"hides_s": "600"}, {"hides_s": 10**6}):
        item = life_item(life)
        data = {key: value for key, value in item.data.items() if key != "hides_s"}
        assert read_life(replace(item, data=data | told)) == life


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"beat": "1", "groups": [], "at": NOW.isoformat()},
        {"beat": 1, "groups": "mail", "at": NOW.isoformat()},
        {"beat": 1, "groups": [], "at": "today"},
        {"beat": 1, "groups": [], "at": "2026-01-01T00:00:00"},
        {"beat": 1, "groups": []},
    ],
)
async def test_a_strange_item_is_no_life_and_hinders_no_look(data: dict[str, Any]) -> None:
    strange = Item(pk=LIVES, sk="strange", data=data)
    assert read_life(strange) is None
    it = Watching()
    await it.table.put([strange])
    await it.beats(1)
    await it.lives.look()
    assert it.lives.beats({"strange", "other"}) == {"other": 1}
