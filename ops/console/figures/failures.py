"""The failed attempts of late, from the counts that workers write into their statuses."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from headgate.jobs.records.fleet.worker_status import WorkerStatus
from headgate.jobs.values.light_dataclass import light_dataclass

_MINUTE = timedelta(minutes=1)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One look at the workers."""

    at: datetime
    failed: Mapping[str, int]
    """By queue group, the attempts that have failed since the look before."""
    polled: frozenset[str]
    """The queue groups that workers receive from. Functions that run jobs write no status."""


class Failures:
    """Counts what fails between two looks at the workers. Not thread-safe.

    Workers count from their start on and write their counts twice a minute. What failed before
    the first look is unknown, and so is what failed after the last status of a worker that ended.
    """

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque()
        self._counted: Mapping[str, Mapping[str, int]] = {}
        """By worker, its counts at the last look."""

    def add(self, at: datetime, workers: Sequence[WorkerStatus]) -> None:
        """Count what has failed since the last look."""
        failed: dict[str, int] = {}
        for each in workers:
            before = self._counted.get(each.name)
            if before is None and not self._began_since(each):
                continue
            for group, count in each.failed.items():
                failed[group] = failed.get(group, 0) + max(0, count - (before or {}).get(group, 0))
        polled = frozenset(group for each in workers for group in each.polls)
        self._looks.append(_Look(at=at, failed=failed, polled=polled))
        self._counted = {each.name: each.failed for each in workers}

    def forget(self, before: datetime) -> None:
        """Drop the looks before a time."""
        while self._looks and self._looks[0].at < before:
            self._looks.popleft()

    def per_minute(self, group: str | None = None) -> Sequence[tuple[datetime, int]]:
        """Return how many attempts failed in the minute before each look that found workers.

        Args:
            group: the only queue group that counts; None counts all.
        """
        points: list[tuple[datetime, int]] = []
        within: deque[tuple[datetime, int]] = deque()
        total = 0
        for look in self._looks:
            count = sum(look.failed.values()) if group is None else look.failed.get(group, 0)
            within.append((look.at, count))
            total += count
            while within[0][0] <= look.at - _MINUTE:
                total -= within.popleft()[1]
            if look.polled if group is None else group in look.polled:
                points.append((look.at, total))
        return points

    def _began_since(self, worker: WorkerStatus) -> bool:
        """Return True if all that a worker counted failed after the last look."""
        return bool(self._looks) and worker.started_at >= self._looks[-1].at
