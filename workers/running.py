"""Running: as many jobs at once as there are slots, each in a task of its own."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from jobs.delivery import Delivery, Job
from jobs.execution import Executor, Verdict
from jobs.outcome import Failed, Interrupted, Outcome
from jobs.settlement import RetryAfter
from jobs.topology import Priority
from workers.choosing import Waiting
from workers.holding import Hold, Holdings
from workers.isolation import ChildPool
from workers.limiting import Gate
from workers.polling import Demand
from workers.recording import Recorder
from workers.settling import Settler

_log = logging.getLogger("headgate.worker")


class ThreadPool:
    """A bounded pool for handlers that are plain functions."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="headgate-job")
        self._running: set[object] = set()

    async def __call__(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread, with the context variables of here."""
        context, token = contextvars.copy_context(), object()
        self._running.add(token)

        def run() -> Any:
            try:
                return context.run(function)
            finally:
                # Here and not when the future is done: one that is cancelled leaves its thread.
                self._running.discard(token)

        return await asyncio.get_running_loop().run_in_executor(self._pool, run)

    @property
    def busy(self) -> bool:
        """Whether a thread runs, which would keep the interpreter from ending."""
        return bool(self._running)

    def close(self) -> None:
        """Take no more work; a thread that still runs is left alone, since it can't be stopped."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Running:
    """Starts what waits as slots come free, and sees each job through to its settlement."""

    def __init__(
        self,
        executor: Executor,
        settler: Settler,
        waiting: Waiting,
        holdings: Holdings,
        demand: Demand,
        gate: Gate,
        *,
        recorder: Recorder | None,
        children: ChildPool | None,
        on_change: Callable[[], None],
    ) -> None:
        self._gate = gate
        self._recorder = recorder
        self._children = children
        self._executor = executor
        self._settler = settler
        self._waiting = waiting
        self._holdings = holdings
        self._demand = demand
        self._on_change = on_change
        self._tasks: dict[asyncio.Task[None], Hold] = {}
        self._releases: dict[asyncio.Task[None], Hold] = {}
        self._recalls: set[asyncio.Task[None]] = set()
        self._on_probation: Hold | None = None
        self._accepting = True
        self.interrupted: list[str] = []
        """Ids of jobs whose attempt was cut short; they run again."""

    @property
    def unsettled(self) -> list[Hold]:
        """What runs, is being settled, or is being given back."""
        return [*self._tasks.values(), *self._releases.values()]

    @property
    def unfinished(self) -> list[Hold]:
        """What runs: its handler has not ended."""
        return [hold for hold in self._tasks.values() if hold.run.running]

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Take in what a receive brought: it starts, waits for a slot, or goes back."""
        for delivery in deliveries:
            hold = self._holdings.take(self._executor.begin(delivery))
            if self._accepting:
                self._recall(hold)
                self._waiting.put(hold)
            else:
                self.release(hold)
        self.fill()

    def fill(self) -> None:
        """Start what waits, as far as slots are free."""
        while self._accepting and (hold := self._next()):
            if self._is_gone(hold):
                self._holdings.drop(hold)
                continue
            self._occupy(hold)
            task = asyncio.create_task(self._process(hold), name="headgate-job")
            self._tasks[task] = hold
            task.add_done_callback(self._ended)

    def _next(self) -> Hold | None:
        if self._demand.free(Priority.CRITICAL.rank) <= 0:
            return None
        return self._waiting.next(self._may_start)

    def _may_start(self, hold: Hold) -> bool:
        if not hold.ready or self._demand.free(_rank(hold)) <= 0:
            return False
        return (job := hold.run.job) is None or not self._held_back(job)

    def _held_back(self, job: Job) -> bool:
        """Whether something else than the want of a slot keeps a job from starting."""
        if _is_suspect(job) and self._on_probation is not None:
            return True
        if (
            self._children is not None
            and job.type.isolation == "process"
            and self._children.free < 1
        ):
            return True
        return self._gate.block(job) is not None

    def _recall(self, hold: Hold) -> None:
        """Have records say what happened to a job that has been delivered before."""
        if self._recorder is None or hold.delivery.message.receive_count == 1:
            return
        hold.ready = False
        task = asyncio.create_task(self._recorder.recall(hold), name="headgate-recall")
        self._recalls.add(task)
        task.add_done_callback(partial(self._recalled, hold))

    def _recalled(self, hold: Hold, task: asyncio.Task[None]) -> None:
        self._recalls.discard(task)
        hold.ready = True  # without records, then, if it failed
        _log_fault(task, hold)
        self.fill()

    def release(self, hold: Hold) -> None:
        """Give back a message that has not been started."""
        if self._is_gone(hold):
            self._holdings.drop(hold)
            return
        task = asyncio.create_task(self._give_back(hold), name="headgate-release")
        self._releases[task] = hold
        task.add_done_callback(self._released)

    def close(self) -> None:
        """Start nothing more, and give back what waits."""
        self._accepting = False
        for hold in self._waiting.take_all():
            self.release(hold)

    async def finish(self) -> None:
        """Return when everything that was taken in is settled."""
        while pending := {*self._tasks, *self._releases}:
            await asyncio.wait(pending)

    def interrupt(self, reason: str) -> None:
        """End all attempts early; see `jobs.execution.Run.interrupt`."""
        for hold in self._tasks.values():
            hold.run.interrupt(reason)

    def abandon(self, reason: str) -> None:
        """Give back what still runs, and wait for it no more.

        A thread is left to itself. So is an async handler that ignores being cancelled: should it
        ever return, its message is deleted after all.
        """
        for task, hold in [*self._tasks.items()]:
            if hold.run.running:
                hold.run.interrupt(reason, abandon=True)
                if hold.run.cancellable:
                    del self._tasks[task]
                    self.release(hold)
                    hold.lost = True

    def _is_gone(self, hold: Hold) -> bool:
        """Whether a message that has not been started is no longer ours alone."""
        return hold.lost or hold.shared or hold.lapsed(self._executor.means.clock.monotonic())

    async def _process(self, hold: Hold) -> None:
        verdict = await self._run(hold)
        if isinstance(verdict.outcome, Interrupted):
            self.interrupted.append(verdict.attempt.job_id)
        if self._recorder is not None:
            await self._recorder.explain(hold, verdict)
        await self._settler.settle(hold, verdict)

    async def _run(self, hold: Hold) -> Verdict:
        """Run a job in its slot."""
        outcome: Outcome = Interrupted(reason="the worker failed")
        try:
            if self._recorder is not None:
                await self._recorder.starts(hold)
            verdict = await hold.run.verdict()
            outcome = verdict.outcome
        finally:
            self._vacate(hold, outcome)
            self.fill()
            self._on_change()
        if (job := hold.run.job) is not None and isinstance(verdict.action, RetryAfter):
            return replace(verdict, action=self._gate.retry(job, verdict.action))
        return verdict

    def _occupy(self, hold: Hold) -> None:
        """Take what a job needs to run, at once, so that the next choice reckons with it."""
        self._demand.started(_rank(hold))
        if (job := hold.run.job) is None:
            return
        hold.ticket = self._gate.start(job)
        if _is_suspect(job):
            self._on_probation = hold

    def _vacate(self, hold: Hold, outcome: Outcome) -> None:
        self._demand.finished(_rank(hold))
        if self._on_probation is hold:
            self._on_probation = None
        if (job := hold.run.job) is not None:
            self._gate.end(hold.ticket, outcome, retryable=_is_retryable(job, outcome))

    async def _give_back(self, hold: Hold) -> None:
        if self._recorder is not None:
            await self._recorder.released(hold)
        await self._settler.release(hold)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if (hold := self._tasks.pop(task, None)) is None:
            return  # it had been abandoned
        self._holdings.drop(hold)
        self._on_change()
        _log_fault(task, hold)

    def _released(self, task: asyncio.Task[None]) -> None:
        _log_fault(task, self._releases.pop(task))


def _rank(hold: Hold) -> int:
    return hold.delivery.queue.priority.rank


def _is_suspect(job: Job) -> bool:
    """Whether another crash would put it into quarantine.

    Suspects run one at a time: what runs beside the job that kills its worker is thus suspected
    twice at most, and never takes the blame.
    """
    return 0 < job.attempt.crash_limit - 1 <= job.attempt.crashes


def _is_retryable(job: Job, outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and job.type.retry.should_retry(outcome.error)


def _log_fault(task: asyncio.Task[None], hold: Hold) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        # A fault of ours, not of a handler. The message stays, and is delivered again.
        _log.error(
            "processing message %s of %s failed",
            hold.delivery.message.message_id,
            hold.delivery.queue.name,
            exc_info=error,
        )
