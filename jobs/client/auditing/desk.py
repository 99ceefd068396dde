"""``client.audit``: who did what, and when.

`AsyncAuditDesk` is the awaited form of `AuditDesk`, and its engine.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime

from headgate.jobs.client.services import ClientServices
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.records.audit.entry import (
    AUDIT,
    AuditEntry,
    is_end,
    read_begun,
    stamp,
    with_end,
)
from headgate.jobs.values.durations import Duration
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass
from headgate.jobs.values.listing.cursors import cursor_of, place_of
from headgate.jobs.values.listing.time_bounds import check_bound, check_order, moment_of

MOST_LISTED = 1_000
"""Maximum number of entries on a page."""

_OWNER = "the audit"

_MOST_REQUESTS = 10
"""Maximum number of requests of a page, of a thousand items and a MiB each."""

_CHUNK = 1_000


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Entries of the audit that were listed."""

    entries: Sequence[AuditEntry]
    """The latest first."""
    next: str
    """The ``after`` of the next page; empty at the end. A page may have fewer entries than were
    asked for, or none, and not be the last: there were too many others in between."""
    skipped: int
    """Number of items that no version of Headgate up to this one wrote."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The entries that are asked for."""

    since: datetime | None
    until: datetime | None
    actor: str
    action: str
    target: str

    @property
    def begin(self) -> str:
        """The sort key after which the entries follow."""
        return "" if self.until is None else stamp(self.until)

    @property
    def has_all(self) -> bool:
        """True if every entry of the time is asked for."""
        return not (self.actor or self.action or self.target)

    def has(self, entry: AuditEntry) -> bool:
        return (
            (self.until is None or entry.at < self.until)
            and self.actor.casefold() in entry.actor.casefold()
            and self.action in ("", entry.action)
            and self.target.casefold() in str(entry.target).casefold()
        )

    def is_too_old(self, entry: AuditEntry) -> bool:
        return self.since is not None and entry.at < self.since


@light_dataclass(frozen=True, slots=True, kw_only=True)
class AsyncAuditDesk:
    """The awaited form of `AuditDesk`, which also drives this class.

    Args:
        table: holds the audit.
        clock: tells the time, from which ages count.
    """

    table: AsyncTable
    clock: Clock

    async def list(
        self,
        *,
        since: datetime | Duration | None = None,
        until: datetime | Duration | None = None,
        actor: str = "",
        action: str = "",
        target: str = "",
        limit: int = 50,
        after: str = "",
    ) -> AuditPage:
        """`AuditDesk.list`, awaited."""
        if not 1 <= limit <= MOST_LISTED:
            raise ConfigurationError(f"limit must lie between 1 and {MOST_LISTED:,}, got {limit}")
        wanted = self._wanted(since, until, actor, action, target)
        begin = place_of(after) or wanted.begin
        return await _Reading(self.table, wanted, limit).read(begin)

    def _wanted(
        self,
        since: datetime | Duration | None,
        until: datetime | Duration | None,
        actor: str,
        action: str,
        target: str,
    ) -> _Wanted:
        earliest, latest = check_bound(_OWNER, "since", since), check_bound(_OWNER, "until", until)
        check_order(_OWNER, earliest, latest)
        now = self.clock.now()
        return _Wanted(
            since=moment_of(earliest, now),
            until=moment_of(latest, now),
            actor=actor,
            action=action,
            target=target,
        )


class AuditDesk:
    """The audit of an app: what was done through its clients, by whom and when.

    An entry is written before each action, which is not carried out if that fails, and the outcome
    after it. Submitting, and whatever only looks, is not in it.
    """

    def __init__(self, engine: AsyncAuditDesk) -> None:
        self._engine = engine

    def list(
        self,
        *,
        since: datetime | Duration | None = None,
        until: datetime | Duration | None = None,
        actor: str = "",
        action: str = "",
        target: str = "",
        limit: int = 50,
        after: str = "",
    ) -> AuditPage:
        """Return a page of entries, the latest first.

        It takes a query for every thousand items, of which an action has two; at most ten.

        Args:
            since: only those at or after a time, which is aware, or at most as old as an age, a
                timedelta or a number of seconds.
            until: only those before a time, or older than an age; as ``since``.
            actor: a part of the actor's name, in upper or lower case.
            action: an action, such as ``"purge"``; see docs/audit.md.
            target: a part of what was acted on, in upper or lower case: an id, a queue, a type, a
                tenant.
            limit: the maximum number of entries on the page, up to 1,000.
            after: the ``next`` of the page before; empty begins with the latest.

        Raises:
            ConfigurationError: ``limit`` or a time is out of range, or ``after`` is of no page.
            TransportError: the table can't be read.
        """
        return drive(
            self._engine.list(
                since=since,
                until=until,
                actor=actor,
                action=action,
                target=target,
                limit=limit,
                after=after,
            )
        )


def audit_of(services: ClientServices) -> AsyncAuditDesk:
    """Return the audit of a client's app, over what its handles use."""
    return AsyncAuditDesk(table=services.table, clock=services.clock)


class _Reading:
    """One page while it is read."""

    def __init__(self, table: AsyncTable, wanted: _Wanted, limit: int) -> None:
        self._table = table
        self._wanted = wanted
        self._limit = limit
        self._entries: builtins.list[AuditEntry] = []
        self._open: AuditEntry | None = None
        """The last entry that was read, whose outcome may follow."""
        self._read_to = ""
        """The sort key up to which everything is on this page or left out."""
        self._skipped = 0
        self._is_full = self._is_over = False

    async def read(self, begin: str) -> AuditPage:
        """Read from after a sort key on."""
        after = begin
        for _ in range(_MOST_REQUESTS):
            page = await self._table.page(AUDIT, after=after, limit=self._chunk)
            if not all(self._take(item) for item in page.items):
                break
            if not (after := page.after):
                self._close()
                self._is_over = True
                break
            if self._open is None:  # what has expired is in no page's items
                self._read_to = after
        return AuditPage(
            entries=self._entries,
            next="" if self._is_over else cursor_of(self._read_to),
            skipped=self._skipped,
        )

    @property
    def _chunk(self) -> int:
        return min(2 * self._limit + 1, _CHUNK) if self._wanted.has_all else _CHUNK

    def _take(self, item: Item) -> bool:
        """Take the next item; return False if it no longer belongs to this page."""
        if is_end(item):
            self._take_end(item)
            return True
        self._close()
        if len(self._entries) >= self._limit:
            return False
        if (entry := read_begun(item)) is None:
            self._skip(item)
        elif self._wanted.is_too_old(entry):
            self._is_over = True
        else:
            self._open = entry
        return not self._is_over

    def _take_end(self, item: Item) -> None:
        ended = None if self._open is None else with_end(self._open, item)
        if ended is None:
            self._close()
            self._skip(item)
        else:
            self._open = ended
            self._close()
            self._read_to = item.sk

    def _close(self) -> None:
        """Have the last entry on the page, if it is wanted, as it is known."""
        if self._open is not None:
            self._read_to = self._open.id
            if self._wanted.has(self._open):
                self._entries.append(self._open)
        self._open = None

    def _skip(self, item: Item) -> None:
        self._skipped += 1
        self._read_to = item.sk
