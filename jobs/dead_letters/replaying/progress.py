"""The progress of a replay in one process, written to the table as it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from headgate.jobs.core.clock import Clock
from headgate.jobs.dead_letters.replaying.book import ReplayLease
from headgate.jobs.dead_letters.replaying.remaking import Remade
from headgate.jobs.dead_letters.replaying.report import (
    MAX_LISTED,
    LeftLetter,
    ReplayReport,
    ReplayState,
)
from headgate.jobs.errors import TransportError
from headgate.jobs.values.own_log import OwnLog

WRITE_S = 2.0
"""Minimum seconds between two writes."""

_log = OwnLog("headgate.replay")


class ReplayProgress:
    """The report of a replay, as one process carries it on.

    Args:
        report: the replay, as it stands.
        lease: the lease of it.
        clock: tells the time.
        tell: called with the report at each write.
    """

    def __init__(
        self,
        report: ReplayReport,
        lease: ReplayLease,
        clock: Clock,
        tell: Callable[[ReplayReport], None],
    ) -> None:
        self.report = report
        self._lease = lease
        self._clock = clock
        self._tell = tell
        self._refused: set[str] = set()
        self._ending: tuple[ReplayState, str] | None = None

    @property
    def is_ending(self) -> bool:
        """True once the replay is to end before everything is sent."""
        return self._ending is not None

    def stop(self, why: str) -> None:
        """Let the replay stop, unless it is ending already."""
        self._ending = self._ending or (ReplayState.STOPPED, why)

    def is_refused(self, message_id: str) -> bool:
        """Return True for a letter that is left where it is."""
        return message_id in self._refused

    def count(self, sent: Sequence[Remade]) -> None:
        """Count jobs that were sent."""
        by_queue = Counter(self.report.by_queue)
        by_queue.update(each.queue.name for each in sent)
        count = self.report.sent + len(sent)
        self.report = replace(self.report, sent=count, by_queue=dict(by_queue))

    def refuse(self, left: Sequence[LeftLetter]) -> Sequence[LeftLetter]:
        """Count letters that are left where they are; return those that are to be listed."""
        self._refused |= {each.message_id for each in left}
        listed = left[: MAX_LISTED - len(self.report.left)]
        self.report = replace(
            self.report, refused=len(self._refused), left=(*self.report.left, *listed)
        )
        return listed

    def note_deaths(self, count: int) -> None:
        """Note how many of the jobs are known to have died again."""
        self.report = replace(self.report, died_again=max(self.report.died_again, count))

    def judged(self) -> None:
        """Note that the canary was judged."""
        self.report = replace(self.report, canary_passed=True)

    async def hold(self) -> None:
        """Make sure of the lease; raises as `ReplayLease.write`."""
        if not self._lease.stands:
            await self._write()

    async def write(self) -> None:
        """Write the report, if that is due; a failure is borne for as long as the lease stands.

        Raises:
            ReplayRunning: another process has taken over.
            TransportError: the table could not be asked.
        """
        if self._clock.monotonic() - self._lease.renewed_at < WRITE_S:
            return
        try:
            await self._write()
        except TransportError as error:
            if not self._lease.stands:
                raise
            _log.warning("the progress of %s is not written: %s", self.report.id, error)

    async def end(self) -> ReplayReport:
        """Write the last report; if that fails, the replay counts as stopped after its lease."""
        state, reason = self._ending or (ReplayState.DONE, "")
        self.report = replace(self.report, state=state, reason=reason, updated_at=self._clock.now())
        try:
            self.report = await self._lease.write(self.report)
        except TransportError as error:
            _log.warning("the end of the replay %s is not written: %s", self.report.id, error)
        self._tell(self.report)
        return self.report

    async def _write(self) -> None:
        self.report = replace(self.report, updated_at=self._clock.now())
        written = await self._lease.write(self.report)
        if written.state is ReplayState.ABORTED:
            self._ending = ReplayState.ABORTED, written.reason
        self._tell(self.report)
