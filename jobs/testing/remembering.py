"""What a worker remembers of jobs, for the test kit: records, and what is to be cancelled."""

from __future__ import annotations

import random
from collections.abc import Sequence

from jobs.app import App
from jobs.cancellation import CANCELLATIONS, read_cancellations
from jobs.clock import Clock
from jobs.errors import TransportError
from jobs.events import CancellationsFailed, Event, Events
from jobs.execution import Run, Verdict
from jobs.ports import Table
from jobs.recording import Recorder


class Remembering:
    """Runs jobs with records, as a worker does; without any, if the app keeps none.

    Args:
        app: says what is kept.
        table: where.
        clock: tells the time.
        events: hears of reads and writes that failed.
    """

    def __init__(self, app: App, table: Table, *, clock: Clock, events: Events) -> None:
        self._table = table
        self._clock = clock
        self._events = events
        self._recorder = (
            Recorder(
                app,
                table,
                worker="harness",
                clock=clock,
                events=events,
                rng=random.Random(0),  # noqa: S311 - spreads pauses, guards no secret
            )
            if app.keeps_records
            else None
        )

    async def verdict(self, run: Run) -> Verdict:
        """Run a job, unless somebody has cancelled it."""
        if self._recorder is None:
            return await run.verdict()
        await self._recorder.recall(run)
        await self._cancel(run)
        await self._recorder.starts(run)
        return await run.verdict()

    async def settled(self, run: Run, verdict: Verdict, happened: Sequence[Event]) -> None:
        """Write down what became of it, with what it told meanwhile."""
        if self._recorder is None:
            return
        for event in happened:
            self._recorder(event)
        await self._recorder.explain(run, verdict)
        self._recorder.parked(run, verdict)
        await self._recorder.drain()

    async def _cancel(self, run: Run) -> None:
        try:
            reasons = read_cancellations(await self._table.query(CANCELLATIONS))
        except TransportError as error:
            at = self._clock.now()
            self._events.emit(CancellationsFailed(at=at, error=str(error)))
            return
        if run.job is not None and (job_id := run.job.attempt.job_id) in reasons:
            run.cancel(reasons[job_id])
