"""Records, cancellations and pauses for the test kit, as a worker keeps and reads them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Event, Events
from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import keeps_records
from headgate.jobs.execution.pausing import away_s, pause_of, returned
from headgate.jobs.execution.recording.recorder import Recorder
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.messages.sealing import Seals
from headgate.jobs.records.cancellations import Cancelling
from headgate.jobs.records.pausing.paused import Paused

_DRAIN_S = 0.5
"""Maximum seconds to write the records of one run: in memory they take no time."""


class Remembering:
    """Runs jobs with records, as a worker does; without any if the app keeps none.

    Args:
        app: decides which records are kept.
        table: the table for records.
        store: the store for results that are too large for the table.
        clock: tells the time.
        events: receives events of reads and writes that failed.
        seals: seals results and progress; None records them as they are.
    """

    def __init__(
        self,
        app: App,
        table: AsyncTable,
        store: AsyncObjectStore,
        *,
        clock: Clock,
        events: Events,
        seals: Seals | None,
    ) -> None:
        rng = random.Random(0)  # noqa: S311 - spreads pauses, guards no secret
        self._app = app
        self._clock = clock
        self._paused = Paused(clock=clock, events=events)
        self._cancelling = Cancelling(table, self._paused, clock=clock, events=events, rng=rng)
        self._recorder = (
            Recorder(
                app,
                table,
                worker="harness",
                clock=clock,
                events=events,
                rng=rng,
                store=store,
                seals=seals,
            )
            if keeps_records(app)
            else None
        )

    async def verdict(self, run: Run) -> Verdict:
        """Run a job, unless it has been cancelled, is not due, or is paused."""
        try:
            if run.due_in_s and not await self._is_cancelled(run):
                return run.unstarted(run.due_in_s)
            return await self._verdict(run)
        finally:
            if run.seat is not None:
                run.seat.leave()

    async def _verdict(self, run: Run) -> Verdict:
        if self._recorder is None:
            return await run.verdict()
        await self._recorder.recall(run)
        await self._cancelling.look()
        if (pause := pause_of(run, self._paused)) is not None:
            return returned(self._app, run, pause, away_s(run, pause, self._clock.now()))
        self._cancel(run)
        await self._recorder.starts(run)
        return await run.verdict()

    async def settled(self, run: Run, verdict: Verdict, happened: Sequence[Event]) -> None:
        """Record a run's outcome, together with the events that it emitted."""
        if self._recorder is None:
            return
        for event in happened:
            self._recorder(event)
        await self._recorder.explain(run, verdict)
        self._recorder.parked(run, verdict)
        await self._recorder.sealed()
        with suppress(TimeoutError):  # a table with a fault from the test
            async with asyncio.timeout(_DRAIN_S):
                await self._recorder.drain()

    async def _is_cancelled(self, run: Run) -> bool:
        if self._recorder is None:
            return False
        await self._cancelling.look()
        return self._cancellation(run) is not None

    def _cancel(self, run: Run) -> None:
        if (reason := self._cancellation(run)) is not None:
            run.cancel(reason)

    def _cancellation(self, run: Run) -> str | None:
        if run.job is None:
            return None
        return self._cancelling.reason(run.job.attempt.job_id, run.job.type.name)
