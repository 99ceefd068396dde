"""The book of an app's replays: its items in the table, and the lease of the one that runs each.

A replay's item is replaced by its runner every few seconds, on the condition that nobody else has
replaced it meanwhile. So the same write renews the lease, shows the progress, and finds out that
somebody has aborted the replay. A runner that ended without a word is followed by another once its
lease has expired.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import datetime, timedelta

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.dead_letters.replaying.report import (
    REPLAYS,
    ReplayReport,
    ReplayState,
    read_replay,
    replay_item,
)
from headgate.jobs.errors import ReplayMissing, ReplayOver, ReplayRunning, TransportError
from headgate.jobs.values.own_log import OwnLog

LEASE_S = 60.0
"""Seconds for which a runner may go on without a write."""

MAX_PAGES = 16
"""Maximum number of requests of a listing, of a thousand replays and a MiB each."""

_TRIES = 20
"""Tries of a write while others come first."""

_log = OwnLog("headgate.replay")


class ReplayLease:
    """One runner's lease of a replay.

    Args:
        table: holds the replay.
        item: its item, as the runner has written it.
        runner: the runner's name.
        clock: tells the time.
    """

    def __init__(self, table: AsyncTable, item: Item, runner: str, clock: Clock) -> None:
        self._table = table
        self._known = item
        self._runner = runner
        self._clock = clock
        self.renewed_at = clock.monotonic()
        """Time of the last write, on the monotonic clock."""

    @property
    def stands(self) -> bool:
        """True while no other runner can have taken over."""
        return self._clock.monotonic() - self.renewed_at < LEASE_S

    async def write(self, report: ReplayReport) -> ReplayReport:
        """Write how far the replay is, and renew the lease; return it aborted if somebody did that.

        A report that doesn't say running ends the lease.

        Raises:
            ReplayRunning: another runner has taken over.
            TransportError: the table could not be asked.
        """
        asked_at = self._clock.monotonic()
        for _ in range(_TRIES):
            until = self._clock.now()
            if report.state is ReplayState.RUNNING:
                until += timedelta(seconds=LEASE_S)
            item = replay_item(
                report, runner=self._runner, until=until, version=self._known.version + 1
            )
            standing = await self._table.replace(item)
            if standing is None:
                self._known, self.renewed_at = item, asked_at
                return report
            if standing.data.get("runner") != self._runner:
                raise ReplayRunning(f"another process has taken the replay {report.id} over")
            self._known = standing  # aborted, or our own write, whose answer was lost
            if standing.data.get("state") == ReplayState.ABORTED:
                reason = str(standing.data.get("reason") or "")
                report = replace(report, state=ReplayState.ABORTED, reason=reason)
        raise TransportError(f"the replay {report.id} could not be written: too many write to it")


class ReplayBook:
    """The replays of an app.

    Args:
        table: holds them.
        clock: tells the time.
    """

    def __init__(self, table: AsyncTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def begin(self, report: ReplayReport) -> ReplayLease:
        """Enter a new replay, leased by the caller."""
        return await self._lease(report, Item(pk=REPLAYS, sk=report.id))

    async def take_over(self, replay_id: str) -> tuple[ReplayReport, ReplayLease]:
        """Lease a replay that has stopped.

        Raises:
            ReplayMissing: there is none with that id.
            ReplayRunning: another process carries it out.
            ReplayOver: it is done, or was aborted.
        """
        item, report = await self._found(replay_id)
        _check_open(report)
        if report.state is ReplayState.RUNNING:
            raise ReplayRunning(
                f"another process carries the replay {replay_id} out; if that was killed, it "
                f"counts as stopped {LEASE_S:g} s after its last step"
            )
        report = replace(report, state=ReplayState.RUNNING, reason="", updated_at=self._now)
        return report, await self._lease(report, item)

    async def abort(self, replay_id: str, by: str) -> ReplayReport:
        """End a replay for good; its runner, if any, ends with its next step.

        Raises:
            ReplayMissing: there is none with that id.
            ReplayOver: it is done.
            TransportError: the table could not be asked.
        """
        for _ in range(_TRIES):
            item, report = await self._found(replay_id)
            if report.state is ReplayState.ABORTED:
                return report
            _check_open(report)
            reason = f"aborted by {by}" if by else "aborted"
            told = {**item.data, "state": str(ReplayState.ABORTED), "reason": reason[:500]}
            aborted = replace(item, data=told, version=item.version + 1)
            if await self._table.replace(aborted) is None:
                return replace(report, state=ReplayState.ABORTED, reason=reason)
        raise TransportError(f"the replay {replay_id} could not be aborted: too many write to it")

    async def get(self, replay_id: str) -> ReplayReport:
        """Return a replay.

        Raises:
            ReplayMissing: there is none with that id.
        """
        return (await self._found(replay_id))[1]

    async def all(self) -> list[ReplayReport]:
        """Return the replays of the last 30 days, the newest first; strange items are skipped."""
        found: list[Item] = []
        after = ""
        for _ in range(MAX_PAGES):
            page = await self._table.page(REPLAYS, after=after)
            found += page.items
            if not (after := page.after):
                break
        readable = [each for item in found if (each := read_replay(item, self._now)) is not None]
        if skipped := len(found) - len(readable):
            _log.warning("%d items of the partition %r are no replays", skipped, REPLAYS)
        return sorted(readable, key=lambda each: each.started_at, reverse=True)

    async def _found(self, replay_id: str) -> tuple[Item, ReplayReport]:
        item = await self._table.get(REPLAYS, replay_id) if replay_id else None
        report = None if item is None else read_replay(item, self._now)
        if item is None or report is None:
            raise ReplayMissing(
                f"there is no replay {replay_id!r}; `headgate dead-letters replays` lists those of "
                "the last 30 days"
            )
        return item, report

    async def _lease(self, report: ReplayReport, standing: Item) -> ReplayLease:
        runner = secrets.token_hex(8)
        lease = ReplayLease(self._table, standing, runner, self._clock)
        await lease.write(report)
        return lease

    @property
    def _now(self) -> datetime:
        return self._clock.now()


def _check_open(report: ReplayReport) -> None:
    if report.state in (ReplayState.DONE, ReplayState.ABORTED):
        raise ReplayOver(f"the replay {report.id} is {report.state}: start another")
