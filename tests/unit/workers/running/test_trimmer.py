"""Failed jobs kept by count: the oldest go, but none whose message may come again."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest

from headgate import App, Keep
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.records.items import SHARDS, Mark, partition
from headgate.jobs.testing.clock import LoopClock
from headgate.jobs.testing.memory.table import MemoryTable
from headgate.workers.running.trimmer import FAILED_EVERY_S, Trimmer
from tests.support.story import Story

pytestmark = pytest.mark.looptime

DAY_S = 86_400
SAFE_S = 4 * DAY_S + MAX_VISIBILITY.total_seconds()
"""The default queue's retention, and the longest that a message is hidden."""


def job_id(number: int) -> str:
    return f"0196a2b4-0000-7000-8000-{number:012x}"


class Bench:
    """A trimmer of the type ``send`` over a table in memory, in the loop's time."""

    def __init__(self, keep: Keep) -> None:
        app = App("shop")
        app.define("send", dict, keep=keep)
        app.define("other", dict)
        self.clock = LoopClock()
        self.start = self.clock.now()
        self.table = MemoryTable(self.clock)
        self.trimmer = Trimmer(
            app,
            self.table,
            clock=self.clock,
            events=Events(),
            rng=random.Random(1),  # noqa: S311 - jitter
        )

    def story(self, number: int, job_type: str = "send") -> Story:
        return Story(job_id(number), start=self.start, job_type=job_type)

    async def write(self, *stories: Story) -> None:
        for story in stories:
            for item in story.items:
                assert not await self.table.put([item])

    async def kept(self, *stories: Story) -> list[Story]:
        """Return the stories of which anything is left."""
        return [each for each in stories if await self.items(each)]

    async def items(self, story: Story) -> list[Item]:
        return await self.table.query(partition(story.job_id))


def dead(bench: Bench, number: int, at_s: float, kind: str = "dead") -> Story:
    return bench.story(number).run(at_s, "failed").run(at_s + 1, kind, 2)


@pytest.mark.parametrize("kind", ["dead", "quarantined"])
async def test_of_failed_jobs_the_latest_are_kept_once_their_messages_are_gone(kind: str) -> None:
    bench = Bench(Keep(last_failed=8))
    jobs = [dead(bench, number, number, kind) for number in range(200)]
    others = [bench.story(1_000 + n, "other").run(n, "dead") for n in range(50)]
    await bench.write(*jobs, *others)
    await asyncio.sleep(SAFE_S)
    assert await bench.trimmer.trim_failed("send")
    assert await bench.kept(*jobs) == jobs, "the message of the oldest may still come"
    await asyncio.sleep(300)
    assert await bench.trimmer.trim_failed("send")
    kept = await bench.kept(*jobs)
    assert len(kept) == 2 * SHARDS
    assert set(map(id, kept)) <= set(map(id, jobs[100:])), "some ten of each part are newer"
    assert await bench.kept(*others) == others


async def test_what_keeps_a_dead_job_from_running_again_stays_as_long_as_its_message_may_come() -> (
    None
):
    bench = Bench(Keep(last_failed=1))
    jobs = [dead(bench, number, number) for number in range(40)]
    claims = [Item(pk=partition(each.job_id), sk="claim", data={"owner": "w"}) for each in jobs]
    await bench.write(*jobs)
    for claim in claims:
        await bench.table.put([claim])
    again = jobs[0].run(2 * DAY_S, "released", 3)  # its message could not be deleted
    await bench.write(again)
    await asyncio.sleep(SAFE_S + 300)
    await bench.trimmer.trim_failed("send")
    assert {item.sk.partition("#")[0] for item in await bench.items(jobs[1])} == {"claim"}
    assert {item.sk.partition("#")[0] for item in await bench.items(again)} == {"claim", "run"}
    await asyncio.sleep(2 * DAY_S)
    await bench.trimmer.trim_failed("send")
    assert {item.sk for item in await bench.items(again)} == {"claim"}


async def test_a_job_that_was_replayed_is_left_and_no_longer_listed_as_dead() -> None:
    bench = Bench(Keep(last_failed=1))
    jobs = [dead(bench, number, number) for number in range(40)]
    lives = jobs[0].replayed(50)
    done = jobs[1].replayed(50).run(60, "completed", message="m-2")
    await bench.write(*jobs)
    await asyncio.sleep(SAFE_S + 300)
    assert await bench.trimmer.trim_failed("send")
    for each in (lives, done):
        items = await bench.items(each)
        assert {item.sk for item in items if item.sk.startswith("run#m-1")} == {
            f"run#m-1#00001#{Mark.FAILED}",
            f"run#m-1#00002#{Mark.DEAD}",
        }
    await bench.trimmer.trim_failed("send")
    listed = [
        item.pk
        for shard in range(SHARDS)
        for item in await bench.table.lines(f"dead#send#{shard}", limit=100)
    ]
    assert partition(lives.job_id) not in listed
    assert partition(done.job_id) not in listed


async def test_a_job_that_died_again_as_another_type_keeps_its_records() -> None:
    bench = Bench(Keep(last_failed=1))
    jobs = [dead(bench, number, number) for number in range(40)]
    again = Story(jobs[0].job_id, start=bench.start, job_type="mail").replayed(50, former="send")
    again.run(60, "dead", message="m-2", source="replay:r-1")
    await bench.write(*jobs, again)
    await asyncio.sleep(SAFE_S + 300)
    assert await bench.trimmer.trim_failed("send")
    left = {item.sk for item in await bench.items(again)}
    assert {f"run#m-1#00002#{Mark.DEAD}", f"run#m-2#00001#{Mark.DEAD}"} <= left


async def test_failed_jobs_are_looked_at_every_hour_though_none_fails_any_more() -> None:
    bench = Bench(Keep(last_failed=4))
    jobs = [dead(bench, number, number) for number in range(40)]
    await bench.write(*jobs)
    trimming = asyncio.create_task(bench.trimmer.run())
    await asyncio.sleep(SAFE_S - 60)
    assert await bench.kept(*jobs) == jobs
    bench.table.calls.clear()
    await asyncio.sleep(FAILED_EVERY_S + 600)
    assert len(await bench.kept(*jobs)) == SHARDS
    trimming.cancel()


async def test_without_a_number_nothing_is_looked_for() -> None:
    bench = Bench(Keep(failed=timedelta(days=9)))
    assert not bench.trimmer.is_needed
    assert Bench(Keep(last_failed=1)).trimmer.is_needed
