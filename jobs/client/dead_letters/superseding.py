"""Copies of letters whose jobs have gone on since: sent back, they would run a second time.

A letter that the sweep copied may have been replayed before SQS deleted it, and one that was
restored may have been since. The records of its job tell that, for as long as they are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.jobs.core.ports.table import Item
from headgate.jobs.dead_letters.archive import LetterCopy
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.dead_letters.walk import AT_ONCE
from headgate.jobs.definitions.policies import keeps_records
from headgate.jobs.records.history import JobRecord, read_job
from headgate.jobs.records.items import REPLAYED, read_partitions
from headgate.jobs.records.state import JobState, last_final
from headgate.jobs.values.stored import mapping

_DEAD = frozenset({JobState.DEAD, JobState.QUARANTINED})


async def superseded(services: ReplayServices, copies: Sequence[LetterCopy]) -> list[LetterCopy]:
    """Return those of some copies whose jobs have gone on since their letters died.

    None is where no records are kept, or the letter names no job.

    Raises:
        TransportError: the table could not be asked.
    """
    if not keeps_records(services.app):
        return []

    async def has_gone_on(copy: LetterCopy) -> bool:
        letter = copy.letter
        if letter.job_id is None:
            return False
        items = await read_partitions(services.table, letter.job_id)
        own = [item for item in items if _may_be_of(letter, item)]
        record = read_job(letter.job_id, own, letter.job_type, now=services.clock.now())
        return _goes_on(record, letter)

    gone_on = await services.concurrency.each(has_gone_on, copies, at_once=AT_ONCE)
    return [copy for copy, gone in zip(copies, gone_on, strict=True) if gone]


def _goes_on(record: JobRecord, letter: DeadLetter) -> bool:
    """Return True if something happened to a job after the death that a letter tells of."""
    if record.state.is_final and record.state not in _DEAD:
        return True
    if not record.state.is_final and last_final(record.timeline) is not None:
        return True  # it has died, and something newer is known
    # It may have died again since, and has another letter then.
    return any(each.what == REPLAYED and each.at > letter.died_at for each in record.timeline)


def _may_be_of(letter: DeadLetter, item: Item) -> bool:
    """Return False for what is of another tenant's job under the same id."""
    org = (mapping(item.data.get("tenant")) or {}).get("org")
    return org is None or org == letter.tenant
