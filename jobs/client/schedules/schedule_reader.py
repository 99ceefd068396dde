"""The requests by which all of an app's schedules are read, with patience for throttling."""

from __future__ import annotations

from headgate.jobs.client.services import ClientServices
from headgate.jobs.core.batching import TRIES, pause_s
from headgate.jobs.core.ports.scheduler import AsyncScheduler
from headgate.jobs.errors import MessageUnreadable, Throttled
from headgate.jobs.schedules import registry
from headgate.jobs.schedules.reading import AT_ONCE, Answer, Reading


class ScheduleReader:
    """Reads many schedules.

    Args:
        services: the client's services.
        scheduler: holds the schedules.
    """

    def __init__(self, services: ClientServices, scheduler: AsyncScheduler) -> None:
        self._app = services.app
        self._concurrency = services.concurrency
        self._sleep = services.sleep
        self._rng = services.rng
        self._scheduler = scheduler

    async def read(self) -> Reading:
        """Read all schedules: those that job types declare, and those made at run time.

        Raises:
            TransportError: AWS could not be asked, refused, or throttles every request.
        """
        found = Reading(self._app, await self.names(), self._rng)
        while found.left:
            answers = await self._concurrency.each(self._look, found.left, at_once=AT_ONCE)
            if wait_s := found.note(answers):
                await self._sleep(wait_s)
        return found

    async def names(self) -> list[str]:
        """Return the names on AWS of the schedules made at run time; raises as `read`."""
        group, _ = registry.address(self._app, "")
        for tries in range(1, TRIES):
            try:
                return await self._scheduler.names(group, prefix=registry.PREFIX)
            except Throttled:
                await self._sleep(pause_s(tries, self._rng))
        return await self._scheduler.names(group, prefix=registry.PREFIX)

    async def _look(self, physical: str) -> Answer:
        try:
            return await self._scheduler.get(self._app.topology.schedule_group, physical)
        except (MessageUnreadable, Throttled) as error:
            return error
