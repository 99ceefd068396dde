"""Submitters whose queue service is away, and that are killed before it comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.jobs.client.spool.window import PARALLEL
from tests.support.ports import NOWHERE
from tests.support.proxy import BROKEN, THROTTLED, Drop, Fault, Hold, Proxy
from tests.support.stage import Stage
from tests.support.submitter import Kind, Submitter


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_spooled_jobs_survive_their_submitters_death_and_run_once(
    stage: Stage, tmp_path: Path, kind: Kind
) -> None:
    spool = tmp_path / "jobs.spool"
    dead = stage.environment(endpoint_url=NOWHERE)
    async with Submitter(spool, dead, kind=kind) as submitter:
        ids = await submitter.submit("steady-quick", 25)
        assert len(set(ids)) == 25
        await submitter.kill()
    async with Submitter(spool, stage.environment(), kind=kind) as restarted:
        await stage.worker("steady")
        await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
        later = await restarted.submit("steady-quick", 1)
        await stage.journal.until(lambda: stage.journal.count("done").keys() == {*ids, *later})
        assert await restarted.end() == 0
    await stage.empties("steady")
    assert stage.journal.count("start") == dict.fromkeys([*ids, *later], 1)


@pytest.mark.parametrize(
    "fault",
    [Drop(forward=False), BROKEN, THROTTLED],
    ids=["no connection", "status 500", "throttled"],
)
async def test_a_living_submitter_sends_its_spool_when_the_service_is_back(
    stage: Stage, tmp_path: Path, fault: Fault
) -> None:
    async with Proxy(stage.endpoint_url) as proxy:
        proxy.inject(fault)
        env = stage.environment(endpoint_url=proxy.endpoint_url)
        async with Submitter(tmp_path / "jobs.spool", env) as submitter:
            ids = await submitter.submit("steady-quick", 12)
            assert not proxy.forwarded["SendMessageBatch"]
            proxy.heal()
            await stage.worker("steady")
            await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
            await stage.empties("steady")
    assert stage.journal.count("start") == dict.fromkeys(ids, 1)


async def test_two_processes_that_drain_one_file_at_once_send_every_job_once(
    stage: Stage, tmp_path: Path
) -> None:
    spool = tmp_path / "jobs.spool"
    dead = stage.environment(endpoint_url=NOWHERE)
    async with Submitter(spool, dead, lease_s=1) as submitter:
        ids = await submitter.submit("steady-quick", 300)
    env = stage.environment()
    async with Submitter(spool, env, lease_s=120), Submitter(spool, env, lease_s=120):
        await stage.worker("steady")
        await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
        await stage.empties("steady")
    assert stage.journal.count("start") == dict.fromkeys(ids, 1)


async def one_more_batch(proxy: Proxy) -> None:
    sent = proxy.forwarded["SendMessageBatch"]
    await proxy.until(lambda: proxy.forwarded["SendMessageBatch"] > sent)


async def test_drainers_that_are_killed_again_and_again_lose_nothing(
    stage: Stage, tmp_path: Path
) -> None:
    spool = tmp_path / "jobs.spool"
    dead = stage.environment(endpoint_url=NOWHERE)
    async with Submitter(spool, dead, lease_s=1) as submitter:
        ids = await submitter.submit("steady-quick", 300)
    kills, in_doubt = 5, 0
    async with Proxy(stage.endpoint_url) as proxy:
        proxy.delay(0.1)  # so that there is time to kill in mid-drain
        env = stage.environment(endpoint_url=proxy.endpoint_url)
        for _ in range(kills):
            async with Submitter(spool, env, lease_s=120) as drainer:
                before = proxy.requests["SendMessageBatch"]
                await one_more_batch(proxy)
                await drainer.kill()
                in_doubt += 10 * min(PARALLEL, proxy.requests["SendMessageBatch"] - before)
        async with Submitter(spool, env, lease_s=120):
            await stage.worker("steady")
            await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
            await stage.empties("steady")
    # Each time, at most the requests whose answers died with their drainer were made again.
    assert stage.journal.count("start").total() <= len(ids) + in_doubt


async def test_what_a_killed_drainer_held_is_sent_by_another_in_seconds(
    stage: Stage, tmp_path: Path
) -> None:
    spool = tmp_path / "jobs.spool"
    dead = stage.environment(endpoint_url=NOWHERE)
    async with Submitter(spool, dead) as submitter:
        ids = await submitter.submit("steady-quick", 30)
    lease_s = 3_600  # no test waits for that
    async with Proxy(stage.endpoint_url) as proxy:
        proxy.inject(Hold(forward=False), actions=["SendMessageBatch"])
        stuck = stage.environment(endpoint_url=proxy.endpoint_url)
        async with Submitter(spool, stuck, lease_s=lease_s) as drainer:
            await proxy.until(lambda: proxy.requests["SendMessageBatch"] > 0)
            async with Submitter(spool, stage.environment(), lease_s=lease_s):
                await drainer.kill()
                await stage.worker("steady")
                await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
    await stage.empties("steady")
    assert stage.journal.count("start") == dict.fromkeys(ids, 1)
