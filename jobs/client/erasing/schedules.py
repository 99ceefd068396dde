"""A tenant's schedules: its delayed jobs, and those of ``client.schedules``."""

from __future__ import annotations

from pydantic_core import from_json

from headgate.jobs.client.erasing.report import Erased, Tell
from headgate.jobs.core.ports.scheduler import AsyncScheduler, ScheduleSpec
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import Topology
from headgate.jobs.errors import MessageError
from headgate.jobs.messages.envelope import parse
from headgate.jobs.schedules import delayed_job, registry
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.schedules.firing import read_scheduled
from headgate.jobs.schedules.inputs import parse_input
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class TenantSchedules:
    """Erases the schedules of one tenant's jobs."""

    scheduler: AsyncScheduler
    topology: Topology

    async def erase(self, erased: Erased, tell: Tell) -> None:
        """Read all schedules that hold jobs, and delete those of the tenant.

        Raises:
            TransportError: EventBridge Scheduler could not be asked. Begin again.
        """
        group = self.topology.schedule_group
        for prefix in (delayed_job.PREFIX, registry.PREFIX):
            for name in await self.scheduler.names(group, prefix=prefix):
                if (found := await self.scheduler.get(group, name)) is not None:
                    await self._visit(found, erased)
            tell(erased)

    async def _visit(self, found: ScheduleSpec, erased: Erased) -> None:
        try:
            tenant = _tenant_of(found)
        except (MessageError, ValueError):
            erased.unread += 1
            return
        if tenant is None or tenant.org != erased.tenant:
            return
        erased.schedules += 1
        if not erased.dry_run:
            await self.scheduler.delete(found.group, found.name)


def _tenant_of(found: ScheduleSpec) -> Tenant | None:
    if found.name.startswith(registry.PREFIX):
        return read_scheduled(found.input).tenant
    given = parse_input(from_json(found.input))
    return parse(given.body).tenant if isinstance(given, DelayedJob) else None
