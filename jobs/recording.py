"""Attempts told from deliveries: what happened to a job before, and what happens to it here.

A first delivery waits for nothing. From the second on the job's items are read before it may start,
and a mark is written before it does. Whatever makes a message visible again is written first, so
that its next receiver finds it explained. All else is written beside the jobs (`workers.journal`).
A table that fails holds no job up: attempts are then counted by deliveries, as without records.
"""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import datetime
from functools import partial
from typing import Any, NoReturn

from jobs.app import App
from jobs.batcher import Batcher, Pacing
from jobs.claims import CLAIM
from jobs.clock import Clock
from jobs.errors import ResultNotKept, TransportError
from jobs.events import Event, Events, JobProgress, RecordsFailed
from jobs.execution import Run, Verdict
from jobs.journal import Journal
from jobs.large_results import put_result
from jobs.outcome import Cancelled, Crashed, Deferred, Discarded, Done, Failed, Interrupted, Outcome
from jobs.ports import MAX_PUT, Item, ObjectStore, Table
from jobs.progress import Progress
from jobs.records import Mark, Scribe, deliveries_of, keeps, partition, read_history
from jobs.returns import MAX_RESULT_BYTES, dump_result
from jobs.settlement import DeadLetter, Quarantine, Release, RetryAfter
from jobs.texts import text_of, type_of
from jobs.writes import Refusal, put_batch

_log = logging.getLogger("headgate.worker")

_PACING = Pacing(linger_s=0.005, tries=3)

_SILENT_DEATH = "the process that had it ended without a word"


class Recorder:
    """Reads and writes the items of the jobs that a worker or a Lambda function runs.

    Args:
        app: says what is written of which types, how long it is kept, and which crashes count.
        table: where the items are.
        worker: who writes, for those who read the items.
        clock: tells the time.
        events: hears of reads and writes that failed.
        rng: spreads the pauses between tries.
        store: where results go that are too large for a record; without it they are not kept.
        silence_counts: see `jobs.records.read_history`.
    """

    def __init__(
        self,
        app: App,
        table: Table,
        *,
        worker: str,
        clock: Clock,
        events: Events,
        rng: random.Random,
        store: ObjectStore | None = None,
        silence_counts: bool = True,
    ) -> None:
        self._store = store
        self._storing: set[asyncio.Task[None]] = set()
        self._silence_counts = silence_counts
        self._app = app
        self._table = table
        self._worker = worker
        self._clock = clock
        self._events = events
        self._writes = Batcher(
            partial(put_batch, table, on_refused=self._refused),
            pacing=_PACING,
            eager=lambda: not self._writes.busy,
            name="headgate-record",
            rng=rng,
            most=MAX_PUT,
        )
        self._journal = Journal(table, clock=clock, events=events, rng=rng)
        self._progress = Progress(app, worker, self._journal)

    def __call__(self, event: Event) -> None:
        """Subscriber: what is told of how far jobs are."""
        if isinstance(event, JobProgress):
            self._progress.told(event)

    async def run(self) -> NoReturn:
        """Write what nothing waits for, until cancelled."""
        await self._journal.run()

    async def recall(self, run: Run) -> None:
        """Tell a run what happened to its job before. A first delivery has no past."""
        message = run.delivery.message
        if (scribe := self._scribe(run)) is None or message.receive_count == 1:
            return
        pk, prefix = partition(scribe.job_id), deliveries_of(message.message_id)
        try:
            items = await self._table.query(pk, prefix=prefix)
            if not await self._may_have_run(run):
                released = scribe.mark(Mark.RELEASED, self._clock.now(), {}, receive=1)
                items = [released, *items]
                await self._write(scribe, released)
        except TransportError as error:
            self._report("read", scribe, error)
            return
        history = read_history(
            items,
            message.message_id,
            message.receive_count,
            now=self._clock.now(),
            window=self._app.crash_limit.window(run.delivery.queue.lane.visibility),
            silence_counts=self._silence_counts,
        )
        for receive in history.unexplained:
            crash = {"detail": _SILENT_DEATH}
            item = scribe.mark(Mark.CRASHED, self._clock.now(), crash, receive=receive)
            await self._write(scribe, item)
        if (job := run.job) is not None:
            run.recall(
                number=history.number(job.envelope.attempts_used),
                crashes=history.recent_crashes,
                crash=Crashed(detail=_SILENT_DEATH) if history.unexplained else None,
            )

    async def _may_have_run(self, run: Run) -> bool:
        """Whether its first delivery may have begun it: what has to be claimed leaves a claim.

        Without one it was given back while the table was away, so that nothing could say so.
        """
        if (job := run.job) is None or not job.type.once:
            return True
        return await self._table.get(partition(job.attempt.job_id), CLAIM) is not None

    async def starts(self, run: Run) -> None:
        """It is about to be run. Of a later delivery that is said in advance, for the case that the
        process dies of it."""
        if (job := run.job) is None or (scribe := self._scribe(run)) is None:
            return
        if scribe.receive > 1:
            item = scribe.mark(Mark.STARTED, self._clock.now(), {"attempt": job.attempt.number})
            await self._write(scribe, item)
        elif keeps(scribe.level, "full"):
            started = {"attempt": job.attempt.number}
            self._journal.put(scribe.mark(Mark.STARTED, self._clock.now(), started))

    async def explain(self, run: Run, verdict: Verdict) -> None:
        """Say how it ended; to be awaited before its message shows again."""
        if (scribe := self._scribe(run)) is None:
            return
        self._progress.ended(scribe.job_id)
        outcome = verdict.outcome
        if isinstance(outcome, Done | Discarded):
            self._ended(scribe, verdict)
        elif (kind := _mark_of(outcome)) is not None:
            data = {"attempt": verdict.attempt.number, **_details(verdict)}
            item = scribe.mark(kind, self._clock.now(), data)
            if isinstance(verdict.action, RetryAfter | Release):
                await self._write(scribe, item)
            else:
                self._journal.put(item)  # it is parked: nobody will receive it

    def parked(self, run: Run, verdict: Verdict) -> None:
        """It has left its queue for good, for one where no worker receives."""
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
            case _:
                pass

    async def released(self, run: Run) -> None:
        """It goes back without having been started; to be awaited before it does."""
        if (scribe := self._scribe(run)) is not None:
            await self._write(scribe, scribe.mark(Mark.RELEASED, self._clock.now(), {}))

    async def drain(self) -> None:
        """Write what still waits."""
        await self._writes.drain()
        if self._storing:
            await asyncio.wait(self._storing)
        await self._journal.drain()

    def _scribe(self, run: Run) -> Scribe | None:
        """Who writes of a delivery; None if nothing is to be written."""
        if (job := run.job) is None:
            return None
        if (level := self._app.records_of(job.type)) == "off":
            return None
        message = run.delivery.message
        return Scribe(
            job_id=job.attempt.job_id,
            message_id=message.message_id,
            receive=message.receive_count,
            job_type=job.type.name,
            queue=run.delivery.queue.group,
            worker=self._worker,
            level=level,
            keep=self._app.keep_of(job.type),
        )

    def _ended(self, scribe: Scribe, verdict: Verdict) -> None:
        """Its handler has ended it. What simply completed may be kept for no time at all."""
        if not keeps(scribe.level, "outcomes"):
            return
        if not scribe.keep.completed and scribe.receive == 1:
            return
        own = {"attempt": verdict.attempt.number, "ran_s": verdict.ran_s}
        match verdict.outcome:
            case Discarded(reason=reason):
                told = own | {"reason": reason}
                self._journal.put(scribe.mark(Mark.DISCARDED, self._clock.now(), told))
            case Done(result=None):
                self._journal.put(scribe.mark(Mark.COMPLETED, self._clock.now(), own))
            case Done(result=result):
                self._completed(scribe, own, result)

    def _completed(self, scribe: Scribe, own: dict[str, Any], result: Any) -> None:
        at = self._clock.now()
        try:
            value, size = dump_result(result)
        except ResultNotKept as error:
            self._journal.put(scribe.mark(Mark.COMPLETED, at, own | _not_kept(scribe, error)))
            return
        if size <= MAX_RESULT_BYTES:
            told = own | {"result": value}
            self._journal.put(scribe.mark(Mark.COMPLETED, at, told), size=size)
            return
        storing = asyncio.create_task(
            self._completed_largely(scribe, at, own, value, size), name="headgate-result"
        )
        self._storing.add(storing)
        storing.add_done_callback(self._stored)

    async def _completed_largely(
        self, scribe: Scribe, at: datetime, own: dict[str, Any], value: Any, size: int
    ) -> None:
        """The object first, and then the record that has its address."""
        try:
            told = await put_result(self._store, scribe.job_id, value, size)
        except ResultNotKept as error:
            told = _not_kept(scribe, error)
        self._journal.put(scribe.mark(Mark.COMPLETED, at, own | told))

    def _stored(self, storing: asyncio.Task[None]) -> None:
        self._storing.discard(storing)
        if not storing.cancelled() and (error := storing.exception()) is not None:
            _log.error("keeping a result failed", exc_info=error)  # a fault of ours

    async def _write(self, scribe: Scribe, item: Item) -> None:
        try:
            await self._writes.put(item)
        except TransportError as error:
            self._report("write", scribe, error)

    def _refused(self, refusal: Refusal) -> None:
        error = text_of(refusal.error)
        self._events.emit(RecordsFailed(at=self._clock.now(), action="write", error=error))

    def _report(self, action: str, scribe: Scribe, error: TransportError) -> None:
        self._events.emit(
            RecordsFailed(
                at=self._clock.now(), action=action, error=str(error), job_id=scribe.job_id
            )
        )


def _not_kept(scribe: Scribe, error: ResultNotKept) -> dict[str, Any]:
    _log.warning("job %s of %s: %s", scribe.job_id, scribe.job_type, error)
    return {"result_fault": str(error)}


def _mark_of(outcome: Outcome) -> Mark | None:
    match outcome:
        case Failed():
            return Mark.FAILED
        case Crashed():
            return Mark.CRASHED
        case Deferred():
            return Mark.DEFERRED
        case Interrupted():
            return Mark.RELEASED
        case Cancelled():
            return Mark.CANCELLED
        case _:
            return None


def _details(verdict: Verdict) -> dict[str, Any]:
    action = verdict.action
    again = {"retry_in_s": action.delay_s} if isinstance(action, RetryAfter | Release) else {}
    match verdict.outcome:
        case Failed(error=error, traceback=traceback):
            return {
                "ran_s": verdict.ran_s,
                "error_type": type_of(error),
                "error_message": text_of(error),
                "traceback": traceback,
                **again,
            }
        case Crashed(detail=detail):
            return {"detail": detail, **again}
        case Deferred(reason=reason) | Interrupted(reason=reason) | Cancelled(reason=reason):
            return {"reason": reason, **again}
        case _:
            return {}
