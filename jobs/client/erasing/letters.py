"""A tenant's dead letters, with the payloads that they refer to."""

from __future__ import annotations

from collections.abc import Collection

from headgate.jobs.client.erasing.report import Erased
from headgate.jobs.client.erasing.rows import names_another
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.purging import LetterPurge
from headgate.jobs.dead_letters.reading import held_in
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.dead_letters.search import ACTING, FoundLetter, LetterSearch, SearchRound
from headgate.jobs.messages.bundles import is_bundle
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.large_payloads import payload_key
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class TenantLetters:
    """Erases the dead letters of one tenant's jobs, and makes no copies of them."""

    services: ReplayServices

    async def erase(self, erased: Erased) -> None:
        """Look through all queues of dead letters once.

        Raises:
            TransportError: SQS, the table or the bucket could not be asked. Begin again.
        """
        purge = LetterPurge(
            transport=self.services.transport,
            store=None,
            concurrency=self.services.concurrency,
        )

        async def visit(found: SearchRound) -> Collection[str]:
            if erased.dry_run:
                erased.letters += len(found.letters)
                return ()
            for each in found.letters:
                await self._erase_payload(each, erased)
            gone = await purge.purge(found)
            erased.letters += len(gone)
            return gone

        wanted = DeadLetterFilter(tenants=(erased.tenant,))
        look = await LetterSearch(services=self.services).run(wanted, visit, margin=ACTING)
        erased.unseen = look.unseen
        erased.left += purge.failures

    async def _erase_payload(self, found: FoundLetter, erased: Erased) -> None:
        """Delete a letter's payload, unless a job of another tenant has the letter's id.

        The payloads of a bundle's jobs, and that of a schedule's, are in the letter itself.
        """
        body: str | None = found.content.body
        if found.letter.queue == self.services.app.topology.failed_firings_name:
            body = held_in(found.content.body)
        if body is None or is_bundle(body):
            return
        envelope = parse(body)
        if envelope.payload_ref is None:
            return
        if not await names_another(self.services, str(envelope.id), erased.tenant):
            await self.services.store.delete(payload_key(envelope.id))
