"""Progress of jobs, written now and then: handlers may report it more often than anyone looks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from headgate.jobs.core.events import JobProgress
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import keep_of, records_of
from headgate.jobs.records.items import keeps, progress_item
from headgate.jobs.records.journal import Journal

EVERY_S = 1.0
"""Minimum seconds between two writes of one job's progress."""


@dataclass(slots=True)
class _Told:
    latest: JobProgress | None
    """The latest report, if it has not been written yet."""
    timer: asyncio.TimerHandle


class Progress:
    """Writes the progress that jobs report, at most about once a second for each job.

    Args:
        app: decides which jobs' progress is recorded.
        worker: this worker's name.
        journal: writes the items.
    """

    def __init__(self, app: App, worker: str, journal: Journal) -> None:
        self._app = app
        self._worker = worker
        self._journal = journal
        self._told: dict[str, _Told] = {}

    def told(self, event: JobProgress) -> None:
        """Take a job's report of its progress."""
        declared = self._app.types.get(event.job_type)
        if declared is None or not keeps(records_of(self._app, declared), "outcomes"):
            return
        if (told := self._told.get(event.job_id)) is not None:
            told.latest = event
        else:
            self._write(event)

    def ended(self, job_id: str) -> None:
        """Write the last report of a job that has ended."""
        if (told := self._told.pop(job_id, None)) is None:
            return
        told.timer.cancel()
        if told.latest is not None:
            self._put(told.latest)

    def _write(self, event: JobProgress) -> None:
        self._put(event)
        timer = asyncio.get_running_loop().call_later(EVERY_S, self._again, event.job_id)
        self._told[event.job_id] = _Told(None, timer)

    def _again(self, job_id: str) -> None:
        told = self._told.pop(job_id)
        if told.latest is not None:
            self._write(told.latest)

    def _put(self, event: JobProgress) -> None:
        keep = keep_of(self._app, self._app.types[event.job_type])
        self._journal.put(progress_item(event, worker=self._worker, keep=keep))
