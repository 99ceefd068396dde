"""Attempts told from deliveries: what happened to a job before, and what happens to it here.

A first delivery costs nothing. From the second on the job's items are read before it may start, and
a mark is written before it does. Whatever makes a message visible again is written first, so that
its next receiver finds it explained. A table that fails holds no job up: attempts are then counted
by deliveries, as without records.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

from jobs.app import App
from jobs.batcher import Batcher, Pacing
from jobs.clock import Clock
from jobs.delivery import Job
from jobs.errors import TransportError
from jobs.events import Events, RecordsFailed
from jobs.execution import Verdict
from jobs.outcome import Cancelled, Crashed, Deferred, Failed, Interrupted, Outcome
from jobs.ports import EntryFailure, Item, Table
from jobs.records import Mark, deliveries_of, mark, partition, read_history
from jobs.settlement import RetryAfter, text_of, type_of
from workers.holding import Hold

MAX_PUT = 25
"""Items in one BatchWriteItem.
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html"""

_PACING = Pacing(linger_s=0.005, tries=3)

_SILENT_DEATH = "the process that had it ended without a word"


class Recorder:
    """Reads and writes the items of the jobs that this worker holds.

    Args:
        app: its ``crash_limit`` says which crashes count.
        table: where the items are.
        worker: this worker's name, for those who read the items.
        clock: tells the time.
        events: hears of reads and writes that failed.
        rng: spreads the pauses between tries.
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
    ) -> None:
        self._limit = app.crash_limit
        self._table = table
        self._worker = worker
        self._clock = clock
        self._events = events
        self._writes = Batcher(
            partial(_put, table),
            pacing=_PACING,
            eager=lambda: not self._writes.busy,
            name="headgate-record",
            rng=rng,
            most=MAX_PUT,
        )

    async def recall(self, hold: Hold) -> None:
        """Tell a run what happened to its job before. A first delivery has no past."""
        job, message = hold.run.job, hold.delivery.message
        if job is None or message.receive_count == 1:
            return
        pk, prefix = partition(job.attempt.job_id), deliveries_of(message.message_id)
        try:
            items = await self._table.query(pk, prefix=prefix)
        except TransportError as error:
            self._report("read", hold, job, error)
            return
        history = read_history(
            items,
            message.message_id,
            message.receive_count,
            now=self._clock.now(),
            window=self._limit.window(hold.delivery.queue.lane.visibility),
        )
        for receive in history.unexplained:
            await self._write(hold, job, receive, Mark.CRASHED, {"detail": _SILENT_DEATH})
        hold.run.recall(
            number=history.number(job.envelope.attempts_used),
            crashes=history.recent_crashes,
            crash=Crashed(detail=_SILENT_DEATH) if history.unexplained else None,
        )

    async def starts(self, hold: Hold) -> None:
        """It is about to be run: said in advance, for the case that the process dies of it."""
        receive = hold.delivery.message.receive_count
        if (job := hold.run.job) is not None and receive > 1:
            await self._write(hold, job, receive, Mark.STARTED, {"attempt": job.attempt.number})

    async def explain(self, hold: Hold, verdict: Verdict) -> None:
        """Say why the message will show again; to be awaited before it does."""
        if (job := hold.run.job) is None or (kind := _mark_of(verdict.outcome)) is None:
            return
        if isinstance(verdict.outcome, Failed) and not isinstance(verdict.action, RetryAfter):
            return  # it is parked: its letter says why
        data = {"attempt": verdict.attempt.number, **_details(verdict.outcome)}
        await self._write(hold, job, hold.delivery.message.receive_count, kind, data)

    async def released(self, hold: Hold) -> None:
        """It goes back without having been started; to be awaited before it does."""
        if (job := hold.run.job) is not None:
            await self._write(hold, job, hold.delivery.message.receive_count, Mark.RELEASED, {})

    async def drain(self) -> None:
        """Write what still waits for company."""
        await self._writes.drain()

    async def _write(
        self, hold: Hold, job: Job, receive: int, kind: Mark, data: dict[str, Any]
    ) -> None:
        item = mark(
            job.attempt.job_id,
            hold.delivery.message.message_id,
            receive,
            kind,
            self._clock.now(),
            {"worker": self._worker, "type": job.type.name, **data},
        )
        try:
            await self._writes.put(item)
        except TransportError as error:
            self._report("write", hold, job, error)

    def _report(self, action: str, hold: Hold, job: Job, error: TransportError) -> None:
        self._events.emit(
            RecordsFailed(
                at=self._clock.now(),
                queue=hold.delivery.queue.name,
                action=action,
                job_id=job.attempt.job_id,
                error=str(error),
            )
        )


async def _put(table: Table, items: Sequence[Item]) -> list[EntryFailure]:
    left = {(item.pk, item.sk) for item in await table.put(items)}
    return [
        EntryFailure(
            index=index, code="Unprocessed", message="the table was too busy", sender_fault=False
        )
        for index, item in enumerate(items)
        if (item.pk, item.sk) in left
    ]


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


def _details(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Failed(error=error, traceback=traceback):
            return {
                "error_type": type_of(error),
                "error_message": text_of(error),
                "traceback": traceback,
            }
        case Crashed(detail=detail):
            return {"detail": detail}
        case Deferred(reason=reason) | Interrupted(reason=reason) | Cancelled(reason=reason):
            return {"reason": reason}
        case _:
            return {}
