"""Workers that die without a trace."""

from __future__ import annotations

import asyncio
import signal

from tests.support.fixture_app import KILLED
from tests.support.journal import GENEROUS_S
from tests.support.stage import Stage
from tests.support.workers import WorkerProcess

CONCURRENCY = 10


async def test_kill_9_in_mid_drain_repeats_only_unsettled_jobs(
    stage: Stage,
) -> None:
    ids = await stage.submit("short-slow", 120, seconds=0.05)
    ids += await stage.submit("short-gated", 80)  # however late the kill is, some are left
    first = await stage.worker("short", "--concurrency", str(CONCURRENCY))
    await stage.journal.until(lambda: stage.journal.count("done").total() >= 60)
    await _first_is_deleted(stage, "short", len(ids))
    await first.kill()
    stage.open_gate()
    started = stage.journal.count("start")
    left = await stage.depth("short")
    deleted = len(ids) - left.visible - left.in_flight
    assert 0 < deleted < len(ids)

    await stage.worker("short", "--concurrency", str(CONCURRENCY))
    await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
    await stage.empties("short")
    starts = stage.journal.count("start")
    repeated = {job for job, times in starts.items() if times > 1}
    assert set(starts.values()) <= {1, 2}
    assert repeated <= started.keys()
    # A job that had ended, but whose message was not deleted yet, counts as running.
    assert len(repeated) <= len(started) - deleted
    assert await stage.dead("short") == 0


async def _first_is_deleted(stage: Stage, group: str, submitted: int) -> None:
    async with asyncio.timeout(GENEROUS_S):
        while (depth := await stage.depth(group)).visible + depth.in_flight == submitted:  # noqa: ASYNC110 - SQS tells nobody
            await asyncio.sleep(0.05)


async def test_a_job_that_kills_its_worker_takes_no_other_job_with_it(stage: Stage) -> None:
    [killer] = await stage.submit("brief-lethal")
    ids = await stage.submit("brief-slow", 20, seconds=0.05)
    first = await stage.worker("brief")
    assert await first.ended() == KILLED

    second = await stage.worker("brief")
    await stage.journal.until(lambda: stage.journal.count("done").keys() == {killer, *ids})
    assert stage.journal.count("start")[killer] == 2
    await stage.empties("brief")
    assert second.alive


async def test_a_worker_that_was_frozen_notices_that_others_have_its_jobs(stage: Stage) -> None:
    ids = await stage.submit("brief-gated", 3)
    first = await stage.worker("brief", "--concurrency", "3")  # so that no slot is left for a poll
    await stage.journal.until(lambda: stage.journal.count("start").keys() == set(ids))
    first.send(signal.SIGSTOP)
    second = await stage.worker("brief")
    await stage.journal.until(
        lambda: stage.journal.count("start", pid=second.pid).keys() == set(ids)
    )
    first.send(signal.SIGCONT)
    await first.logged("receipt.lost", times=3)
    await stage.journal.until(
        lambda: stage.journal.count("cancelled", pid=first.pid).keys() == set(ids)
    )
    stage.open_gate()
    await stage.empties("brief")
    assert stage.journal.count("done", pid=first.pid).keys() == set()
    assert stage.journal.count("done", pid=second.pid) == dict.fromkeys(ids, 1)
    assert await stage.dead("brief") == 0
    assert first.alive


async def test_a_thawed_worker_does_not_settle_a_job_that_another_has(
    stage: Stage,
) -> None:
    [job] = await stage.submit("brief-gated")
    first = await stage.worker("brief", "--concurrency", "1")
    await stage.journal.until(lambda: stage.journal.count("start").total() == 1)
    first.send(signal.SIGSTOP)
    second = await stage.worker("brief")
    await stage.journal.until(lambda: stage.journal.count("start", pid=second.pid).total() == 1)
    second.send(signal.SIGSTOP)  # it has the message, and can't finish first
    stage.open_gate()
    first.send(signal.SIGCONT)
    await stage.journal.until(lambda: not _events(stage, first).isdisjoint({"done", "cancelled"}))
    second.send(signal.SIGCONT)
    await stage.journal.until(lambda: stage.journal.count("done", pid=second.pid)[job] == 1)
    await stage.empties("brief")
    assert await stage.dead("brief") == 0


def _events(stage: Stage, worker: WorkerProcess) -> set[str]:
    return {entry.event for entry in stage.journal.entries(pid=worker.pid)}


async def test_a_job_of_three_visibility_timeouts_runs_once(stage: Stage) -> None:
    [job] = await stage.submit("short-slow", seconds=12)
    await stage.worker("short")
    await stage.journal.until(lambda: stage.journal.count("done")[job] == 1)
    await stage.empties("short")
    assert stage.journal.count("start") == {job: 1}
