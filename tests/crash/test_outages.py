"""A queue service that goes away while jobs run, and comes back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from headgate.ops.local.aws import LocalAws
from tests.support.environment import with_test_credentials
from tests.support.proxy import BROKEN, THROTTLED, Delay, Drop, Fault, Proxy
from tests.support.stage import Stage, stage_on

SECRET = "what-only-the-user-may-see"  # noqa: S105 - stands for a payload


def _is_in_mid_drain(stage: Stage) -> bool:
    """Return True while some jobs are done and others run."""
    done, started = (stage.journal.count(event).total() for event in ("done", "start"))
    return done >= 20 and started > done


@pytest.mark.parametrize(
    "fault",
    [Drop(forward=False), Drop(forward=True), BROKEN, THROTTLED],
    ids=["no connection", "answers lost", "status 500", "throttled"],
)
async def test_an_outage_in_mid_drain_loses_nothing_and_ends_no_worker(
    stage: Stage, fault: Fault
) -> None:
    ids = await stage.submit("brief-slow", 60, seconds=0.1, note=SECRET)
    ids += await stage.submit("brief-gated", 40, note=SECRET)  # which run until the outage began
    async with Proxy(stage.endpoint_url) as proxy:
        worker = await stage.worker("brief", "--concurrency", "10", endpoint_url=proxy.endpoint_url)
        await stage.journal.until(lambda: _is_in_mid_drain(stage))
        proxy.inject(fault)
        stage.open_gate()
        await proxy.until(lambda: proxy.faults["DeleteMessageBatch"] >= 1)
        # It polls no more once it holds as much as it may, of which it can settle nothing.
        await proxy.until(lambda: proxy.faults.total() >= 10)
        proxy.heal()
        await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
        await stage.empties("brief")
        assert worker.alive
    assert await stage.dead("brief") == 0
    assert SECRET not in worker.log
    assert "Traceback" not in worker.log


async def test_answers_that_come_after_thirty_seconds_lose_nothing(stage: Stage) -> None:
    ids = await stage.submit("brief-gated", 60, note=SECRET)
    async with Proxy(stage.endpoint_url) as proxy:
        worker = await stage.worker("brief", "--concurrency", "10", endpoint_url=proxy.endpoint_url)
        await stage.journal.until(lambda: stage.journal.count("start").total() >= 10)
        # Few, since a worker asks for little while nothing answers.
        proxy.inject(Delay(seconds=30), times=3)
        stage.open_gate()
        await proxy.until(lambda: sum(proxy.faults.values()) >= 3)
        await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
        await stage.empties("brief")
        assert worker.alive
    assert await stage.dead("brief") == 0
    assert "Traceback" not in worker.log


async def test_a_service_that_hangs_for_longer_than_the_visibility_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    with LocalAws() as aws:
        async with stage_on(aws.endpoint_url, tmp_path) as stage:
            await stage.provision()
            ids = await stage.submit("brief-slow", 12, seconds=3, note=SECRET)
            worker = await stage.worker("brief", "--concurrency", "6")
            await stage.journal.until(lambda: stage.journal.count("start").total() >= 6)
            os.kill(aws.pid, signal.SIGSTOP)
            try:  # for as long as the jobs just received take, so more than 2 s
                await stage.journal.until(lambda: stage.journal.count("done").total() >= 6)
            finally:
                os.kill(aws.pid, signal.SIGCONT)
            await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
            await stage.empties("brief")
            assert worker.alive
            assert await stage.dead("brief") == 0
            assert SECRET not in worker.log
