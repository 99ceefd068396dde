"""The past of the queues, as far as somebody looked: a sample for each time they were read."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime

from headgate.jobs.client.overview.queues import QueueList, QueueStatus
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.console.figures.charts import Curve, curve
from headgate.ops.console.figures.failures import Failures

_MOST = 360
"""Samples that are kept: half an hour, if somebody looks all the time."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The queues at one time."""

    at: datetime
    queues: Sequence[QueueStatus]


class Samples:
    """The latest samples. Thread-safe."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque(maxlen=_MOST)
        self._failures = Failures()
        self._lock = threading.Lock()

    def add(self, at: datetime, found: QueueList) -> None:
        """Keep what was read."""
        with self._lock:
            self._kept.append(Sample(at=at, queues=found.queues))
            if found.workers is not None:
                self._failures.add(at, found.workers)
            self._failures.forget(before=self._kept[0].at)

    def chart(
        self,
        value: Callable[[QueueStatus], float | None],
        group: str | None = None,
    ) -> Curve | None:
        """Return the curve of a number of queues; None with fewer than two samples that have it.

        Args:
            value: returns a queue's number. Where it is None, unknown, the queue is left out, and
                so is a sample without any that is known.
            group: the only queue group that counts; None counts all.
        """
        with self._lock:
            kept = list(self._kept)
        points: list[tuple[datetime, float]] = []
        for sample in kept:
            told = [value(each) for each in sample.queues if group in (None, each.queue)]
            if known := [each for each in told if each is not None]:
                points.append((sample.at, sum(known)))
        return _through(points)

    def failed_attempts(self, group: str | None = None) -> Curve | None:
        """Return the curve of the failed attempts a minute, as the workers count them.

        None if the workers are unknown, or were looked at only once.

        Args:
            group: see `chart`.
        """
        with self._lock:
            return _through(self._failures.per_minute(group))

    @property
    def since(self) -> datetime | None:
        """The time of the oldest sample; None without one."""
        with self._lock:
            return self._kept[0].at if self._kept else None


def _through(points: Sequence[tuple[datetime, float]]) -> Curve | None:
    """Return the curve through points; None with fewer than two."""
    if len(points) < 2:
        return None
    return curve([at.timestamp() for at, _ in points], [number for _, number in points])
