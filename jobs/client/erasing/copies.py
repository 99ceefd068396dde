"""A tenant's copies of dead letters in the bucket; only reading one tells whose it is."""

from __future__ import annotations

from headgate.jobs.client.erasing.report import Erased, Tell
from headgate.jobs.core.naming import DEAD_LETTERS
from headgate.jobs.dead_letters.copies import LETTER, SavedLetter, payload_key, read_copy
from headgate.jobs.dead_letters.reading import unsubmitted_tenant
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.dead_letters.walk import AT_ONCE
from headgate.jobs.errors import MessageError
from headgate.jobs.messages.bundles import bodies_of
from headgate.jobs.messages.envelope import parse
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class TenantCopies:
    """Erases the copies of one tenant's dead letters."""

    services: ReplayServices

    async def erase(self, erased: Erased, tell: Tell) -> None:
        """Read all copies, a thousand keys at a time, and delete those of the tenant.

        Raises:
            TransportError: the bucket could not be asked. Begin again.
        """

        async def visit(key: str) -> None:
            await self._visit(key, erased)

        after = DEAD_LETTERS
        while after:
            page = await self.services.store.page(DEAD_LETTERS, after=after)
            copies = [each.key for each in page.objects if each.key.endswith(LETTER)]
            if copies:
                await self.services.concurrency.each(visit, copies, at_once=AT_ONCE)
            tell(erased)
            after = page.after

    async def _visit(self, key: str, erased: Erased) -> None:
        store = self.services.store
        try:
            saved = await read_copy(store, key)
        except MessageError:
            erased.unread += 1
            return
        if saved is None or self._org(saved) != erased.tenant:
            return
        erased.copies += 1
        if not erased.dry_run:
            await store.delete(payload_key(key))
            await store.delete(key)  # last, since it tells whose the payload is

    def _org(self, saved: SavedLetter) -> str | None:
        """Return the tenant of a copied letter; None if its message is not Headgate's.

        A bundle has the jobs of one tenant.
        """
        if saved.queue == self.services.app.topology.failed_firings_name:
            return unsubmitted_tenant(saved.content.body)
        try:
            tenant = parse(bodies_of(saved.content.body)[0]).tenant
        except MessageError:
            return None
        return tenant.org if tenant is not None else None
