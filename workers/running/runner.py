"""Running: one job per slot, each in its own task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from headgate.jobs.core.topology import Priority
from headgate.jobs.execution.calling.batch_call import BatchCall
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Interrupted, Outcome
from headgate.jobs.execution.recording.recorder import Recorder
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.actions import Ack, Release, RetryAfter
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.records.pausing.pause import Pause
from headgate.workers.dispatch.admission import Admission
from headgate.workers.dispatch.forming import FormingBatches
from headgate.workers.dispatch.returning import Return, Returns
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.held import Hold, Holdings
from headgate.workers.receiving.demand import Demand
from headgate.workers.running.faults import log_fault, tell_fault
from headgate.workers.running.releases import Releases
from headgate.workers.running.settler import HoldSettler

_WORKER_FAILED = Interrupted(reason="the worker failed")
_STAYING = (RetryAfter, Release)
"""The actions after which a message is delivered again."""


class Running:
    """Starts waiting messages as slots come free, and settles each job in the end."""

    def __init__(
        self,
        executor: Executor,
        settler: HoldSettler,
        waiting: Waiting,
        holdings: Holdings,
        demand: Demand,
        admission: Admission,
        returns: Returns,
        *,
        recorder: Recorder | None,
        cancelled: Callable[[str, str], str | None],
        on_change: Callable[[], None],
    ) -> None:
        self._admission = admission
        self._returns = returns
        self._recorder = recorder
        self._cancelled = cancelled
        self._executor = executor
        self._settler = settler
        self._waiting = waiting
        self._forming = FormingBatches(waiting, clock=executor.means.clock, on_change=on_change)
        self._holdings = holdings
        self._demand = demand
        self._on_change = on_change
        self._tasks: dict[Hold, asyncio.Task[None]] = {}
        """The messages that run or are being settled, with their tasks."""
        self._releases = Releases(executor, settler, holdings, recorder)
        self._recalls: set[asyncio.Task[None]] = set()
        self.interrupted: list[str] = []
        """Ids of jobs whose attempt was cut short since it was closed; they run again."""
        self._is_closed = False

    @property
    def unsettled(self) -> list[Hold]:
        """The messages that run, are being settled, or are being given back."""
        return [*self._tasks, *self._releases.holds]

    @property
    def unfinished(self) -> list[Hold]:
        """The messages that run: their handlers have not ended."""
        return [hold for hold in self._tasks if hold.run.running]

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Take in the messages of a receive: each starts, waits for a slot, or goes back.

        A fault affects only the message at which it happens, which stays in its queue, and those
        that follow it in its FIFO group.
        """
        left, returns = set[str | None](), list[Return]()
        for delivery in deliveries:
            group = delivery.message.group
            if group not in left and not self._take_in(delivery, returns) and delivery.queue.fifo:
                left.add(group)
        for back in returns:  # now, so that all that follow in its FIFO group go back with it
            self._decline(back)
        self.fill()  # before the poller asks for more, since it has to know what was in vain

    def _take_in(self, delivery: Delivery, returns: list[Return]) -> bool:
        """Take in one message, perhaps into ``returns``; return False if a fault prevented it."""
        hold: Hold | None = None
        try:
            hold = self._holdings.take(Run(self._executor, delivery))
            self._place(hold, returns)
        except Exception as error:  # noqa: BLE001 - SQS delivers it again
            tell_fault(error, delivery)
            if hold is not None:
                self._waiting.remove(hold)
                self._leave(hold, gone=False)
            return False
        return True

    def _place(self, hold: Hold, returns: list[Return]) -> None:
        is_first = self._admission.take(hold)
        if self._cancellation(hold) is not None:
            self._drop(hold)
        elif (back := self._returns.on_arrival(hold)) is not None:
            returns.append(back)
        else:
            self._recall(hold)
            if not hold.ready or not self._forming.put(hold):
                self._waiting.put(hold, behind=not is_first)

    def end_cancelled(self) -> None:
        """End cancelled jobs: running ones are interrupted, waiting ones are settled unstarted."""
        for hold in self._tasks:
            if (reason := self._cancellation(hold)) is not None:
                hold.run.cancel(reason)
        for hold in self._waiting.take_if(lambda hold: self._cancellation(hold) is not None):
            self._drop(hold)

    def give_back_paused(self) -> None:
        """Give back the waiting messages that have been paused; running jobs go on."""
        for back in self._returns.paused():
            self._send_back(back)

    def fill(self) -> bool:
        """Start waiting messages while slots are free; give back those not worth holding.

        Returns:
            True if any message has moved, so that there may be room for more.
        """
        has_moved, loop = False, asyncio.get_running_loop()
        while hold := self._next():
            has_moved = True
            if self._releases.must_go_back(hold):
                self.release(hold)
                continue
            self._admission.occupy(hold)
            company = self._forming.company(hold, self._joins)
            self._demand.started(hold.delivery.queue, 1 + len(company))
            starting = (hold, *company)
            if company:
                _seat(starting, BatchCall(self._executor.means, len(starting)))
            for each in starting:
                processing = self._process(each, self._run)
                self._tasks[each] = loop.create_task(processing, name="headgate-job")
        found = self._returns.at_once()
        for hold in found.surplus:
            self._demand.in_vain(1, hold.delivery.queue)
        for back in found.returns:
            self._demand.in_vain(1 + self._send_back(back), back.hold.delivery.queue)
        return has_moved or bool(found.returns or found.surplus)

    def give_back(self) -> None:
        """Give back messages held for their full time, so that other workers can have them."""
        for back in self._returns.overdue():
            self._send_back(back)

    def _next(self) -> Hold | None:
        if self._demand.free(Priority.CRITICAL) <= 0:
            return None
        return self._waiting.next(self._demand.has_slot, self._demand.has_turn)

    def _joins(self, hold: Hold) -> bool:
        """Take what a waiting job needs to start beside another one; return False if it can't."""
        if self._releases.must_go_back(hold) or self._admission.block(hold) is not None:
            return False
        self._admission.occupy(hold)
        return True

    def _recall(self, hold: Hold) -> None:
        """Read the records of a job that has been delivered before, and a large payload."""
        past = self._recorder is not None and hold.delivery.message.receive_count > 1
        if not past and not hold.run.lacks_payload:
            return
        hold.ready = False
        task = asyncio.create_task(self._learn(hold), name="headgate-recall")
        self._recalls.add(task)
        task.add_done_callback(partial(self._recalled, hold))

    async def _learn(self, hold: Hold) -> None:
        if self._recorder is not None:
            await self._recorder.recall(hold.run)
        await hold.run.fetch()

    def _recalled(self, hold: Hold, task: asyncio.Task[None]) -> None:
        self._recalls.discard(task)
        hold.ready = True  # without records, then, if it failed
        self._forming.read(hold)
        log_fault(task, hold)
        self._on_change()

    def _cancellation(self, hold: Hold) -> str | None:
        """Return the reason for which its job is cancelled, or None."""
        job = hold.run.job
        return None if job is None else self._cancelled(job.attempt.job_id, job.type.name)

    def _drop(self, hold: Hold) -> None:
        """Settle a cancelled job without starting it, which takes no slot."""
        self._forming.discard(hold)
        hold.run.cancel(self._cancellation(hold) or "")
        dropping = self._process(hold, _verdict_unstarted)
        self._tasks[hold] = asyncio.create_task(dropping, name="headgate-cancelled")

    def release(self, hold: Hold, delay_s: int = 0, *, pause: Pause | None = None) -> int:
        """Give back an unstarted message, which becomes visible again after ``delay_s``.

        Returns:
            the number of messages of its FIFO group that go back with it, since they must not come
            before it.
        """
        self._forming.discard(hold)
        departure = self._admission.left(hold, gone=False)
        self._releases.put(hold, delay_s, pause=pause)
        self._release_unstarted(departure.returning)
        return len(departure.returning)

    def _send_back(self, back: Return) -> int:
        return self.release(back.hold, back.away_s, pause=back.pause)

    def _decline(self, back: Return) -> None:
        """Send back a message just received; a receive that brings only paused ones was in vain."""
        followers = self._send_back(back)
        if back.pause is not None:
            self._demand.in_vain(1 + followers, back.hold.delivery.queue)

    def _release_unstarted(self, holds: Sequence[Hold]) -> None:
        for hold in holds:
            self._waiting.remove(hold)
            self._releases.put(hold, 0)

    def _leave(self, hold: Hold, *, gone: bool) -> None:
        """Stop holding a message, unless it has left; ``gone`` if it has left its queue."""
        if hold.left:
            return
        hold.left = True
        self._forming.discard(hold)
        self._holdings.drop(hold)
        departure = self._admission.left(hold, gone=gone)
        if (heir := departure.heir) is not None:
            heir.since = self._executor.means.clock.monotonic()
            self._waiting.lead(heir)
        self._release_unstarted(departure.returning)

    def close(self) -> None:
        """Start nothing more, and give back all waiting messages."""
        self._is_closed = True
        self._admission.hurry()
        for recall in self._recalls:
            recall.cancel()
        for back in self._returns.stop():
            self._send_back(back)

    async def finish(self) -> None:
        """Wait until all messages that were taken in are settled."""
        while pending := {*self._tasks.values(), *self._releases.tasks, *self._recalls}:
            await asyncio.wait(pending)

    def interrupt(self, reason: str) -> None:
        """End all attempts early; see `jobs.execution.run.Run.interrupt`."""
        for hold in self._tasks:
            hold.run.interrupt(reason)

    def abandon(self, reason: str) -> list[str]:
        """Give back the jobs that still run, and wait for them no more; return their ids.

        A thread is left running. So is an async handler that ignores its cancellation: if it ever
        returns, its message is deleted after all. A child process is killed; its handler's result
        counts if it has arrived by then, so its job is not among the ids.
        """
        left = []
        for hold in [each for each in self._tasks if each.run.running]:
            hold.run.interrupt(reason, abandon=True)
            if hold.run.seat is not None and hold.run.seat.ending is not None:
                continue  # the batch has said what became of it, which is settled now
            if hold.run.in_loop:
                del self._tasks[hold]
                self.release(hold)
                hold.lost = True
            if hold.run.job is not None and not hold.run.in_child:
                left.append(hold.run.job.attempt.job_id)
        return left

    async def _process(self, hold: Hold, run: Callable[[Hold], Awaitable[Verdict]]) -> None:
        """See a message through to its end: run it, and settle it as the verdict says."""
        try:
            await self._settle(hold, await run(hold))
        except Exception as error:  # noqa: BLE001 - SQS delivers it again
            tell_fault(error, hold.delivery)
        finally:
            self._ended(hold)

    async def _settle(self, hold: Hold, verdict: Verdict) -> None:
        if self._is_closed and isinstance(verdict.outcome, Interrupted):
            self.interrupted.append(verdict.attempt.job_id)
        if self._recorder is not None:
            await self._recorder.explain(hold.run, verdict)
        if settled := await self._settler.settle(hold, verdict):
            self._demand.settled()
        if self._recorder is not None and settled:
            self._recorder.parked(hold.run, verdict)
        self._leave(hold, gone=settled and not isinstance(verdict.action, _STAYING))

    async def _run(self, hold: Hold) -> Verdict:
        """Run a job in its slot."""
        outcome: Outcome = _WORKER_FAILED
        try:
            if self._recorder is not None:
                await self._recorder.starts(hold.run)
            outcome = (verdict := await hold.run.verdict()).outcome
        finally:
            if (seat := hold.run.seat) is None or seat.leave():
                self._demand.finished(hold.delivery.queue, 1 if seat is None else seat.jobs)
            self._admission.vacate(hold, outcome)
            self._on_change()
        if isinstance(verdict.action, Ack):
            return verdict
        self._holdings.set_aside(hold)  # it may wait for a retry budget, the table or a schedule
        return await self._admission.retried(hold, verdict)

    def _ended(self, hold: Hold) -> None:
        if self._tasks.pop(hold, None) is None:
            return  # it was abandoned
        if not hold.left:
            self._leave(hold, gone=False)
        self._on_change()  # the next of its group, or the next suspect, may start


async def _verdict_unstarted(hold: Hold) -> Verdict:
    """Return the verdict on a job that has been cancelled before its start."""
    return await hold.run.verdict()


def _seat(holds: Sequence[Hold], call: BatchCall) -> None:
    """Give each of the jobs that start together its place in their call."""
    for hold, seat in zip(holds, call.seats, strict=True):
        hold.run.seat = seat
