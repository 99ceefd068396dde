"""Lives of workers, and which of them died without ending in order.

    pk  workers   sk  NAME   data  {"beat": N, "groups": [QUEUE, ...], "hides_s": N, "at": ISO}

A worker writes its life when it begins, with another beat about every `RENEW_S`, and deletes it
when it ends in order. Finding a dead worker takes watching: a life whose beat has not changed for
`LEASE_S`, on the watcher's own monotonic clock, is over. So the clocks of different machines are
never compared, and a worker that has just started declares nobody dead.

While the table is unreachable no worker can beat, and silence up to then proves nothing: each life
has to be seen anew, and one that never beats again is not taken for dead, since its worker may have
ended in order without being able to delete it. A watcher that starts only after such an end can't
know that: it takes the worker for dead, which costs a job that it had begun one crash at most.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from headgate.jobs.core.clock import SKEW_S, Clock
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.errors import ServiceUnavailable, TransportError
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.stored import moment, text, whole

LIVES = "workers"
"""The partition that holds them."""

RENEW_S = 10.0
"""Approximate seconds between two beats."""

LEASE_S = 30.0
"""Seconds without a beat after which a worker is dead: two beats may be lost."""

_KEPT = timedelta(days=1)
"""Time after which a life that nobody renews or deletes expires: longer than SQS hides a message,
so that a message's next receiver finds the life of the worker that had it."""

_MOST_HIDDEN_S = int(MAX_VISIBILITY.total_seconds())

_FORGET_S = 2 * 3600.0
"""Seconds without a beat, beyond those for which the worker's messages were hidden, after which a
life is deleted: they have been delivered again long before. A later delivery finds no worker that
died."""

_LONGEST_NAME = 128

_PAGES = 8
"""Maximum number of requests of one look, of a thousand lives and a MiB each."""

_FRESH_S = 1.0
"""Seconds for which one look serves all, when many messages of a dead worker come at once."""


class Fate(Enum):
    """The fate of a worker that began a job and did not record its end."""

    DIED = auto()
    """It ended without deleting its life."""
    LIVED = auto()
    """It went on, or ended in order: its record of the job was lost, or is still to come."""
    OPEN = auto()
    """Not known yet."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A worker's entry about itself."""

    name: str
    beat: int
    """Number that changes with each renewal."""
    groups: frozenset[str]
    """The queue groups that it serves."""
    at: datetime
    """Time of its last beat, by its own clock; aware."""
    hides_s: int = 0
    """Longest visibility timeout of its app's queues, for which its messages stay hidden when it
    dies. It may differ from the reader's: in a deploy another version reads. 0 if it doesn't say,
    as older versions don't."""


def life_item(life: Life) -> Item:
    """Return the item that holds a life."""
    groups, at = sorted(life.groups), life.at.isoformat()
    return Item(
        pk=LIVES,
        sk=life.name,
        data={"beat": life.beat, "groups": groups, "hides_s": life.hides_s, "at": at},
        expires_at=life.at + _KEPT,
    )


def read_life(item: Item) -> Life | None:
    """Return the life that an item holds; None if this version can't read it."""
    beat, at = whole(item.data.get("beat")), moment(item.data.get("at"))
    groups = item.data.get("groups")
    if beat is None or at is None or not isinstance(groups, list):
        return None
    if not all(text(group, _LONGEST_NAME) for group in groups):
        return None
    hides_s = whole(item.data.get("hides_s"), most=_MOST_HIDDEN_S) or 0
    return Life(name=item.sk, beat=beat, groups=frozenset(groups), at=at, hides_s=hides_s)


@dataclass(slots=True)
class _Sighting:
    life: Life
    since: float
    """Time at which this beat was first seen, on the monotonic clock."""
    doubtful: bool = False
    """True if the table has been unreachable meanwhile, and no new beat has been seen since."""


class Lives:
    """One worker's view of the lives of the others.

    Args:
        table: the table that holds them.
        own: the name of the worker that watches, which is always alive.
        clock: tells the time.
    """

    def __init__(self, table: AsyncTable, *, own: str, clock: Clock) -> None:
        self._table = table
        self._own = own
        self._clock = clock
        self._seen: dict[str, _Sighting] = {}
        self._watching_since = math.inf
        """Time of the first look since one last failed, on the monotonic clock."""
        self._looked_at = -math.inf
        self._looking = asyncio.Lock()

    async def look(self) -> None:
        """Read which workers are alive now.

        Raises:
            TransportError: the table can't be asked.
        """
        try:
            items = await self._read()
        except TransportError:
            self.doubt()
            raise
        self._take_in(filter(None, map(read_life, items)))

    async def _read(self) -> list[Item]:
        found: list[Item] = []
        after = ""
        for _ in range(_PAGES):
            page = await self._table.page(LIVES, after=after)
            found += page.items
            if not (after := page.after):
                return found
        # Part of them would show the other workers as ended in order.
        raise ServiceUnavailable(
            f"the partition {LIVES!r} of the table holds more than workers write there: see who "
            "may write to it"
        )

    async def catch_up(self) -> None:
        """Read the table, unless it was read a moment ago.

        Raises:
            TransportError: the table can't be asked.
        """
        async with self._looking:
            if self._clock.monotonic() - self._looked_at >= _FRESH_S:
                await self.look()

    def doubt(self) -> None:
        """Stop counting silence up to now as evidence, since the table did not answer."""
        self._watching_since = math.inf
        for sighting in self._seen.values():
            sighting.doubtful = True

    def fate(self, worker: str, *, seen: int | None = None) -> Fate:
        """Return the fate of a worker that began a job whose message has been delivered again.

        Args:
            worker: the worker's name.
            seen: its beat when the message was delivered again; None if nobody looked.
        """
        if worker == self._own:
            return Fate.LIVED
        if not self._has_looked:
            return Fate.OPEN
        sighting = self._seen.get(worker)
        if sighting is None or (seen is not None and sighting.life.beat != seen):
            return Fate.LIVED  # it has ended in order, or has gone on after it lost the message
        if self._silent_s(sighting) < LEASE_S:
            return Fate.OPEN
        return Fate.LIVED if sighting.doubtful else Fate.DIED

    def may_run(self, worker: str) -> bool:
        """Return True unless a worker has ended, or has not beaten for `LEASE_S` that were watched.

        After an outage of the table all that are alive beat at once, so this counts the silence of
        those that no `fate` is known of, too.
        """
        if not self._has_looked:
            return True
        sighting = self._seen.get(worker)
        return sighting is not None and self._silent_s(sighting) < LEASE_S

    def fate_of_any(
        self, group: str, since: datetime, until: datetime, *, without: Collection[str] = ()
    ) -> Fate:
        """Return ``DIED`` if any worker that serves a queue group died between two times.

        ``LIVED`` if none did; ``OPEN`` while one that died then may not have been found yet. The
        workers named in ``without`` are left out.
        """
        now = self._clock.now()
        lease, skew = timedelta(seconds=LEASE_S), timedelta(seconds=SKEW_S)
        for name in self._seen.keys() - without:
            life = self._seen[name].life
            in_time = since - lease <= life.at <= until + skew
            if group in life.groups and in_time and self.fate(name) is Fate.DIED:
                return Fate.DIED
        found = now - until >= lease and self._looked_at - self._watching_since >= LEASE_S
        return Fate.LIVED if found else Fate.OPEN

    def beats(self, workers: Iterable[str]) -> Mapping[str, int]:
        """Return the last beats of the workers that are known, for a later delivery to compare."""
        known = {name: self._seen[name] for name in workers if name in self._seen}
        return {name: sighting.life.beat for name, sighting in known.items()}

    def forgettable(self, hides_s: int) -> list[str]:
        """Return the names of workers that have been silent for so long that none of the messages
        that they had can still be hidden.

        Args:
            hides_s: the longest visibility timeout here, for workers that don't tell theirs.
        """
        return [
            name
            for name, sighting in self._seen.items()
            if self._silent_s(sighting) >= _FORGET_S + max(hides_s, sighting.life.hides_s)
        ]

    @property
    def _has_looked(self) -> bool:
        return self._watching_since < math.inf

    def _silent_s(self, sighting: _Sighting) -> float:
        return self._looked_at - max(sighting.since, self._watching_since)

    def _take_in(self, lives: Iterable[Life]) -> None:
        now = self._clock.monotonic()
        self._looked_at = now
        self._watching_since = min(self._watching_since, now)
        seen: dict[str, _Sighting] = {}
        for life in lives:
            before = self._seen.get(life.name)
            if before is None or before.life.beat != life.beat:
                seen[life.name] = _Sighting(life, now)
            else:
                seen[life.name] = before
        self._seen = seen
