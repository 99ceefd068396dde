"""``client.erase``: all that an app keeps of one tenant, from queues, bucket, schedules and table.

It can be cut off anywhere and run again: each part finds what it deletes by what it deletes last.
"""

from __future__ import annotations

from headgate.jobs.client.auditing.auditor import Auditor
from headgate.jobs.client.dead_letters.desks import async_services, services
from headgate.jobs.client.erasing.copies import TenantCopies
from headgate.jobs.client.erasing.letters import TenantLetters
from headgate.jobs.client.erasing.report import Erased, Tell, untold
from headgate.jobs.client.erasing.rows import TenantRows, keeps_rows
from headgate.jobs.client.erasing.schedules import TenantSchedules
from headgate.jobs.client.services import ClientServices
from headgate.jobs.client.waiting import longest_in_queue
from headgate.jobs.core.backend import AsyncPorts, Ports
from headgate.jobs.core.immediate import ImmediateScheduler, drive
from headgate.jobs.core.ports.scheduler import AsyncScheduler
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.deployment.triggers import has_schedules
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.records.audit.entry import AuditAction
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class AsyncErase:
    """The awaited form of `Erase`, which also drives this class."""

    services: ReplayServices
    scheduler: AsyncScheduler
    auditor: Auditor

    async def __call__(
        self, *, tenant: str | Tenant, dry_run: bool = False, tell: Tell = untold
    ) -> Erased:
        """`Erase.__call__`, awaited."""
        erased = Erased(tenant=_name_of(tenant), dry_run=dry_run)
        if dry_run:
            return await self._erase(erased, tell)
        erasing = self.auditor.action(AuditAction.ERASE, "tenant", erased.tenant)
        async with erasing:
            await self._erase(erased, tell)
            erasing.count = erased.found
            erasing.result = "" if erased.complete else "some of it was left"
        return erased

    async def _erase(self, erased: Erased, tell: Tell) -> Erased:
        app, services = self.services.app, self.services
        await TenantLetters(services=services).erase(erased)
        tell(erased)
        await TenantCopies(services=services).erase(erased, tell)
        if has_schedules(app):
            schedules = TenantSchedules(scheduler=self.scheduler, topology=app.topology)
            await schedules.erase(erased, tell)
        if keeps_rows(app):
            rows = TenantRows(services=services, useful=longest_in_queue(app))
            await rows.erase(erased, tell)
        return erased


class Erase:
    """Deletes what an app keeps of one tenant."""

    def __init__(self, engine: AsyncErase) -> None:
        self._engine = engine

    def __call__(
        self, *, tenant: str | Tenant, dry_run: bool = False, tell: Tell = untold
    ) -> Erased:
        """Delete one tenant's dead letters and their copies, schedules, records and objects.

        Dead letters are deleted without a copy. Jobs that still wait in their queues can't be found
        there: those that the table knows are cancelled, so that workers end them without a run,
        and what workers write of that names the tenant again. So run it once more when the
        queues can't hold any such job any more, after four days by default. What is kept of jobs
        without records, backups of the table, and logs are not reached. The audit keeps its entries
        that name the tenant, this erasure's among them.

        It reads the whole table and all copies. If it is cut off, run it again: what is done stays
        done, and the rest is found.

        Args:
            tenant: the tenant, by its organization.
            dry_run: count what would be deleted, and change nothing.
            tell: called with the counts so far, after each part and each page.

        Returns:
            the counts; ``complete`` is False if something was left, so that it has to be run again.

        Raises:
            SettingsInvalid: the tenant has no name.
            TransportError: a service could not be asked, or refused. Run it again.
        """
        return drive(self._engine(tenant=tenant, dry_run=dry_run, tell=tell))


def async_erase(ports: AsyncPorts, client: ClientServices) -> AsyncErase:
    """Return the erasure of an asynchronous client."""
    return AsyncErase(
        services=async_services(ports, client), scheduler=ports.scheduler, auditor=client.auditor
    )


def erase(ports: Ports, client: ClientServices) -> Erase:
    """Return the erasure of a synchronous client."""
    return Erase(
        AsyncErase(
            services=services(ports, client),
            scheduler=ImmediateScheduler(ports.scheduler),
            auditor=client.auditor,
        )
    )


def _name_of(tenant: str | Tenant) -> str:
    name = tenant.org if isinstance(tenant, Tenant) else tenant
    if not name:
        raise SettingsInvalid("a tenant's name is not empty: write erase(tenant='org-1')")
    return name
