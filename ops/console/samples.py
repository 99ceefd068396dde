"""The past of the queues, as far as somebody looked: a sample for each time they were read."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.jobs.client.overview.queues import QueueList, QueueStatus
from headgate.ops.console.charts import Curve, curve

_MOST = 360
"""Samples that are kept: half an hour, if somebody looks all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The queues at one time."""

    at: datetime
    queues: Sequence[QueueStatus]


class Samples:
    """The latest samples. Thread-safe."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque(maxlen=_MOST)
        self._lock = threading.Lock()

    def add(self, at: datetime, found: QueueList) -> None:
        """Keep what was read."""
        with self._lock:
            self._kept.append(Sample(at=at, queues=found.queues))

    def chart(
        self,
        value: Callable[[QueueStatus], float | None],
        group: str | None = None,
        *,
        over: Callable[[Iterable[float]], float] = sum,
    ) -> Curve | None:
        """Return the curve of a number of queues; None with fewer than two samples.

        Args:
            value: returns a queue's number; None counts as 0.
            group: the only queue group that counts; None counts all.
            over: makes one number of those of all queues, of which there is at least one.
        """
        with self._lock:
            kept = list(self._kept)
        if len(kept) < 2:
            return None
        values = [
            over([value(each) or 0.0 for each in sample.queues if group in (None, each.queue)])
            for sample in kept
        ]
        return curve([sample.at.timestamp() for sample in kept], values)

    @property
    def since(self) -> datetime | None:
        """The time of the oldest sample; None without one."""
        with self._lock:
            return self._kept[0].at if self._kept else None
