"""Progress of jobs, written now and then: handlers may report it more often than anyone looks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.jobs.core.concurrency import UnderWay
from headgate.jobs.core.events import JobProgress
from headgate.jobs.core.retention import Keep
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import keep_of, records_of
from headgate.jobs.errors import PayloadTooLarge, TransportError
from headgate.jobs.messages.sealing import About, Seals
from headgate.jobs.records.items import keeps, progress_item, progress_words
from headgate.jobs.records.journal import Journal
from headgate.jobs.values.texts import text_of

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
        seals: seals what handlers say; None writes it as it is.
    """

    def __init__(self, app: App, worker: str, journal: Journal, seals: Seals | None) -> None:
        self._app = app
        self._worker = worker
        self._journal = journal
        self._seals = seals
        self._told: dict[str, _Told] = {}
        self._kept: dict[str, Keep] = {}
        """The retention of running jobs' records, where their submissions set it."""
        self._under_way = UnderWay[None]()
        """Reports that are being sealed."""

    def keeps(self, job_id: str, keep: Keep) -> None:
        """Take the retention of a job that is about to run, in place of its type's."""
        self._kept[job_id] = keep

    def told(self, event: JobProgress) -> None:
        """Take a job's report of its progress."""
        declared = self._app.types.get(event.job_type)
        if declared is None or not keeps(records_of(self._app, declared), "outcomes"):
            return
        if not self._keep_of(event).completed:
            return  # the job would seem to run for as long as this is kept
        if (told := self._told.get(event.job_id)) is not None:
            told.latest = event
        else:
            self._write(event)

    def ended(self, job_id: str) -> None:
        """Write the last report of a job that has ended."""
        if (told := self._told.pop(job_id, None)) is not None:
            told.timer.cancel()
            if told.latest is not None:
                self._put(told.latest)
        self._kept.pop(job_id, None)

    def _write(self, event: JobProgress) -> None:
        self._put(event)
        timer = asyncio.get_running_loop().call_later(EVERY_S, self._again, event.job_id)
        self._told[event.job_id] = _Told(None, timer)

    def _again(self, job_id: str) -> None:
        told = self._told.pop(job_id)
        if told.latest is not None:
            self._write(told.latest)

    async def flush(self) -> None:
        """Return when nothing is being sealed; if cancelled, that goes on."""
        await self._under_way.flush()

    async def close(self) -> None:
        """Wait for what is being sealed for a bounded time; what is left then is not written."""
        await self._under_way.close()

    def _put(self, event: JobProgress) -> None:
        keep = self._keep_of(event)
        if self._seals is None:
            self._write_down(event, progress_words(event), keep)
            return
        sealing = asyncio.create_task(
            self._sealed(self._seals, event, keep), name="headgate-progress"
        )
        self._under_way.add(sealing)

    def _keep_of(self, event: JobProgress) -> Keep:
        own = self._kept.get(event.job_id)
        return keep_of(self._app, self._app.types[event.job_type]) if own is None else own

    async def _sealed(self, seals: Seals, event: JobProgress, keep: Keep) -> None:
        about = About(kind="progress", type=event.job_type, of=event.job_id)
        try:
            sealed = await seals.seal(about, progress_words(event))
            words: dict[str, Any] = {"sealed": sealed.model_dump(exclude_none=True)}
        except (PayloadTooLarge, TransportError) as error:  # the percentage is no secret
            words = {"sealed_fault": f"it could not be sealed: {text_of(error)}"}
        self._write_down(event, words, keep)

    def _write_down(self, event: JobProgress, words: Mapping[str, Any], keep: Keep) -> None:
        self._journal.put(progress_item(event, words, worker=self._worker, keep=keep))
