"""The steps of `headgate verify` on AWS in memory, in virtual time: what they pass, and notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from headgate import App, AsyncClient
from headgate.jobs.core.events import Events
from headgate.jobs.testing import LoopClock, MemoryBackend
from headgate.jobs.testing.deployed import deploy_schedules
from headgate.ops.verify.steps.catalogue import STEPS
from headgate.ops.verify.steps.step import SiteNeed, UnexpectedSight, VerifyStep
from headgate.ops.verify.steps.verify_app import make_app
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker

pytestmark = pytest.mark.looptime

SETTINGS = WorkerSettings(drain=timedelta(seconds=5))


@dataclass(slots=True, kw_only=True)
class MemorySite:
    """A stage in memory, with one worker."""

    app: App
    client: AsyncClient
    backend: MemoryBackend[LoopClock]
    lacks: Mapping[str, str] = field(default_factory=dict)
    alarm_states: Mapping[str, str] = field(default_factory=dict)
    allowed: Sequence[str] = ()
    _worker: Worker | None = None
    _working: asyncio.Task[Any] | None = None

    def now(self) -> datetime:
        return self.backend.clock.now()

    def requests(self) -> int:
        return len(self.backend.sqs.calls)

    async def stop_worker(self) -> None:
        await self.end()
        self.begin()

    async def alarms(self) -> Mapping[str, str]:
        return self.alarm_states

    async def excess(self) -> Sequence[str]:
        return self.allowed

    def begin(self) -> None:
        self._worker = Worker(self.app, self.backend, SETTINGS, events=Events())
        self._working = asyncio.create_task(self._worker.run())

    async def end(self) -> None:
        if self._worker is not None and self._working is not None:
            self._worker.stop()
            await self._working


@asynccontextmanager
async def memory_site(**parts: Any) -> AsyncIterator[MemorySite]:
    app = make_app("verify-test")
    backend = MemoryBackend(app, clock=LoopClock())
    deploy_schedules(app, backend.scheduler)
    firing = asyncio.create_task(backend.scheduler.run())
    async with AsyncClient(app, backend=backend) as client:
        site = MemorySite(app=app, client=client, backend=backend, **parts)
        site.begin()
        try:
            yield site
        finally:
            await site.end()
            firing.cancel()


def named(name: str) -> VerifyStep:
    [step] = [each for each in STEPS if each.name == name]
    return step


@pytest.mark.parametrize("name", [each.name for each in STEPS if each.needs is None])
async def test_each_step_passes_where_all_is_well(name: str) -> None:
    async with memory_site() as site:
        assert await named(name).run(site)


async def test_an_alarm_for_each_queue_and_a_role_that_is_denied_pass() -> None:
    app = make_app("verify-test")
    states = {f"{spec.name.removesuffix('.fifo')}-late": "OK" for spec in app.topology.queues}
    async with memory_site(alarm_states=states) as site:
        assert "none for no queue" in await named("alarms").run(site)
        assert await named("permissions").run(site) == "all of it is denied"


async def test_a_queue_without_an_alarm_is_named() -> None:
    async with memory_site() as site:
        with pytest.raises(UnexpectedSight, match="none for headgate-verify-test-jobs-critical"):
            await named("alarms").run(site)


async def test_an_action_that_a_role_must_not_have_is_named() -> None:
    async with memory_site(allowed=("sqs:PurgeQueue",)) as site:
        with pytest.raises(UnexpectedSight, match="allowed sqs:PurgeQueue"):
            await named("permissions").run(site)


async def test_a_worker_in_place_of_a_function_is_noticed() -> None:
    async with memory_site() as site:
        with pytest.raises(UnexpectedSight, match="a worker ran it"):
            await named("function").run(site)


async def test_a_schedule_that_never_fires_is_given_up() -> None:
    async with memory_site() as site:
        for spec in site.backend.scheduler.schedules:
            await site.client.schedules.pause(spec.name)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await named("recurring schedule").run(site)


def test_what_a_site_may_lack_is_said_by_every_step_that_needs_it() -> None:
    assert {each.needs for each in STEPS} == {None, *SiteNeed}


def test_the_names_of_the_steps_differ() -> None:
    assert len({each.name for each in STEPS}) == len(STEPS)
