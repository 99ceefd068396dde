"""Reads the records of a job's earlier deliveries, and judges those without a recorded end."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.calling.claim_items import ClaimSubject, Ended, find_claim, standing_of
from headgate.jobs.execution.earlier_deliveries import Past, UnendedStart
from headgate.jobs.execution.outcome import Crashed
from headgate.jobs.execution.recording.writer import RecordWriter
from headgate.jobs.execution.run import Run
from headgate.jobs.records.items import Mark, Scribe, deliveries_of, partition
from headgate.jobs.records.lives import LEASE_S, Fate, Lives

_SILENT_DEATH = "the worker died without reporting an outcome"

_ANY_SKEW = timedelta(seconds=60)
"""Allowance for differing clocks, generous because waiting a little longer costs nothing here."""


class Recall:
    """Tells runs of their jobs' earlier deliveries.

    Args:
        app: says which crashes count.
        table: holds the items.
        writer: bounds the reads, and writes the crashes that are found.
        clock: tells the time.
        silence_counts: whether deliveries of which nothing is known count; see
            `jobs.execution.earlier_deliveries.Past.history`.
        lives: tells whether the workers that began jobs have died; None: no worker counts as dead.
    """

    def __init__(
        self,
        app: App,
        table: AsyncTable,
        writer: RecordWriter,
        *,
        clock: Clock,
        silence_counts: bool,
        lives: Lives | None,
    ) -> None:
        self._app = app
        self._table = table
        self._writer = writer
        self._clock = clock
        self._silence_counts = silence_counts
        self._lives = lives

    async def recall(self, run: Run, scribe: Scribe) -> None:
        """Tell a run about its job's earlier deliveries."""
        try:
            past = await self._writer.within(self._past(run, scribe))
        except TransportError as error:
            self._writer.report("read", scribe, error)
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
            await self._writer.write(scribe, item)
        workers = {start.worker for start in past.starts}
        beats = self._lives.beats(workers) if self._lives is not None else {}
        run.recall(history, beats=beats, crash=crash)

    async def _past(self, run: Run, scribe: Scribe) -> Past:
        """Read the records of the earlier deliveries.

        Raises:
            TransportError: the table can't be reached.
        """
        pk, prefix = partition(scribe.job_id), deliveries_of(scribe.message_id)
        items = await self._table.query(pk, prefix=prefix)
        past = Past(items, scribe.message_id, scribe.receive)
        if past.is_clear:
            return past
        found = [*self._writer.journal.unwritten(pk), *await self._claimed(run, scribe, past)]
        return Past([*items, *found], scribe.message_id, scribe.receive) if found else past

    async def _claimed(self, run: Run, scribe: Scribe, past: Past) -> list[Item]:
        """Return marks of the deliveries without an end, as far as the job's claim explains them.

        If the claim says that the job is done, no delivery of it was cut off, whatever its runner
        died of later. If there is none, the first delivery was released while the table was
        unreachable, so that the release could not be recorded.
        """
        if (job := run.job) is None or not job.type.once:
            return []
        subject = ClaimSubject(job_type=job.type.name, queue=run.delivery.queue.group)
        claim, now = await find_claim(self._table, scribe.job_id, subject), self._clock.now()
        if claim is None and past.is_silent:
            released = scribe.mark(Mark.RELEASED, now, {}, receive=1)
            self._writer.journal.put(released)
            return [released]
        if claim is not None and isinstance(standing_of(claim, now.timestamp()), Ended):
            return [scribe.mark(Mark.COMPLETED, now, {}, receive=each) for each in past.unended]
        return []

    async def _look(self, past: Past, scribe: Scribe) -> None:
        """Look up the workers' lives, if the past depends on them."""
        if self._lives is None or past.is_clear:
            return
        try:
            await self._writer.within(self._lives.catch_up())
        except TransportError as error:  # then no worker is judged yet
            self._writer.report("read", scribe, error)

    def _fate(self, start: UnendedStart, *, now: datetime) -> Fate:
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
        return self._lives.fate_of_any(
            queue.group, message.first_received_at, until, without=past.survivors
        )

    def _window(self, run: Run) -> timedelta:
        """Return the age up to which a crash counts, allowing for the time until it is noticed."""
        crash_limit, visibility = self._app.crash_limit, run.delivery.queue.lane.visibility
        return crash_limit.window(visibility + timedelta(seconds=LEASE_S))
