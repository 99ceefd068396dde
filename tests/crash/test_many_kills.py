"""A worker that dies fifty times in mid-drain: what it had comes again, and nothing else does."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from tests.support.journal import Journal
from tests.support.stage import Stage

KILLS = 50
JOBS = 2_000
CONCURRENCY = 10
UNSETTLED = 2 * CONCURRENCY
"""Jobs that may have ended in a worker without their messages being deleted yet."""


async def test_fifty_kills_in_mid_drain_lose_nothing_and_repeat_only_what_was_running(
    stage: Stage,
) -> None:
    rng = random.Random(50)  # noqa: S311 - when to kill
    ids = await stage.submit("brief-slow", JOBS, seconds=0.05)
    killed = [await _work_and_die(stage, rng) for _ in range(KILLS)]
    last = await stage.worker("brief", "--concurrency", str(CONCURRENCY))
    await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
    await stage.becomes("brief")
    assert await stage.dead("brief") == 0
    _assert_only_what_was_running_ran_again(stage.journal, killed, last.pid)


async def _work_and_die(stage: Stage, rng: random.Random) -> int:
    """Start a worker, and ``kill -9`` it a moment after its first jobs have started."""
    worker = await stage.worker("brief", "--concurrency", str(CONCURRENCY))
    await stage.journal.until(
        lambda: (
            stage.journal.count("start", pid=worker.pid).total() >= CONCURRENCY
            or stage.journal.count("done").total() >= JOBS
        )
    )
    await asyncio.sleep(rng.uniform(0, 0.2))  # any moment will do
    await worker.kill()
    return worker.pid


def _assert_only_what_was_running_ran_again(journal: Journal, killed: list[int], last: int) -> None:
    starts: dict[str, list[int]] = {}
    for entry in journal.entries():
        if entry.event == "start":
            starts.setdefault(entry.job_id, []).append(entry.pid)
    # Whoever started a job that was started again later has been killed, and never had it twice.
    cut = Counter(pid for pids in starts.values() for pid in pids[:-1])
    assert cut.keys() <= set(killed)
    assert all(len(set(pids)) == len(pids) for pids in starts.values())
    assert max(cut.values(), default=0) <= CONCURRENCY + UNSETTLED
    assert cut, "no kill hit anything: the test shows nothing"
    assert last in {pids[-1] for pids in starts.values()}
