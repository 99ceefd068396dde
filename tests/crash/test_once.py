"""Jobs with ``once=True`` whose workers die in the middle of them."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from headgate.jobs.aws.dynamo.table import AsyncDynamoTable
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.records.items import partition
from tests.support import once_app
from tests.support.backends import async_over
from tests.support.environment import with_test_credentials
from tests.support.fixture_app import journal_in
from tests.support.forks import Forks, forking
from tests.support.journal import GENEROUS_S, Journal
from tests.support.workers import environment

KILLS = 100
AT_A_TIME = 4
"""Number of workers that run concurrently until they are killed."""


async def test_each_once_job_of_a_hundred_killed_workers_completes_once(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    stage = f"t{uuid4().hex[:12]}"
    app = once_app.make_app(stage)
    await provision(app.topology, endpoint_url=server)
    journal = journal_in(tmp_path)
    async with (
        AsyncSqsTransport(endpoint_url=server) as sqs,
        AsyncClient(app, backend=async_over(sqs)) as client,
        forking(once_app.__name__, env=environment(server, stage, tmp_path)) as forks,
    ):
        job = app.find_type("charge")
        handles = await client.submit_many(job, [once_app.Nothing()] * KILLS)
        ids = {handle.id for handle in handles}
        killers: dict[str, int] = {}
        kill = partial(_kill_in_the_middle, forks, journal, tmp_path, killers)
        await asyncio.gather(*(kill(KILLS // AT_A_TIME) for _ in range(AT_A_TIME)))
        assert killers.keys() == ids
        await forks.worker(20)
        await journal.until(lambda: journal.count("done").keys() == ids)
        async with AsyncDynamoTable(app.topology.table_name, endpoint_url=server) as table:
            await _all_said_to_be_done(table, ids)
    assert journal.count("start") == dict.fromkeys(ids, 2)
    assert journal.count("done") == dict.fromkeys(ids, 1)
    done_by = {entry.job_id: entry.pid for entry in journal.entries() if entry.event == "done"}
    assert all(done_by[each] != killers[each] for each in ids)


async def _all_said_to_be_done(table: AsyncDynamoTable, ids: set[str]) -> None:
    """Wait until each claim says that its job is done; the handler ended a moment before."""
    async with asyncio.timeout(GENEROUS_S):
        for job_id in ids:
            while not await _is_said_to_be_done(table, job_id):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)


async def _is_said_to_be_done(table: AsyncDynamoTable, job_id: str) -> bool:
    claim = await table.get(partition(job_id), "claim")
    return claim is not None and claim.data["state"] == "done"


async def _kill_in_the_middle(
    forks: Forks, journal: Journal, directory: Path, killers: dict[str, int], times: int
) -> None:
    """Start a worker that many times, and ``kill -9`` it in a job that has killed none before."""
    for _ in range(times):
        pid = await forks.worker(1)
        await journal.until(partial(_unkilled, journal, pid, killers))
        os.kill(pid, signal.SIGKILL)
        job_id = _unkilled(journal, pid, killers)
        killers[job_id] = pid
        once_app.mark_of(directory, job_id).touch()


def _unkilled(journal: Journal, pid: int, killers: dict[str, int]) -> str:
    """Return a job that the worker has started and may be killed in; empty if there is none."""
    started = [job_id for job_id in journal.count("start", pid=pid) if job_id not in killers]
    return started[-1] if started else ""
