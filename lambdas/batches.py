"""One invocation's messages: those that run side by side, in order, or alone.

    look       cancellations are read, concurrently with the jobs if that takes long
    side by    as many jobs as there are slots, and all jobs of a batch in one; the messages of
    side       one FIFO group in order
    alone      once all those are settled: the suspects, one after the other, since the next crash
               of a function puts each job that it was running into quarantine
    back       messages that there was no time for, or that are paused, are given back with a delay

`lambdas.timetable` sets the times. `lambdas.verdicts` settles ended jobs while others go on.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports.scheduler import AsyncScheduler
from headgate.jobs.core.ports.transport import AsyncTransport
from headgate.jobs.execution.calling.batch_call import Seat
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.pausing import away_s, pause_of, returned
from headgate.jobs.execution.recording.recorder import Recorder
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.actions import Ack
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.records.cancellations import Cancelling
from headgate.jobs.records.pausing.paused import Paused
from headgate.jobs.values.own_log import OwnLog
from headgate.lambdas.shared_calls import seated, together
from headgate.lambdas.source import HELD_BEFORE_S, Line, lines_of
from headgate.lambdas.spreading import spread
from headgate.lambdas.timetable import START_S, Timetable
from headgate.lambdas.verdicts import Verdicts, job_id_of

_log = OwnLog("headgate.consume")

_LOOK_S = 0.25
"""Seconds that jobs wait for the cancellations; those read later end running jobs."""

_WRITE_S = 1.0
"""Seconds for which the invocation may wait for records that no job waits for."""

_LAST_WORD_S = 0.1
"""Seconds for which a handler may run after its second cancellation."""

_JITTER = 0.2
"""Jitter on the time that a paused message stays away, as a fraction of it."""

_WHY = "the function's time is nearly up"

_NO_MORE = "the function has no more for a job"

_WHOLE = 0.9
"""The part of the function's time for jobs that is as good as all of it: the rest may have gone
into a cold start, or into reading the jobs' records."""


class InvocationBatch:
    """One invocation's messages on their way to their verdicts; made in its event loop.

    Args:
        executor: the host of the runs.
        transport: connects to SQS.
        times: the invocation's timetable.
        concurrency: maximum number of jobs at once.
        scheduler: holds jobs that have to wait longer than SQS can, if there is one.
        recorder: tells attempts from deliveries; None counts by deliveries.
        cancelling: knows which jobs are cancelled; None: none is.
        paused: knows what is paused.
        secure: called before a job that may end the function, to flush everything that must not be
            lost with it.
    """

    def __init__(
        self,
        executor: Executor,
        transport: AsyncTransport,
        times: Timetable,
        *,
        concurrency: int,
        scheduler: AsyncScheduler | None,
        recorder: Recorder | None,
        cancelling: Cancelling | None,
        paused: Paused,
        secure: Callable[[], None] = lambda: None,
    ) -> None:
        self._executor = executor
        self._recorder = recorder
        self._cancelling = cancelling
        self._paused = paused
        self._secure = secure
        self._means = executor.means
        self._times = times
        self._concurrency = concurrency
        self._free = concurrency
        self._looking: asyncio.Task[None] | None = None
        self._lines: deque[Sequence[Line]] = deque()
        """Lines that wait for a slot: one, or several whose jobs run in one call."""
        self._suspects: deque[Line] = deque()
        """Lines that wait until everything else is settled."""
        self._running: set[Run] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._verdicts = Verdicts(
            executor,
            transport,
            settled_at=times.settled_at,
            eager=lambda: not self._running,
            scheduler=scheduler,
            asked=None if cancelling is None else cancelling.asked,
            recorder=recorder,
        )
        self._rng = random.Random()  # noqa: S311 - spreads returns, guards no secret
        self._started = 0
        self._unstarted = 0
        self._is_late = False
        """True once there was no time for a job, so that no other starts."""
        self.strays: set[asyncio.Task[None]] = set()
        """Tasks that were cancelled and have not ended."""

    @property
    def stuck(self) -> bool:
        """True if threads were abandoned."""
        return bool(self._verdicts.abandoned)

    async def run(self, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """Run the messages; return in time the ids of those that stay in their queues.

        Raises:
            ConfigurationError: a record is of a queue that the app doesn't have; nothing has begun.
        """
        received_at = self._means.clock.monotonic() - HELD_BEFORE_S
        lines = lines_of(records, self._means.app.topology, received_at)
        self._lines.extend(together(lines, self._executor))
        loop = asyncio.get_running_loop()
        alarms = (
            loop.call_at(self._times.interrupt_at, self._interrupt),
            loop.call_at(self._times.abandon_at, self._abandon),
        )
        beside = self._beside()
        work = asyncio.create_task(self._work(), name="headgate-consume")
        work.add_done_callback(_log_fault)
        try:
            await asyncio.wait([work], timeout=self._times.answer_at - loop.time())
        finally:
            for alarm in alarms:
                alarm.cancel()
            self._verdicts.answered = True
        work.cancel()
        self._part()
        await self._finish(beside)
        ids = (str(record["messageId"]) for record in records)
        return [each for each in ids if each not in self._verdicts.done]

    # --- background tasks ------------------------------------------------------------------------

    def _beside(self) -> list[asyncio.Task[Any]]:
        """Start the tasks that write records, and look for cancellations."""
        tasks: list[asyncio.Task[Any]] = []
        if self._recorder is not None:
            tasks.append(asyncio.create_task(self._recorder.run(), name="headgate-records"))
        if self._cancelling is not None:
            looking = self._look(self._cancelling)
            self._looking = asyncio.create_task(looking, name="headgate-look")
            tasks.append(self._looking)
        return tasks

    async def _look(self, cancelling: Cancelling) -> None:
        await cancelling.catch_up()
        for run in self._running:
            _cancel(run, cancelling)

    # --- running ---------------------------------------------------------------------------------

    async def _work(self) -> None:
        if self._looking is not None:
            await asyncio.wait([self._looking], timeout=_LOOK_S)
        self._fill()
        await self._settled()
        while self._suspects:
            self._spawn(self._run_alone(self._suspects.popleft()))
            await self._settled()

    async def _settled(self) -> None:
        """Wait until every begun job is settled, and every waiting one has begun or gone back."""
        while self._tasks:
            await asyncio.wait([*self._tasks])

    def _fill(self) -> None:
        while self._free and self._lines and not self._verdicts.answered:
            self._free -= 1
            for line, seat in seated(self._lines.popleft(), self._means):
                self._spawn(self._run_next(line, seat))

    def _spawn(self, steps: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(steps, name="headgate-consume")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_log_fault)

    async def _run_next(self, line: Line, seat: Seat | None = None) -> None:
        """Run the first of a line in a slot, which jobs with seats share; then go on with it."""
        try:
            run = await self._begun(line[0])
            run.seat = seat
            if _is_dangerous(run):
                self._suspects.append(line)
                return
            verdict = await self._verdict(run)
        finally:
            if seat is None or seat.leave():
                self._free += 1
                self._fill()
        await self._conclude(line, run, verdict)
        if line:
            self._lines.appendleft([line])
            self._fill()

    async def _run_alone(self, line: Line) -> None:
        """Run a line alone, after everything else is written and flushed."""
        while line:
            await self._verdicts.drain()
            await self._write_down()
            self._secure()
            run = await self._begun(line[0])
            await self._conclude(line, run, await self._verdict(run))

    async def _begun(self, delivery: Delivery) -> Run:
        run = Run(self._executor, delivery)
        starts = not self._is_late and self._has_time(run)
        if self._recorder is not None and starts and pause_of(run, self._paused) is None:
            await self._recorder.recall(run)
        return run

    async def _verdict(self, run: Run) -> Verdict | None:
        """Return the run's verdict, or None if there is no time to begin."""
        if self._is_late or not self._has_time(run):
            return None
        # Whatever it waits for: nobody knows of a cancellation for ever.
        if self._cancelling is not None and _cancel(run, self._cancelling):
            return await run.verdict()
        if run.due_in_s or run.delivery.is_scattered:
            return run.unstarted(run.due_in_s)
        if (pause := pause_of(run, self._paused)) is not None:
            delay_s = away_s(run, pause, self._means.clock.now())
            delay_s *= self._rng.uniform(1, 1 + _JITTER)
            return returned(self._means.app, run, pause, delay_s)
        self._started += 1
        self._running.add(run)
        try:
            if self._recorder is not None:
                await self._recorder.starts(run)
            return await run.verdict()
        finally:
            self._running.discard(run)

    def _has_time(self, run: Run) -> bool:
        if run.job is None or run.foregone is not None:
            return self._times.lets_start(0)
        return self._times.lets_start(min(run.job.timeout_s, START_S))

    # --- settling --------------------------------------------------------------------------------

    async def _conclude(self, line: Line, run: Run, verdict: Verdict | None) -> None:
        """Settle the first of a line, and leave in it the messages to run next.

        If the first one stays in its queue, no later one of its group may run before it.
        """
        if verdict is None:
            self._give_back_unstarted(line)
            line.clear()
            return
        if run not in self._verdicts.given_up and await self._verdicts.settle(run, verdict):
            self._verdicts.delete(run.delivery, at_once=not isinstance(verdict.action, Ack))
            line.popleft()
            return
        behind = [*line][1:]
        line.clear()
        if self._verdicts.answered:
            return
        await self._verdicts.release(behind)

    def _give_back_unstarted(self, line: Line) -> None:
        """Give back a line that has no time to begin, and all waiting lines.

        This is not recorded: on Lambda a delivery without a mark has not been started.
        """
        self._is_late = True
        lines = [line, *chain.from_iterable(self._lines), *self._suspects]
        self._lines.clear()
        self._suspects.clear()
        returns = spread(
            lines,
            started=self._started,
            at_once=self._concurrency,
            took_s=asyncio.get_running_loop().time() - self._times.began_at,
            rng=self._rng,
        )
        self._unstarted += len(returns)
        if returns:
            self._spawn(self._verdicts.give_back(returns))

    # --- the end ---------------------------------------------------------------------------------

    def _interrupt(self) -> None:
        for run in self._running:
            spent = _has_had_all(run, self._times, self._means.clock)
            run.interrupt(_NO_MORE if spent else _WHY, spent=spent)
        self._give_back_unstarted(deque())

    def _abandon(self) -> None:
        for run in self._running:
            if run.running and not run.cancellable:
                self._verdicts.abandoned.add(run)
                _log.warning(
                    "a plain function can't be stopped: it goes on while this environment does, "
                    "and its message is delivered again when its visibility timeout ends: %s",
                    job_id_of(run),
                )
            run.interrupt(_WHY, abandon=True)
        if self._running:
            self._spawn(self._give_up())

    async def _give_up(self) -> None:
        """Settle the jobs whose handlers have ignored two cancellations."""
        await asyncio.sleep(_LAST_WORD_S)
        stubborn = [each for each in self._running if each not in self._verdicts.abandoned]
        await asyncio.gather(*map(self._verdicts.settle_running, stubborn))

    def _part(self) -> None:
        """Cancel the tasks that have not ended, and keep them as strays."""
        if self._unstarted:
            _log.info("%d jobs were given back unstarted: %s", self._unstarted, _WHY)
        self.strays.update(self._tasks)
        for task in self.strays:
            task.cancel(_WHY)

    async def _finish(self, beside: Sequence[asyncio.Task[Any]]) -> None:
        """End the background tasks, within a bounded time."""
        await asyncio.gather(self._verdicts.close(), self._write_down())
        for task in beside:
            task.cancel()
            task.add_done_callback(_log_fault)
        if beside:
            await asyncio.wait(beside)

    async def _write_down(self) -> None:
        """Write the records that no job waits for; those that can't be written now are kept."""
        if self._recorder is None:
            return
        ends_at = min(self._times.answer_at, asyncio.get_running_loop().time() + _WRITE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(ends_at):
                await self._recorder.flush()


def _cancel(run: Run, cancelling: Cancelling) -> bool:
    """End a job that is cancelled, and return True; if it has not begun, it won't."""
    if (job := run.job) is None:
        return False
    reason = cancelling.reason(job.attempt.job_id, job.type.name)
    if reason is not None:
        run.cancel(reason)
    return reason is not None


def _is_dangerous(run: Run) -> bool:
    """Return True if the run's job is a suspect that would run."""
    return run.job is not None and run.foregone is None and run.job.attempt.suspect


def _has_had_all(run: Run, times: Timetable, clock: Clock) -> bool:
    """Return True for a job that no other invocation would give more time: given back, it would be
    interrupted at the same place each time, for ever.

    One that shares its call with others has its time for itself when it comes again.
    """
    if not run.running or (run.seat is not None and run.seat.jobs > 1):
        return False
    ran_s, whole_s = clock.monotonic() - run.began_at, times.interrupt_at - times.began_at
    return ran_s >= _WHOLE * whole_s


def _log_fault(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        # A bug of ours, not of a handler. Messages that were not settled stay in their queues.
        _log.error("processing messages failed", exc_info=error)
