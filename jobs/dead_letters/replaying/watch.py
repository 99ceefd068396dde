"""Watching what becomes of jobs that were replayed.

Of all that are sent a few at a time are followed by their records, until each has ended. Where no
records are kept, a job counts as dead again once a pass finds it among the dead letters.
"""

from __future__ import annotations

from datetime import datetime

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import records_of
from headgate.jobs.errors import TransportError
from headgate.jobs.records.history import JobRecord, read_job
from headgate.jobs.records.items import partition
from headgate.jobs.records.state import JobState
from headgate.jobs.values.light_dataclass import light_dataclass

MAX_FOLLOWED = 20
"""Jobs that are followed at the same time, beside those of a canary."""

LOOK_S = 5.0
"""Seconds between two looks at them."""

LEAST = 10
"""Ended jobs from which on their share of deaths says something."""

_AT_ONCE = 10

_DEAD = frozenset({JobState.DEAD, JobState.QUARANTINED})


@light_dataclass(frozen=True, slots=True)
class _Followed:
    job_id: str
    job_type: str
    sent_at: datetime


class Watch:
    """Follows the jobs that one process has replayed.

    Args:
        app: says whether records are kept.
        table: holds the records.
        clock: tells the time.
        concurrency: makes several requests at once.
    """

    def __init__(
        self, app: App, table: AsyncTable, *, clock: Clock, concurrency: Parallelism
    ) -> None:
        self._app = app
        self._table = table
        self._clock = clock
        self._concurrency = concurrency
        self._following: dict[str, _Followed] = {}
        self._looked_at = float("-inf")
        self._sent = self._unseen = self._ended = self._died = 0
        """Jobs that were sent, that can't be followed, that were and ended, and that died then."""
        self._dead: set[str] = set()
        """Ids of jobs that have died again."""
        self._returned: set[str] = set()
        """Ids of the messages found among the dead letters, if they name no job."""
        self._earlier: set[str] = set()
        """Ids of the messages of jobs that an earlier process had sent, and that died then."""

    @property
    def died_again(self) -> int:
        """Number of jobs that are known to have died again."""
        return self._deaths + len(self._earlier)

    @property
    def pending(self) -> int:
        """Number of jobs that are followed and have not ended."""
        return len(self._following)

    @property
    def is_blind(self) -> bool:
        """True if jobs were sent of which no records are kept."""
        return self._unseen > 0

    @property
    def is_open(self) -> bool:
        """True if jobs may still end that were sent."""
        return self.pending > 0 or self._unseen > len(self._returned | self._dead)

    @property
    def said(self) -> str:
        """The deaths in words."""
        return f"{self._deaths} of {self._sent} jobs are known to have died again"

    def sent(self, job_id: str | None, job_type: str | None, at: datetime, *, always: bool) -> None:
        """Note a job that was sent, and follow it if there is room, or ``always``."""
        self._sent += 1
        declared = self._app.types.get(job_type or "")
        if job_id is None or declared is None or records_of(self._app, declared) == "off":
            self._unseen += 1
        elif always or len(self._following) < MAX_FOLLOWED:
            self._following[job_id] = _Followed(job_id, declared.name, at)

    def returned(self, message_id: str, job_id: str | None, *, is_new: bool) -> None:
        """Note a job that was found among the dead letters; ``is_new`` if it died just now."""
        if not is_new:
            self._earlier.add(message_id)
        elif job_id is None:
            self._returned.add(message_id)
        else:
            self._dead.add(job_id)
            if self._following.pop(job_id, None) is not None:
                self._ended += 1
                self._died += 1

    @property
    def _deaths(self) -> int:
        return len(self._dead) + len(self._returned)

    async def look(self) -> None:
        """Look up the jobs that are followed, unless that was done a moment ago."""
        now = self._clock.monotonic()
        if not self._following or now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        followed = [*self._following.values()]
        records = await self._concurrency.each(self._record, followed, at_once=_AT_ONCE)
        for each, record in zip(followed, records, strict=True):
            if record is not None and _has_ended(record, each):
                del self._following[each.job_id]
                self._ended += 1
                if record.state in _DEAD:
                    self._dead.add(each.job_id)
                    self._died += 1

    def share(self, least: int = LEAST) -> float:
        """Return the share that died again, as far as is known; 0 with fewer than ``least``."""
        known = self._deaths / self._sent if self._sent >= least else 0.0
        followed = self._died / self._ended if self._ended >= least else 0.0
        return max(known, followed)

    async def _record(self, followed: _Followed) -> JobRecord | None:
        try:
            items = await self._table.query(partition(followed.job_id))
        except TransportError:
            return None  # the next look asks again
        return read_job(followed.job_id, items, followed.job_type, now=self._clock.now())


def _has_ended(record: JobRecord, followed: _Followed) -> bool:
    if not record.state.is_final:
        return False
    if record.state not in _DEAD:
        return True
    # Its first death is over once the replay is recorded; that may have been lost.
    return record.finished_at is not None and record.finished_at >= followed.sent_at
