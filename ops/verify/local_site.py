"""`headgate verify` on a local AWS: provisioned queues, a worker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from headgate.jobs.aws.backend import AsyncAwsBackend, AwsBackend
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.stages.removal import left_queues, remove_provisioned
from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import TransportError
from headgate.jobs.values.own_log import OwnLog
from headgate.ops.demo.environment import REGION, only_local_aws
from headgate.ops.demo.workers import DemoWorkers
from headgate.ops.dev.schedules import LocalScheduler, LocalSchedules
from headgate.ops.dev.services import local_scheduler
from headgate.ops.verify.steps.site import RequestCount, VerifySite
from headgate.ops.verify.steps.step import SiteNeed

_LOOK_EVERY_S = 1.0

_log = OwnLog("headgate.verify")

LACKS: Mapping[str, str] = {
    SiteNeed.ALARMS: "queues of a local AWS are created without alarms",
    SiteNeed.FUNCTION: "Lambda functions are deployed by CDK alone",
    SiteNeed.ROLES: "a local AWS checks no permissions",
}
"""Needs of steps that can't be tried here, each with the reason."""


class LocalSite:
    """A stage on a local AWS; made by `local_site`."""

    lacks = LACKS

    def __init__(self, app: App, endpoint_url: str) -> None:
        self.app = app
        self._place: dict[str, Any] = {"endpoint_url": endpoint_url, "region": REGION}
        self._count = RequestCount()
        self._open = AsyncExitStack()
        self._working = AsyncExitStack()
        self._workers: DemoWorkers | None = None
        self._firing: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """Create all that the app has, and begin to work."""
        topology = self.app.topology
        await provision(topology, **self._place)
        ports = self._open.enter_context(AwsBackend(topology, **self._place)).ports
        await asyncio.to_thread(LocalSchedules(self.app, ports.scheduler).store)
        backend = await self._open.enter_async_context(
            AsyncAwsBackend(topology, on_request=self._count, **self._place)
        )
        self.client = await self._open.enter_async_context(AsyncClient(self.app, backend=backend))
        scheduler = local_scheduler(self.app, ports)
        firing = _fire(scheduler, self._stopped)
        self._firing = asyncio.create_task(firing, name="headgate-verify-schedules")
        await self._start_worker()

    async def stop(self) -> None:
        """Stop working; what was created stays. Idempotent."""
        await self._working.aclose()
        self._stopped.set()
        firing, self._firing = self._firing, None
        if firing is not None:
            await asyncio.wait({firing})
        await self._open.aclose()
        if firing is not None:
            firing.result()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def requests(self) -> int:
        return self._count.total

    async def stop_worker(self) -> None:
        if self._workers is not None:
            await self._workers.stop()
            await self._working.aclose()
        await self._start_worker()

    async def alarms(self) -> Mapping[str, str]:
        return {}

    async def excess(self) -> Sequence[str]:
        return ()

    async def _start_worker(self) -> None:
        self._workers = await self._working.enter_async_context(
            DemoWorkers(self.app, 1, events=Events(), on_request=self._count, **self._place)
        )


async def _fire(scheduler: LocalScheduler, stopped: asyncio.Event) -> None:
    """Fire schedules as they come due; a look that is under way is never cut off."""
    while not stopped.is_set():
        try:
            await asyncio.to_thread(scheduler.read)
            await asyncio.to_thread(scheduler.fire_due)
        except TransportError as error:
            _log.warning("schedules can't be read: %s", error)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_EVERY_S):
                await stopped.wait()


@asynccontextmanager
async def local_site(app: App, endpoint_url: str) -> AsyncIterator[VerifySite]:
    """Make a stage of the app on a local AWS, and run a worker; schedules fire in this process.

    Raises:
        TransportError: the local AWS could not be reached, or refused.
    """
    site = LocalSite(app, endpoint_url)
    with only_local_aws(endpoint_url):
        try:
            await site.start()
            yield site
        finally:
            await site.stop()


async def remove_local(app: App, endpoint_url: str) -> Sequence[str]:
    """Remove the app's stage from a local AWS; returns the names of the queues that are left.

    Raises:
        TransportError: the local AWS could not be reached, or refused.
    """
    with only_local_aws(endpoint_url):
        await remove_provisioned(app.topology, endpoint_url=endpoint_url, region=REGION)
        return await left_queues(app.topology, endpoint_url=endpoint_url, region=REGION)
