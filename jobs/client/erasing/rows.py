"""A tenant's rows of the table, with the payloads and the results of their jobs.

Which tenant a job is of stands in the items of its submission and of its deliveries, in its claim,
and in its entry among its parent's children; in no key and no list. So they are found by a scan.
The items that name the tenant are deleted last: cut off anywhere, what is left is found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from headgate.jobs.client.erasing.report import Erased, Tell
from headgate.jobs.core.batching import TRIES, pause_s
from headgate.jobs.core.naming import ASKED, JOB
from headgate.jobs.core.ports.table import MAX_PUT, Item, Key
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import uses_claims
from headgate.jobs.execution.calling.claim_items import emptied, is_claim
from headgate.jobs.handles.handle import check_id
from headgate.jobs.messages.large_payloads import payload_key
from headgate.jobs.records.cancellation import cancellation
from headgate.jobs.records.history import read_job
from headgate.jobs.records.items import is_record, partition, read_partitions
from headgate.jobs.records.lists.children import children_partition, entries_of, is_child
from headgate.jobs.records.result_keys import is_result_key
from headgate.jobs.records.writes import put_patiently
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.stored import mapping

_ORG = ("tenant", "org")
"""The path of a tenant's name in an item's data."""

_PAUSE_S = 0.25
"""Seconds between pages of the scan: each takes 256 read units, of the 3,000 a second that a single
part of the table has, and workers need the rest.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-query-scan.html"""

_REASON = "its tenant's data was erased"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class TenantRows:
    """Erases what the table and the bucket hold of one tenant's jobs."""

    services: ReplayServices
    useful: timedelta
    """The time for which a queue may hold a job."""

    async def erase(self, erased: Erased, tell: Tell) -> None:
        """Erase all jobs that have an item with the tenant's name.

        Raises:
            TransportError: the table or the bucket could not be asked. Begin again.
        """
        after, is_first, last = "", True, ""
        while is_first or after:
            page = await self.services.table.scan(_ORG, erased.tenant, after=after)
            for item in _firsts(page.items, last):
                await self._erase_job(item, erased)
            tell(erased)
            last = page.items[-1].pk if page.items else last
            after, is_first = page.after, False
            if after:
                await self.services.sleep(_PAUSE_S)

    async def _erase_job(self, found: Item, erased: Erased) -> None:
        """Erase the job that a found item is of, unless it is counted by another item."""
        job_id = _job_id(found)
        if job_id is None:
            return
        stored = await read_partitions(self.services.table, job_id)
        items = [item for item in stored if is_record(item.sk)]
        named = _of(erased.tenant, items)
        claims = _of(erased.tenant, filter(is_claim, stored))
        if is_child(found):
            if named:
                return  # the scan comes to these, too, and they tell of the entry
            named = await self._present([(found.pk, found.sk)])
        own = [each for each in (*named, *claims) if each.pk == partition(job_id)]
        if found.pk != partition(job_id) and own and not is_child(found):
            return  # the scan comes to that one, too
        if not named and not any(map(emptied, claims)):
            return
        # Ids are chosen by senders, so another tenant's job may have this one. Then what doesn't
        # say whose it is stays, and so do payload and results.
        shared = _names_another(stored, erased.tenant)
        unnamed: Sequence[Item] = []
        await self._empty_claims(job_id, claims if shared else stored, erased)
        if not shared:
            if named or items:  # a claim alone is of a job that has ended, or that none cancels
                await self._cancel(job_id, items, erased)
            await self._erase_objects(job_id, items, erased)
            children = await self.services.table.query(children_partition(job_id))
            unnamed = [item for item in (*children, *items) if _org(item) is None]
        entries = _of(erased.tenant, await self._present(entries_of(job_id, named)))
        await self._delete([*unnamed, *entries, *named], erased)
        erased.jobs += 1

    async def _present(self, keys: Sequence[Key]) -> list[Item]:
        """Return those of some items that are still there."""
        found = [await self.services.table.get(pk, sk) for pk, sk in keys]
        return [item for item in found if item is not None]

    async def _cancel(self, job_id: str, items: Sequence[Item], erased: Erased) -> None:
        """Have workers end a job that may still come: nobody can take it out of its queue."""
        if read_job(job_id, items, now=self.services.clock.now()).state.is_final:
            return
        erased.cancelled += 1
        if erased.dry_run:
            return
        services, now = self.services, self.services.clock.now()
        _, request = cancellation(job_id, _REASON, now, useful=self.useful)
        if await put_patiently(services.table, [request], sleep=services.sleep, rng=services.rng):
            erased.left.append(f"the cancellation of {job_id} was not written: the table is busy")

    async def _empty_claims(self, job_id: str, items: Sequence[Item], erased: Erased) -> None:
        """Take the result and the tenant out of the claims of a job that nobody runs.

        The claims stay, since a copy of the job's message may come.
        """
        claims = [bare for item in items if (bare := emptied(item)) is not None]
        erased.items += len(claims)
        if erased.dry_run:
            return
        for each in claims:
            if await self.services.table.replace(each) is not None:
                erased.left.append(f"the claim of {job_id} was written anew by a worker meanwhile")

    async def _erase_objects(self, job_id: str, items: Sequence[Item], erased: Erased) -> None:
        results = {key for item in items if (key := _result_key(job_id, item))}
        erased.results += len(results)
        if erased.dry_run:
            return
        for key in (payload_key(UUID(job_id)), *sorted(results)):
            await self.services.store.delete(key)

    async def _delete(self, items: Sequence[Item], erased: Erased) -> None:
        """Delete items in their order."""
        erased.items += len(items)
        if erased.dry_run:
            return
        for start in range(0, len(items), MAX_PUT):
            keys = [(item.pk, item.sk) for item in items[start : start + MAX_PUT]]
            for tries in range(1, TRIES + 1):
                if not (keys := await self.services.table.delete(keys)):
                    break
                await self.services.sleep(pause_s(tries, self.services.rng))
            erased.left += [f"{pk} {sk} was not deleted: the table is busy" for pk, sk in keys]


async def names_another(services: ReplayServices, job_id: str, tenant: str) -> bool:
    """Return True if the table has an item under a job's id that names another tenant.

    Raises:
        TransportError: the table could not be asked.
    """
    if not keeps_rows(services.app):
        return False
    return _names_another(await read_partitions(services.table, job_id), tenant)


def keeps_rows(app: App) -> bool:
    """Return True if the app's table has anything of its jobs: records, or claims."""
    return uses_claims(app)


def _names_another(items: Sequence[Item], tenant: str) -> bool:
    return any(_org(item) not in (None, tenant) for item in items)


def _of(tenant: str, items: Iterable[Item]) -> list[Item]:
    """Return those of some items that name a tenant."""
    return [item for item in items if _org(item) == tenant]


def _firsts(items: Sequence[Item], last: str) -> Iterator[Item]:
    """Yield the first item of each partition, and all entries of children.

    A partition goes on from one page to the next: ``last`` is the one that was read last.
    """
    seen = {last}
    for item in items:
        if is_child(item) or item.pk not in seen:
            seen.add(item.pk)
            yield item


def _job_id(item: Item) -> str | None:
    """Return the id of the job that an item is of; None if it is of none."""
    if is_child(item):
        return _id(item.sk)
    prefix = next((each for each in (JOB, ASKED) if item.pk.startswith(each)), None)
    return None if prefix is None else _id(item.pk.removeprefix(prefix))


def _id(text: str) -> str | None:
    try:
        return check_id(text)
    except ValueError:
        return None


def _org(item: Item) -> object:
    return (mapping(item.data.get("tenant")) or {}).get("org")


def _result_key(job_id: str, item: Item) -> str | None:
    told: Mapping[str, Any] = mapping(item.data.get("result_ref")) or {}
    key, job_type = told.get("key"), item.data.get("type")
    if not isinstance(key, str) or not (job_type is None or isinstance(job_type, str)):
        return None
    return key if is_result_key(key, job_id, job_type) else None
