"""Counts attempts, not deliveries: what happened to a job before, and what happens to it here.

A first delivery waits for nothing. From the second on the job's items are read before it may start,
and a mark is written before it does. Whatever makes a message visible again is written first, so
that its next receiver finds it explained. All else is written beside the jobs
(`jobs.records.journal`).

A table that fails, or doesn't answer within about a second, holds no job up: what was to be written
goes to the journal, which tries on, and attempts are counted by deliveries for the time being
(`jobs.execution.outcome.Attempt.known`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NoReturn, TypeVar

from headgate.jobs.core.batcher import Batcher, Pacing
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Event, Events, JobProgress, RecordsFailed, RecordsWritten
from headgate.jobs.core.ports import MAX_PUT, EntryFailure, Item, ObjectStore, Table
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import ResultNotKept, ServiceUnavailable, TransportError
from headgate.jobs.execution.claims import CLAIM
from headgate.jobs.execution.earlier_deliveries import Past, Start
from headgate.jobs.execution.foreign import UNNAMED
from headgate.jobs.execution.outcome import (
    Attempt,
    Cancelled,
    Crashed,
    Deferred,
    Discarded,
    Done,
    Failed,
    Interrupted,
    Outcome,
    Unrunnable,
    Unstarted,
)
from headgate.jobs.execution.run import Run, Verdict
from headgate.jobs.execution.settlement import (
    Ack,
    Action,
    DeadLetter,
    Quarantine,
    Release,
    RetryAfter,
)
from headgate.jobs.records.items import Mark, Scribe, deliveries_of, keeps, partition
from headgate.jobs.records.journal import Journal
from headgate.jobs.records.large_results import LargeResults
from headgate.jobs.records.late_starts import LateStarts
from headgate.jobs.records.lives import LEASE_S, Fate, Lives
from headgate.jobs.records.progress import Progress
from headgate.jobs.records.results import MAX_RESULT_BYTES, dumped
from headgate.jobs.records.writes import Refusal, put_batch
from headgate.jobs.values.texts import text_of, type_of

_log = logging.getLogger("headgate.worker")

_PACING = Pacing(linger_s=0.005, tries=3)

_SILENT_DEATH = "the worker died without reporting an outcome"

PATIENCE_S = 1.0
"""How long a job waits for the table, each time that it has to."""

LEAST_PATIENCE_S = 0.2
"""The same while the table has not answered lately, and while the worker stops."""

_ANY_SKEW = timedelta(seconds=60)
"""By how much clocks may differ where nothing is lost by waiting a little longer."""

T = TypeVar("T")


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
        silence_counts: whether deliveries of which nothing is known count; see
            `jobs.execution.earlier_deliveries.Past.history`.
        lives: tells whether the workers that began jobs have died; None: nobody is said to have.
        until: when this process's time ends in any case, as a Lambda function's does.
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
        lives: Lives | None = None,
        until: Callable[[], datetime | None] | None = None,
    ) -> None:
        self._lives = lives
        self._until = until
        self._slow = False
        """The last answer was not waited for to the end."""
        self._hurried = False
        self._results = LargeResults(store)
        self._silence_counts = silence_counts
        self._app = app
        self._table = table
        self._worker = worker
        self._clock = clock
        self._events = events
        self._writes = Batcher(
            self._put,
            pacing=_PACING,
            eager=lambda: not self._writes.busy,
            name="headgate-record",
            rng=rng,
            most=MAX_PUT,
        )
        self._journal = Journal(table, clock=clock, events=events, rng=rng)
        self._progress = Progress(app, worker, self._journal)
        self._late = LateStarts(self._put_start)

    def __call__(self, event: Event) -> None:
        """Subscriber: how far jobs are, and that the table takes records again."""
        if isinstance(event, JobProgress):
            self._progress.told(event)
        elif isinstance(event, RecordsWritten):
            self._slow = False

    async def run(self) -> NoReturn:
        """Write what nothing waits for, until cancelled."""
        await self._journal.run()

    async def recall(self, run: Run) -> None:
        """Tell a run what happened to its job before. A first delivery has no past."""
        if (scribe := self._scribe(run)) is None or scribe.receive == 1:
            return
        try:
            past = await self._within(self._past(run, scribe))
        except TransportError as error:
            self._report("read", scribe, error)
            run.forget()
            return
        run.tried(past.unrunnable)
        if run.job is None:
            return
        await self._look(past, scribe)
        now = self._clock.now()
        history = past.history(
            partial(self._fate, now=now),
            self._fate_of_the_first(past, run) if self._silence_counts else None,
            now=now,
            window=self._window(run),
        )
        crash = Crashed(detail=_SILENT_DEATH)
        for receive in history.found:
            item = scribe.mark(Mark.CRASHED, now, {"detail": crash.detail}, receive=receive)
            await self._write(scribe, item)
        workers = {start.worker for start in past.starts}
        beats = self._lives.beats(workers) if self._lives is not None else {}
        run.recall(history, beats=beats, crash=crash)

    async def _past(self, run: Run, scribe: Scribe) -> Past:
        """What is known of its earlier deliveries.

        Raises:
            TransportError: the table can't be asked.
        """
        pk, prefix = partition(scribe.job_id), deliveries_of(scribe.message_id)
        items = await self._table.query(pk, prefix=prefix)
        past = Past(items, scribe.message_id, scribe.receive)
        if past.is_silent and not await self._may_have_run(run):
            released = scribe.mark(Mark.RELEASED, self._clock.now(), {}, receive=1)
            past = Past([released, *items], scribe.message_id, scribe.receive)
            self._journal.put(released)
        return past

    async def _may_have_run(self, run: Run) -> bool:
        """Whether its first delivery may have begun it: what has to be claimed leaves a claim.

        Without one it was given back while the table was away, so that nothing could say so.
        """
        if (job := run.job) is None or not job.type.once:
            return True
        return await self._table.get(partition(job.attempt.job_id), CLAIM) is not None

    async def _look(self, past: Past, scribe: Scribe) -> None:
        """See who lives, where that tells something."""
        if self._lives is None or past.is_clear:
            return
        try:
            await self._within(self._lives.catch_up())
        except TransportError as error:  # then nobody is judged yet
            self._report("read", scribe, error)

    def _fate(self, start: Start, *, now: datetime) -> Fate:
        if start.until is not None:
            return Fate.DIED if now > start.until + _ANY_SKEW else Fate.OPEN
        if self._lives is None:
            return Fate.LIVED
        return self._lives.fate(start.worker, seen=start.seen)

    def _fate_of_the_first(self, past: Past, run: Run) -> Fate:
        if self._lives is None or not past.is_silent:
            return Fate.LIVED
        until = past.resumed_at or self._clock.now()
        message, queue = run.delivery.message, run.delivery.queue
        return self._lives.fate_of_any(queue.group, message.first_received_at, until)

    def _window(self, run: Run) -> timedelta:
        """How long ago a crash may be to count: it is found once a worker has been silent."""
        crash_limit, visibility = self._app.crash_limit, run.delivery.queue.lane.visibility
        return crash_limit.window(visibility + timedelta(seconds=LEASE_S))

    async def starts(self, run: Run) -> None:
        """It is about to be run.

        Of a later delivery that is written before, for the case that the process dies of it. Of a
        first one it is once it has run for a second, so that short jobs cost nothing.
        """
        if (job := run.job) is None or run.foregone is not None:
            return
        level = self._app.records_of(job.type)
        if job.attempt.receives > 1:
            if (scribe := self._scribe(run)) is not None:
                await self._write(scribe, self._start(run, scribe, job.attempt))
        elif keeps(level, "full"):
            self._put_start(run)
        elif keeps(level, "outcomes") and self._app.keep_of(job.type).completed:
            self._late.begun(run)

    def _put_start(self, run: Run, ago_s: float = 0.0) -> None:
        if (job := run.job) is not None and (scribe := self._scribe(run)) is not None:
            self._journal.put(self._start(run, scribe, job.attempt, ago_s))

    def _start(self, run: Run, scribe: Scribe, attempt: Attempt, ago_s: float = 0.0) -> Item:
        told: dict[str, Any] = {"attempt": attempt.number, **_seen(run)}
        if self._until is not None and (until := self._until()) is not None:
            told["until"] = until.isoformat()
        return scribe.mark(Mark.STARTED, self._clock.now() - timedelta(seconds=ago_s), told)

    async def explain(self, run: Run, verdict: Verdict) -> None:
        """Say how it ended; to be awaited before its message shows again, or is parked."""
        self._late.ended(run)
        if (scribe := self._scribe(run)) is None:
            return
        self._progress.ended(scribe.job_id)
        outcome = verdict.outcome
        if isinstance(outcome, Done | Discarded):
            await self._ended(scribe, verdict)
        elif (kind := _mark_of(outcome)) is not None:
            data = {"attempt": verdict.attempt.number, **_details(verdict), **_seen(run)}
            item = scribe.mark(kind, self._clock.now(), data)
            if isinstance(verdict.action, Ack):
                self._journal.put(item)  # nobody will receive it
            elif run.foregone is None or isinstance(outcome, Deferred):
                await self._write(scribe, item)

    def parked(self, run: Run, verdict: Verdict) -> None:
        """It has left its queue for good, for one where no worker receives."""
        if not isinstance(verdict.action, DeadLetter | Quarantine) or run.identity is None:
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

    async def released(self, run: Run) -> None:
        """It goes back without having been started; to be awaited before it does."""
        if (scribe := self._scribe(run)) is not None:
            await self._write(scribe, scribe.mark(Mark.RELEASED, self._clock.now(), _seen(run)))

    def hurry(self) -> None:
        """Wait for less from now on: the worker is stopping."""
        self._hurried = True

    async def flush(self) -> None:
        """Write what still waits; cancelled, what is left is kept for another time."""
        await self._writes.drain()
        await self._results.flush()
        await self._journal.flush()

    async def drain(self) -> None:
        """The same for the last time: what is left is shed."""
        await asyncio.gather(self._writes.drain(), self._results.close())
        await self._journal.drain()

    def _scribe(self, run: Run) -> Scribe | None:
        """Who writes of a delivery; None if nothing is to be written."""
        app, message = self._app, run.delivery.message
        job_id, job_type = run.identity or (message.message_id, UNNAMED)
        declared = run.job.type if run.job is not None else app.types.get(job_type)
        level = app.records if declared is None else app.records_of(declared)
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
            keep=app.keep if declared is None else app.keep_of(declared),
            retention=run.delivery.queue.retention,
        )

    async def _ended(self, scribe: Scribe, verdict: Verdict) -> None:
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
                await self._completed(scribe, own, result)

    async def _completed(self, scribe: Scribe, own: dict[str, Any], result: Any) -> None:
        at = self._clock.now()
        try:
            value, size = await dumped(result)
        except ResultNotKept as error:
            self._journal.put(scribe.mark(Mark.COMPLETED, at, own | _not_kept(scribe, error)))
            return
        if size <= MAX_RESULT_BYTES:
            told = own | {"result": value}
            self._journal.put(scribe.mark(Mark.COMPLETED, at, told), size=size)
            return
        self._results.put(scribe.job_id, value, size, partial(self._kept, scribe, at, own))

    def _kept(
        self,
        scribe: Scribe,
        at: datetime,
        own: dict[str, Any],
        found: dict[str, Any] | ResultNotKept,
    ) -> None:
        """The object first, and then the record that has its address, or says why it has none."""
        told = _not_kept(scribe, found) if isinstance(found, ResultNotKept) else found
        self._journal.put(scribe.mark(Mark.COMPLETED, at, own | told))

    async def _write(self, scribe: Scribe, item: Item) -> None:
        """Write an item now; what takes too long or fails is written when it can be."""
        try:
            await self._within(self._writes.put(item))
        except TransportError as error:
            self._journal.put(item)
            self._report("write", scribe, error)

    def _refused(self, refusal: Refusal) -> None:
        error = text_of(refusal.error)
        self._events.emit(RecordsFailed(at=self._clock.now(), action="write", error=error))

    async def _put(self, items: Sequence[Item]) -> list[EntryFailure]:
        async with asyncio.timeout(PATIENCE_S):
            return await put_batch(self._table, items, on_refused=self._refused)

    async def _within(self, answer: Awaitable[T]) -> T:
        """Wait for the table, but no longer than a job may be held up by it.

        Raises:
            TransportError: it has failed, or has not answered in time.
        """
        patience_s = LEAST_PATIENCE_S if self._slow or self._hurried else PATIENCE_S
        try:
            async with asyncio.timeout(patience_s):
                found = await answer
        except TimeoutError as error:
            self._slow = True
            raise ServiceUnavailable(f"no answer within {patience_s:g} s") from error
        self._slow = False
        return found

    def _report(self, action: str, scribe: Scribe, error: TransportError) -> None:
        self._events.emit(
            RecordsFailed(
                at=self._clock.now(), action=action, error=str(error), job_id=scribe.job_id
            )
        )


def _not_kept(scribe: Scribe, error: ResultNotKept) -> dict[str, Any]:
    _log.warning("job %s of %s: %s", scribe.job_id, scribe.job_type, error)
    return {"result_fault": str(error)}


def _seen(run: Run) -> dict[str, Any]:
    """The beats of the workers that began its job and are not heard of, for the next to compare."""
    return {"beats": dict(run.beats)} if run.beats else {}


def _mark_of(outcome: Outcome) -> Mark | None:
    match outcome:
        case Failed():
            return Mark.FAILED
        case Crashed():
            return Mark.CRASHED
        case Deferred():
            return Mark.DEFERRED
        case Interrupted() | Unstarted():
            return Mark.RELEASED
        case Cancelled():
            return Mark.CANCELLED
        case Unrunnable():
            return Mark.UNRUNNABLE
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
                **_final(action),
                **again,
            }
        case Crashed(detail=detail):
            return {"detail": detail, **_final(action), **again}
        case (
            Deferred(reason=reason)
            | Interrupted(reason=reason)
            | Unstarted(reason=reason)
            | Cancelled(reason=reason)
        ):
            return {"reason": reason, **again}
        case Unrunnable(reason=why, detail=detail):
            return {"reason": why, "detail": detail, **again}
        case _:
            return {}


def _final(action: Action) -> dict[str, Any]:
    """The reason for no other attempt, in case that its message can't be parked now."""
    match action:
        case DeadLetter(reason=reason):
            return {"final": reason}
        case Quarantine():
            return {"final": Mark.QUARANTINED}
        case _:
            return {}
