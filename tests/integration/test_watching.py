"""A worker process as its monitors see it: health, readiness, metrics."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.support.journal import GENEROUS_S
from tests.support.ports import reserved_ports
from tests.support.stage import Stage
from tests.support.workers import STOPPING, WorkerProcess


async def _port_of(worker: WorkerProcess) -> int:
    await worker.logged("health and metrics on")
    found = re.search(r"health and metrics on http://127\.0\.0\.1:(\d+)", worker.log)
    assert found is not None
    return int(found[1])


class _Watcher:
    """Queries a worker's endpoints."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self._url + path) as response:
            return response.status, await response.text()

    async def json(self, path: str) -> tuple[int, dict[str, Any]]:
        async with aiohttp.ClientSession() as session, session.get(self._url + path) as response:
            return response.status, await response.json()

    async def until(self, path: str, status: int, text: str = "") -> str:
        """Ask until the answer is as given."""
        answer: tuple[int, str] = (0, "")
        async with asyncio.timeout(GENEROUS_S):
            while answer[0] != status or text not in answer[1]:
                answer = await self.get(path)
                await asyncio.sleep(0.05)
        return answer[1]


async def test_a_worker_tells_of_its_health_of_its_jobs_and_that_it_stops(stage: Stage) -> None:
    worker = await stage.worker("steady", "--health-port", "0")
    watcher = _Watcher(await _port_of(worker))
    await watcher.until("/readyz", 200)
    await stage.submit("steady-quick", 20)
    await stage.submit("steady-gated")
    await stage.journal.until(lambda: stage.journal.count("start").total() == 21)
    completed = 'headgate_jobs_total{outcome="completed",type="steady-quick"} 20.0'
    metrics = await watcher.until("/metrics", 200, completed)
    assert 'headgate_jobs_active{queue="steady",type="steady-gated"} 1.0' in metrics
    assert "headgate_job_duration_seconds_bucket" in metrics
    assert 'headgate_queue_jobs{priority="normal",queue="steady",state="dead"} 0.0' in metrics
    status, found = await watcher.json("/healthz")
    assert (status, found["status"]) == (200, "healthy")
    assert {check["name"] for check in found["checks"]} >= {"sqs", "heartbeat", "settlement"}

    worker.send(signal.SIGTERM)
    await worker.logged(STOPPING)
    await watcher.until("/readyz", 503)
    await watcher.until("/healthz", 200)
    stage.open_gate()
    assert await worker.ended() == 0


async def test_a_worker_is_not_ready_until_a_queue_of_its_own_is_there(bare_stage: Stage) -> None:
    worker = await bare_stage.worker("steady", "--health-port", "0")
    watcher = _Watcher(await _port_of(worker))
    name = bare_stage.queue("steady").name
    told = await watcher.until("/healthz", 200, "unhealthy")
    assert name in told
    assert "cdk deploy" in told
    await watcher.until("/readyz", 503)
    await watcher.until("/startupz", 503)
    await bare_stage.provision()
    await watcher.until("/readyz", 200, '"status": "healthy"')
    await watcher.until("/startupz", 200)
    assert worker.alive


@pytest.fixture
def two_ports() -> Iterator[int]:
    with reserved_ports(2) as first:
        yield first


async def test_several_processes_serve_their_health_on_ports_that_follow_each_other(
    stage: Stage, two_ports: int
) -> None:
    first = two_ports
    options = ("--processes", "2", "--concurrency", "2", "--health-port", str(first))
    worker = await stage.worker("steady", *options)
    await worker.logged("health and metrics on", times=2)
    for port in (first, first + 1):
        await _Watcher(port).until("/readyz", 200)
    ids = await stage.submit("steady-gated", 60)  # more than one process would hold
    await stage.journal.until(lambda: len({entry.pid for entry in stage.journal.entries()}) == 2)
    stage.open_gate()
    await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0
    assert stage.journal.count("start") == dict.fromkeys(ids, 1)
