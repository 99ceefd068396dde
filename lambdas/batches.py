"""One invocation's messages: which run side by side, which in order, and for how long.

    0                    the invocation begins; jobs start as slots come free
    T - 3 s              nothing starts any more; what runs is interrupted and given back
    T - 2 s              what still runs is left alone
    T - 1 s              requests that SQS has not answered are given up
    T - 0.75 s           the answer, whatever has ended by then
    T                    Lambda would kill the function, and deliver all of it again

T is the function's timeout.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from jobs.cancelling import Cancelling
from jobs.delivery import Delivery
from jobs.deployment import GIVE_BACK
from jobs.errors import ConfigurationError, MessageUnreadable
from jobs.execution import Executor, Run, Verdict
from jobs.outcome import Interrupted
from jobs.ports import Scheduler, Transport
from jobs.recording import Recorder
from lambdas.settling import Settler
from lambdas.source import delivery_of

_log = logging.getLogger("headgate.consume")

MARGIN_S = GIVE_BACK.total_seconds()
"""How long before the function's timeout jobs are interrupted, so that the answer is in time."""

START_S = 1.0
"""No job starts with less time than this, or than its own timeout if that is shorter."""

LEAST_S = MARGIN_S + START_S + 0.5
"""An invocation that has less is refused; half a second is for getting to the first job."""

_ABANDON_S = 2.0
_SETTLED_S = 1.0
_ANSWER_S = 0.75

_WHY = "the function's time is nearly up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """When what has to happen, on the event loop's time."""

    interrupt_at: float
    abandon_at: float
    settled_at: float
    answer_at: float

    @classmethod
    def within(cls, left_s: float) -> Self:
        """Of an invocation that begins now, and may take so long.

        Raises:
            ConfigurationError: no job could start in that time.
        """
        if left_s < LEAST_S:
            # Giving all of it back at once would send it round, until SQS parks it without reason.
            raise ConfigurationError(
                f"the function has {left_s:.1f} s, of which the last {MARGIN_S:g} are for giving "
                f"jobs back: set its timeout to {math.ceil(LEAST_S)} s at the least, and to what "
                "its longest job needs besides"
            )
        end = asyncio.get_running_loop().time() + left_s
        return cls(
            interrupt_at=end - MARGIN_S,
            abandon_at=end - _ABANDON_S,
            settled_at=end - _SETTLED_S,
            answer_at=end - _ANSWER_S,
        )


class Batch:
    """One invocation's messages on their way to their verdicts; made in its event loop.

    Args:
        executor: makes runs.
        transport: where SQS is.
        times: the invocation's.
        concurrency: jobs at once.
        scheduler: owns what has to wait longer than SQS can, if there is one.
        recorder: tells attempts from deliveries; None counts by deliveries.
        cancelling: knows which jobs are cancelled; None: none is.
    """

    def __init__(
        self,
        executor: Executor,
        transport: Transport,
        times: Timetable,
        *,
        concurrency: int,
        scheduler: Scheduler | None,
        recorder: Recorder | None,
        cancelling: Cancelling | None,
    ) -> None:
        self._executor = executor
        self._recorder = recorder
        self._cancelling = cancelling
        self._means = executor.means
        self._times = times
        self._slots = asyncio.Semaphore(concurrency)
        self._running: set[Run] = set()
        self._settler = Settler(
            transport,
            self._means.app.topology,
            clock=self._means.clock,
            events=self._means.events,
            eager=lambda: not self._running,
            ends_at=times.settled_at,
            scheduler=scheduler,
        )
        self._done: set[str] = set()
        """Ids of the messages that Lambda may delete."""
        self._unstarted = 0
        self._answered = False
        self._abandoned: set[Run] = set()
        """Plain functions, whose threads go on."""
        self.strays: set[asyncio.Task[None]] = set()
        """What has been cancelled and has not ended."""

    @property
    def stuck(self) -> bool:
        """Whether threads were left to themselves."""
        return bool(self._abandoned)

    async def run(self, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """Run them; returns the ids of those that stay in their queues, before the time is up.

        Raises:
            ConfigurationError: a record is of a queue that the app doesn't have; nothing has begun.
        """
        if self._cancelling is not None:
            await self._cancelling.catch_up()
        tasks = [
            asyncio.create_task(self._follow(line), name="headgate-consume")
            for line in self._lines(records)
        ]
        loop = asyncio.get_running_loop()
        alarms = (
            loop.call_at(self._times.interrupt_at, self._interrupt),
            loop.call_at(self._times.abandon_at, self._abandon),
        )
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._times.answer_at - loop.time())
        finally:
            for alarm in alarms:
                alarm.cancel()
            self._answered = True
        self._part(tasks)
        await self._write_down()
        ids = (str(record["messageId"]) for record in records)
        return [each for each in ids if each not in self._done]

    def _lines(self, records: Sequence[Mapping[str, Any]]) -> list[list[Delivery]]:
        """What has to run one after the other: the messages of one FIFO group; else one each."""
        lines: defaultdict[tuple[str, str], list[Delivery]] = defaultdict(list)
        now = self._means.clock.monotonic()
        for record in records:
            try:
                delivery = delivery_of(record, self._means.app.topology, now)
            except MessageUnreadable as error:
                _log.error("%s; it stays in its queue", error)
                continue
            own = delivery.message.message_id
            line = (delivery.message.group or own) if delivery.queue.fifo else own
            lines[delivery.queue.name, line].append(delivery)
        return [*lines.values()]

    async def _follow(self, line: Sequence[Delivery]) -> None:
        """Run a line in order, up to the first that stays: those behind it must not come before."""
        for at, delivery in enumerate(line):
            if not await self._see_through(delivery):
                await asyncio.gather(*map(self._settler.give_back, line[at + 1 :]))
                return
            self._done.add(delivery.message.message_id)

    async def _see_through(self, delivery: Delivery) -> bool:
        """Run one and settle it; returns whether Lambda may delete it."""
        async with self._slots:
            run = self._executor.begin(delivery)
            verdict = await self._verdict(run)
        if verdict is None:
            self._unstarted += 1
            if self._recorder is not None:
                await self._recorder.released(run)
            await self._settler.give_back(delivery)
            return False
        if self._answered:
            return False  # Lambda has been told that it stays, so that is what it does
        if self._recorder is not None:
            await self._recorder.explain(run, verdict)
        if run in self._abandoned and isinstance(verdict.outcome, Interrupted):
            # Its thread goes on: shown at once, it would run twice at the same time.
            self._settler.tell(verdict)
            return False
        gone = await self._settler.settle(delivery, verdict)
        if gone and self._recorder is not None:
            self._recorder.parked(run, verdict)
        return gone

    async def _verdict(self, run: Run) -> Verdict | None:
        """None where there is no time to begin."""
        if self._recorder is not None and self._has_time(run):
            await self._recorder.recall(run)
        if not self._has_time(run):
            return None
        self._cancel(run)
        self._running.add(run)
        try:
            if self._recorder is not None:
                await self._recorder.starts(run)
            return await run.verdict()
        finally:
            self._running.discard(run)

    def _cancel(self, run: Run) -> None:
        """Have a cancelled job end unstarted."""
        if self._cancelling is None or run.job is None:
            return
        if (reason := self._cancelling.reason(run.job.attempt.job_id)) is not None:
            run.cancel(reason)

    def _has_time(self, run: Run) -> bool:
        needed_s = min(run.job.timeout_s, START_S) if run.job is not None else 0.0
        return asyncio.get_running_loop().time() + needed_s <= self._times.interrupt_at

    # --- the end ---------------------------------------------------------------------------------

    async def _write_down(self) -> None:
        """Write the records that nothing has waited for, as far as there is time."""
        if self._recorder is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._times.answer_at):
                await self._recorder.drain()

    def _interrupt(self) -> None:
        for run in self._running:
            run.interrupt(_WHY)

    def _abandon(self) -> None:
        for run in self._running:
            if run.running and not run.cancellable:
                self._abandoned.add(run)
                _log.warning(
                    "a plain function can't be stopped: it goes on while this environment does, "
                    "and its message is delivered again when its visibility timeout ends: %s",
                    _job_id(run),
                )
            run.interrupt(_WHY, abandon=True)

    def _part(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Look at how each line ended, and let go of those that have not."""
        if self._unstarted:
            _log.info("%d jobs were given back unstarted: %s", self._unstarted, _WHY)
        for run in self._running:
            _log.warning(
                "a handler goes on though it was cancelled; its message is delivered again when "
                "its visibility timeout ends: %s",
                _job_id(run),
            )
        for task in tasks:
            if task.done():
                _log_fault(task)
            else:
                self.strays.add(task)
                task.add_done_callback(_log_fault)
                task.cancel(_WHY)


def _job_id(run: Run) -> str:
    return run.job.attempt.job_id if run.job is not None else ""


def _log_fault(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        # A fault of ours, not of a handler. What it had not settled stays in its queue.
        _log.error("processing messages failed", exc_info=error)
