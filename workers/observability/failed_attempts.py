"""The failed attempts of a worker, counted for its status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from headgate.jobs.core.events import Event, JobFailed, any_of
from headgate.jobs.records.fleet.worker_status import MOST_FAILING


class FailedAttempts:
    """A subscriber that counts failed attempts by queue group, from the worker's start on."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    wants = staticmethod(any_of(JobFailed))

    def __call__(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, JobFailed):
            self._counts[event.queue] += 1

    @property
    def now(self) -> Mapping[str, int]:
        """The counts of the queue groups with most failed attempts, the largest first."""
        return dict(self._counts.most_common(MOST_FAILING))
