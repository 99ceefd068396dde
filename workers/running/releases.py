"""Releases: messages given back unstarted, each explained in its job's records before it shows."""

from __future__ import annotations

import asyncio

from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.pausing import returned
from headgate.jobs.execution.recording.recorder import Recorder
from headgate.jobs.records.pausing.pause import Pause
from headgate.workers.dispatch.freshness import is_stale
from headgate.workers.held import Hold, Holdings
from headgate.workers.running.faults import log_fault
from headgate.workers.running.settler import HoldSettler


class Releases:
    """Gives messages back in tasks of their own.

    Args:
        executor: has the app and the clock.
        settler: makes the messages visible again.
        holdings: all messages held; what goes back needs no slot any more.
        recorder: explains the deliveries; None if none is recorded.
    """

    def __init__(
        self,
        executor: Executor,
        settler: HoldSettler,
        holdings: Holdings,
        recorder: Recorder | None,
    ) -> None:
        self._means = executor.means
        self._settler = settler
        self._holdings = holdings
        self._recorder = recorder
        self._tasks: dict[asyncio.Task[None], Hold] = {}

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The releases under way."""
        return [*self._tasks]

    @property
    def holds(self) -> list[Hold]:
        """Their messages."""
        return [*self._tasks.values()]

    def put(self, hold: Hold, delay_s: int, *, pause: Pause | None = None) -> None:
        """Give back a message, which becomes visible again after ``delay_s``.

        Args:
            hold: the message; one that goes back already is left alone.
            delay_s: the delay.
            pause: the pause because of which it goes back, if one is the reason; its job then loses
                no attempt by it, however those are counted.
        """
        if hold.returning:
            return  # it goes back already, with an earlier one of its group
        hold.returning = True
        self._holdings.set_aside(hold)
        if self.is_gone(hold):
            self._holdings.drop(hold)
            return
        give_back = self._give_back(hold, delay_s, pause)
        task = asyncio.create_task(give_back, name="headgate-release")
        self._tasks[task] = hold
        task.add_done_callback(self._ended)

    def is_gone(self, hold: Hold) -> bool:
        """Return True if another worker may have an unstarted message as well."""
        return hold.lost or hold.shared or hold.lapsed(self._means.clock.monotonic())

    def must_go_back(self, hold: Hold) -> bool:
        """Return True if a message must not start as it is, although it could."""
        return self.is_gone(hold) or is_stale(hold, self._means.clock)

    async def _give_back(self, hold: Hold, delay_s: int, pause: Pause | None) -> None:
        if pause is None:
            verdict = hold.run.unstarted(delay_s)
        else:
            verdict = returned(self._means.app, hold.run, pause, delay_s)
        if self._recorder is not None:
            await self._recorder.released(hold.run, verdict)
        settled = await self._settler.settle(hold, verdict, regardless=True)
        if self._recorder is not None and settled:
            self._recorder.parked(hold.run, verdict)

    def _ended(self, task: asyncio.Task[None]) -> None:
        log_fault(task, self._tasks.pop(task))
