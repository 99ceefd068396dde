"""Running: as many jobs at once as there are slots, each in a task of its own."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jobs.delivery import Delivery
from jobs.execution import Executor
from jobs.outcome import Interrupted
from workers.choosing import Waiting
from workers.holding import Hold, Holdings
from workers.polling import Demand
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
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._executor = executor
        self._settler = settler
        self._waiting = waiting
        self._holdings = holdings
        self._demand = demand
        self._on_change = on_change
        self._tasks: dict[asyncio.Task[None], Hold] = {}
        self._releases: dict[asyncio.Task[None], Hold] = {}
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
        return [hold for hold in self._tasks.values() if hold.run is not None and hold.run.running]

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Take in what a receive brought: it starts, waits for a slot, or goes back."""
        for delivery in deliveries:
            hold = self._holdings.take(delivery)
            if self._accepting:
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
            self._demand.started(_rank(hold))
            task = asyncio.create_task(self._process(hold), name="headgate-job")
            self._tasks[task] = hold
            task.add_done_callback(self._ended)

    def _next(self) -> Hold | None:
        rank = self._waiting.next_rank()
        if rank is None or self._demand.free(rank) <= 0:
            return None
        return self._waiting.next()

    def release(self, hold: Hold) -> None:
        """Give back a message that has not been started."""
        if self._is_gone(hold):
            self._holdings.drop(hold)
            return
        task = asyncio.create_task(self._settler.release(hold), name="headgate-release")
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
            if hold.run is not None:
                hold.run.interrupt(reason)

    def abandon(self, reason: str) -> None:
        """Give back what still runs, and wait for it no more.

        A thread is left to itself. So is an async handler that ignores being cancelled: should it
        ever return, its message is deleted after all.
        """
        for task, hold in [*self._tasks.items()]:
            if hold.run is not None and hold.run.running:
                hold.run.interrupt(reason, abandon=True)
                if hold.run.is_async:
                    del self._tasks[task]
                    self.release(hold)
                    hold.lost = True

    def _is_gone(self, hold: Hold) -> bool:
        """Whether a message that has not been started is no longer ours alone."""
        return hold.lost or hold.shared or hold.lapsed(self._executor.clock.monotonic())

    async def _process(self, hold: Hold) -> None:
        hold.run = run = self._executor.begin(hold.delivery)
        try:
            verdict = await run.verdict()
        finally:
            self._demand.finished(_rank(hold))
            self.fill()
            self._on_change()
        if isinstance(verdict.outcome, Interrupted):
            self.interrupted.append(verdict.attempt.job_id)
        await self._settler.settle(hold, verdict)

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


def _log_fault(task: asyncio.Task[None], hold: Hold) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        # A fault of ours, not of a handler. The message stays, and is delivered again.
        _log.error(
            "processing message %s of %s failed",
            hold.delivery.message.message_id,
            hold.delivery.queue.name,
            exc_info=error,
        )
