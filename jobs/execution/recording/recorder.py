"""Records of jobs, which make it possible to count attempts rather than deliveries.

A first delivery waits for nothing. From the second on, the job's items are read, and a mark is
written, before the job starts. The mark of an end that makes the message visible again is written
before that happens, so that the next receiver finds the delivery explained. All else is written in
the background (`jobs.records.journal`).

A table that fails, or doesn't answer within about a second, delays no job: the items go to the
journal, which retries, and attempts are counted by deliveries for the time being
(`jobs.execution.outcome.Attempt.known`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NoReturn

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Event, Events, JobProgress, RecordsWritten, any_of
from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.core.retention import Keep, RecordsLevel
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import job_keep_of, records_of
from headgate.jobs.errors import ResultNotKept
from headgate.jobs.execution.adoption import UNNAMED
from headgate.jobs.execution.delivery import has_died
from headgate.jobs.execution.outcome import (
    Attempt,
    Deferred,
    Discarded,
    Done,
    Dropped,
    Outcome,
    Unstarted,
)
from headgate.jobs.execution.recording.marks import details, mark_of, pause_details, seen
from headgate.jobs.execution.recording.progress import Progress
from headgate.jobs.execution.recording.recall import Recall
from headgate.jobs.execution.recording.writer import RecordWriter
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.actions import Ack, DeadLetter, Quarantine
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.messages.envelope import goes_on
from headgate.jobs.messages.sealing import Seals
from headgate.jobs.records.items import Mark, Scribe, keeps, submission_of
from headgate.jobs.records.large_results import LargeResults
from headgate.jobs.records.late_starts import LateStarts
from headgate.jobs.records.lives import Lives
from headgate.jobs.records.pausing.returns import is_told
from headgate.jobs.records.results import MAX_RESULT_BYTES, dumped
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.worker")


class Recorder:
    """Reads and writes the items of the jobs that a worker or a Lambda function runs.

    Args:
        app: says what is recorded for each type, how long it is kept, and which crashes count.
        table: holds the items.
        worker: this worker's name, shown in the items.
        clock: tells the time.
        events: receives an event for each failed read or write.
        rng: spreads the pauses between tries.
        store: holds results that are too large for a record; None: they are not kept.
        silence_counts: whether deliveries of which nothing is known count; see
            `jobs.execution.earlier_deliveries.Past.history`.
        lives: tells whether the workers that began jobs have died; None: no worker counts as dead.
        until: returns the time at which this process ends in any case, as a Lambda function does.
        seals: seals results and progress; None records them as they are.
        on_room: called when there may be room for more items, so that `is_behind` is worth asking.
    """

    def __init__(
        self,
        app: App,
        table: AsyncTable,
        *,
        worker: str,
        clock: Clock,
        events: Events,
        rng: random.Random,
        store: AsyncObjectStore | None = None,
        silence_counts: bool = True,
        lives: Lives | None = None,
        until: Callable[[], datetime | None] | None = None,
        seals: Seals | None = None,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._until = until
        self._results = LargeResults(store, seals)
        self._seals = seals
        self._app = app
        self._worker = worker
        self._clock = clock
        self._writer = RecordWriter(table, clock=clock, events=events, rng=rng, on_room=on_room)
        self._recall = Recall(
            app,
            table,
            self._writer,
            clock=clock,
            silence_counts=silence_counts,
            lives=lives,
        )
        self._journal = self._writer.journal
        self._progress = Progress(app, worker, self._journal, seals)
        self._late = LateStarts(self._put_start)

    wants = staticmethod(any_of(JobProgress, RecordsWritten))

    def __call__(self, event: Event) -> None:
        """Handle an event: jobs' progress, and the news that the table accepts records again."""
        if isinstance(event, JobProgress):
            self._progress.told(event)
        elif isinstance(event, RecordsWritten):
            self._writer.answered()

    async def run(self) -> NoReturn:
        """Write the items in the journal, until cancelled."""
        await self._journal.run()

    def is_behind(self, *, urgent: bool) -> bool:
        """Return True while jobs with full records should wait; see `Journal.is_behind`."""
        return self._journal.is_behind(urgent=urgent)

    async def recall(self, run: Run) -> None:
        """Tell a run about its job's earlier deliveries, unless it is the first."""
        if (scribe := self._scribe(run)) is not None and scribe.receive > 1:
            await self._recall.recall(run, scribe)

    async def starts(self, run: Run) -> None:
        """Record that the job is about to run.

        The start of a later delivery is written before the job runs, in case it kills the process.
        The start of a first delivery is written once the job has run for a second, so that short
        jobs cost nothing; with ``full`` it is written at once, and listed then. Without an end to
        follow it no start is written: it would count as a crash if the message came again and the
        worker was gone by then.
        """
        if (job := run.job) is None or run.foregone is not None:
            return
        level, receive = records_of(self._app, job.type), job.attempt.receives
        keep = job_keep_of(self._app, job.type, job.envelope)
        if (options := job.envelope.options) is not None and options.keep is not None:
            self._progress.keeps(job.attempt.job_id, keep)
        message = run.delivery.message
        past = receive > 1 or goes_on(job.envelope) or has_died(job.envelope, message)
        if not _tells_ends(level, keep, past=past):
            return
        if receive > 1:
            if (scribe := self._scribe(run)) is not None:
                await self._writer.write(scribe, self._start(run, scribe, job.attempt))
            return
        if keeps(level, "full"):
            self._put_start(run, listed=False)
        self._late.begun(run)

    def _put_start(self, run: Run, ago_s: float = 0.0, *, listed: bool = True) -> None:
        if (job := run.job) is not None and (scribe := self._scribe(run)) is not None:
            self._journal.put(self._start(run, scribe, job.attempt, ago_s, listed=listed))

    def _start(
        self,
        run: Run,
        scribe: Scribe,
        attempt: Attempt,
        ago_s: float = 0.0,
        *,
        listed: bool = True,
    ) -> Item:
        told: dict[str, Any] = {"attempt": attempt.number, **seen(run)}
        if self._until is not None and (until := self._until()) is not None:
            told["until"] = until.isoformat()
        at = self._clock.now() - timedelta(seconds=ago_s)
        return scribe.mark(Mark.STARTED, at, told, listed=listed)

    async def explain(self, run: Run, verdict: Verdict) -> None:
        """Record the outcome; to be awaited before the message shows again, or is parked."""
        self._late.ended(run)
        if (scribe := self._scribe(run)) is None:
            return
        self._progress.ended(scribe.job_id)
        outcome = verdict.outcome
        if isinstance(outcome, Done | Discarded | Dropped):
            await self._ended(scribe, verdict)
        elif _is_untold(run, outcome):
            return
        elif (kind := mark_of(outcome, began=run.began)) is not None:
            told = details(verdict, began=run.began)
            data = {"attempt": verdict.attempt.number, **told, **seen(run)}
            item = scribe.mark(kind, self._clock.now(), data)
            if isinstance(verdict.action, Ack):
                self._journal.put(item)  # the message is deleted: no receiver needs this item
            elif run.foregone is None or isinstance(outcome, Deferred):
                await self._writer.write(scribe, item)

    def parked(self, run: Run, verdict: Verdict) -> None:
        """Record that the message has gone to a queue that no worker reads."""
        if not isinstance(verdict.action, DeadLetter | Quarantine) or run.envelope is None:
            return
        if (scribe := self._scribe(run)) is None:
            return
        told: dict[str, Any] = {"attempt": verdict.attempt.number}
        match verdict.action:
            case DeadLetter(reason=reason, error_type=error_type, error_message=message):
                told |= {"reason": reason, "error_type": error_type, "error_message": message}
                self._journal.put(scribe.mark(Mark.DEAD, self._clock.now(), told))
            case Quarantine(detail=detail):
                told |= {"detail": detail}
                self._journal.put(scribe.mark(Mark.QUARANTINED, self._clock.now(), told))

    async def released(self, run: Run, verdict: Verdict) -> None:
        """Record that the job goes back; to be awaited before the release.

        It goes back unstarted, or while its handler, which nothing ends, still runs: then it has
        been begun, and can expire no more.
        """
        if _is_untold(run, verdict.outcome):
            return
        if (scribe := self._scribe(run)) is not None:
            kind, told = Mark.RELEASED, pause_details(verdict.outcome) | seen(run)
            if run.began:
                kind, told = Mark.INTERRUPTED, told | {"attempt": verdict.attempt.number}
            await self._writer.write(scribe, scribe.mark(kind, self._clock.now(), told))

    def hurry(self) -> None:
        """Wait less long from now on, since the worker is stopping."""
        self._writer.hurry()

    async def flush(self) -> None:
        """Write the waiting items; when cancelled, the rest is kept for another time."""
        await self._writer.drain()
        await self.sealed()
        await self._journal.flush()

    async def sealed(self) -> None:
        """Return when no result or progress is being sealed or stored; its record still waits."""
        await self._results.flush()
        await self._progress.flush()

    async def drain(self) -> None:
        """Write the waiting items for the last time; the rest is dropped."""
        await asyncio.gather(self._writer.drain(), self._results.close(), self._progress.close())
        await self._journal.drain()

    def _scribe(self, run: Run) -> Scribe | None:
        """Return the writer of a delivery's marks; None if nothing is to be recorded."""
        app, message = self._app, run.delivery.message
        envelope = run.envelope
        job_id, job_type = message.message_id, UNNAMED
        if envelope is not None:
            job_id, job_type = str(envelope.id), envelope.type
        declared = run.job.type if run.job is not None else app.types.get(job_type)
        level = app.records if declared is None else records_of(app, declared)
        if level == "off":
            return None
        return Scribe(
            job_id=job_id,
            message_id=message.message_id,
            receive=message.receive_count,
            job_type=job_type,
            queue=run.delivery.queue.group,
            worker=self._worker,
            level=level,
            keep=app.keep if declared is None else job_keep_of(app, declared, envelope),
            retention=run.delivery.queue.retention,
            submission=submission_of(envelope) if envelope is not None else {},
            goes_on=envelope is not None and goes_on(envelope),
            has_died=envelope is not None and has_died(envelope, message),
        )

    async def _ended(self, scribe: Scribe, verdict: Verdict) -> None:
        """Record a job that has ended without failing, if that is told of this delivery."""
        if not _tells_ends(scribe.level, scribe.keep, past=scribe.has_past):
            return
        own = {"attempt": verdict.attempt.number, "ran_s": verdict.ran_s}
        match verdict.outcome:
            case Discarded(reason=reason):
                told = own | {"reason": reason}
                self._journal.put(scribe.mark(Mark.DISCARDED, self._clock.now(), told))
            case Dropped(kind=kind, reason=reason):
                told = {"attempt": own["attempt"], "kind": kind, "reason": reason}
                self._journal.put(scribe.mark(Mark.DROPPED, self._clock.now(), told))
            case Done(result=result) if result is None or not keeps(scribe.level, "outcomes"):
                self._journal.put(scribe.mark(Mark.COMPLETED, self._clock.now(), own))
            case Done() as done:
                await self._completed(scribe, own, done)

    async def _completed(self, scribe: Scribe, own: dict[str, Any], done: Done) -> None:
        at = self._clock.now()
        value, size = done.written or await dumped(done.result)
        if size <= MAX_RESULT_BYTES and self._seals is None:
            told = own | {"result": value}
            self._journal.put(scribe.mark(Mark.COMPLETED, at, told), size=size)
            return
        kept = partial(self._kept, scribe, at, own)
        self._results.put(scribe.job_id, scribe.job_type, value, size, kept)

    def _kept(
        self,
        scribe: Scribe,
        at: datetime,
        own: dict[str, Any],
        found: dict[str, Any] | ResultNotKept,
    ) -> None:
        """Record a result once it is sealed, and its object written; or the reason for none."""
        told = _not_kept(scribe, found) if isinstance(found, ResultNotKept) else found
        size = len(told.get("result_sealed", {}).get("text", ""))
        self._journal.put(scribe.mark(Mark.COMPLETED, at, own | told), size=size)


def _tells_ends(level: RecordsLevel, keep: Keep, *, past: bool) -> bool:
    """Return True if the end of a delivery is recorded, however its job ends.

    A job that completes at its first delivery may leave nothing. With a ``past`` its records would
    say for ever that it is retried, or waits since a replay.
    """
    return past or (bool(keep.completed) and keeps(level, "outcomes"))


def _is_untold(run: Run, outcome: Outcome) -> bool:
    """Return True if a job goes back because of a pause, and an earlier record explains that."""
    is_paused = isinstance(outcome, Unstarted) and outcome.paused
    return is_paused and not is_told(run.delivery.message.receive_count)


def _not_kept(scribe: Scribe, error: ResultNotKept) -> dict[str, Any]:
    _log.warning("job %s of %s: %s", scribe.job_id, scribe.job_type, error)
    return {"result_fault": str(error)}
