"""A tenant's copies of dead letters in the bucket; only reading one tells whose it is."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from headgate.jobs.client.erasing.report import Erased, Tell
from headgate.jobs.core.topology import DEAD_LETTERS
from headgate.jobs.dead_letters.copies import LETTER, PAYLOAD, read_json
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.dead_letters.walk import AT_ONCE
from headgate.jobs.errors import MessageError, PayloadLost
from headgate.jobs.messages.envelope import parse

_MOST_BYTES = 16 * 2**20
"""Bytes of a copy, packed or not: a message of 1 MiB has 6 with each byte escaped."""

_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCopies:
    """Erases the copies of one tenant's dead letters."""

    services: ReplayServices

    async def erase(self, erased: Erased, tell: Tell) -> None:
        """Read all copies, a thousand keys at a time, and delete those of the tenant.

        Raises:
            TransportError: the bucket could not be asked. Begin again.
        """
        store, after = self.services.store, DEAD_LETTERS
        while keys := await store.keys(DEAD_LETTERS, after=after):

            async def visit(key: str) -> None:
                await self._visit(key, erased)

            copies = [key for key in keys if key.endswith(LETTER)]
            if copies:
                await self.services.concurrency.each(visit, copies, at_once=AT_ONCE)
            tell(erased)
            after = keys[-1]

    async def _visit(self, key: str, erased: Erased) -> None:
        store = self.services.store
        try:
            if (content := await store.get(key, max_bytes=_MOST_BYTES)) is None:
                return
            is_theirs = _org(content) == erased.tenant
        except (PayloadLost, MessageError, zlib.error, ValueError):
            erased.unread += 1
            return
        if not is_theirs:
            return
        erased.copies += 1
        if not erased.dry_run:
            await store.delete(f"{key.removesuffix(LETTER)}{PAYLOAD}")
            await store.delete(key)  # last, since it tells whose the payload is


def _org(content: bytes) -> str | None:
    """Return the tenant of a copied letter; None if its message is none of Headgate's."""
    unpacking = zlib.decompressobj(_GZIP)
    body = read_json(unpacking.decompress(content, _MOST_BYTES).decode()).content.body
    try:
        tenant = parse(body).tenant
    except MessageError:
        return None
    return tenant.org if tenant is not None else None
