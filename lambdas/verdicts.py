"""Verdicts on one invocation's messages, carried out until Lambda has its answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from headgate.jobs.core.ports import Scheduler, Transport
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.outcome import Interrupted
from headgate.jobs.execution.recording.recorder import Recorder
from headgate.jobs.execution.run import Executor, Run
from headgate.jobs.execution.settlement import RetryAfter
from headgate.jobs.execution.verdict import Verdict
from headgate.lambdas.deleting import Deletes
from headgate.lambdas.settling import Settler

_log = logging.getLogger("headgate.consume")


class Verdicts:
    """Settles messages, and knows which of them Lambda may delete.

    Args:
        executor: makes runs.
        transport: where SQS is.
        settled_at: when settling has to end, on the loop's clock.
        eager: whether nothing runs that could be settled together with others.
        scheduler: owns what has to wait longer than SQS can, if there is one.
        recorder: tells attempts from deliveries; None counts by deliveries.
    """

    def __init__(
        self,
        executor: Executor,
        transport: Transport,
        *,
        settled_at: float,
        eager: Callable[[], bool],
        scheduler: Scheduler | None,
        recorder: Recorder | None,
    ) -> None:
        self._executor = executor
        self._means = executor.means
        self._recorder = recorder
        self._settler = Settler(
            transport,
            self._means.app.topology,
            clock=self._means.clock,
            events=self._means.events,
            eager=eager,
            ends_at=settled_at,
            scheduler=scheduler,
            store=self._means.store,
        )
        self._deletes = Deletes(transport, clock=self._means.clock, events=self._means.events)
        self.done: set[str] = set()
        """Ids of the messages that Lambda may delete."""
        self.answered = False
        """Lambda has its answer, so that nothing may change any more."""
        self.abandoned: set[Run] = set()
        """Plain functions, whose threads go on."""
        self.given_up: set[Run] = set()
        """Jobs that are settled though their handlers, which ignore being cancelled, go on."""

    async def settle(self, run: Run, verdict: Verdict) -> bool:
        """Carry a verdict out; returns whether the message may be deleted."""
        if self.answered:
            return False  # Lambda has been told that it stays, so that is what it does
        if self._recorder is not None:
            await self._recorder.explain(run, verdict)
        if run in self.abandoned and isinstance(verdict.outcome, Interrupted):
            # Its thread goes on: shown at once, it would run twice at the same time.
            self._settler.tell(verdict)
            return False
        gone = await self._settler.settle(run.delivery, verdict)
        if gone and self._recorder is not None:
            self._recorder.parked(run, verdict)
        return gone

    async def give_back(self, unstarted: Sequence[tuple[Delivery, int]]) -> None:
        """Give back what has not begun, to show again after its delay; what is too old goes on in
        another message."""
        now = self._means.clock.now()
        back = [each for each in unstarted if each[0].may_go_back(now)]
        ending = [each for each in unstarted if not each[0].may_go_back(now)]
        await asyncio.gather(self._settler.give_back(back), *map(self._renew, ending))

    async def _renew(self, unstarted: tuple[Delivery, int]) -> None:
        """Settle one that is not run and can't go back: it goes on in another message.

        That carries the attempts that were made. While these can't be read the message is left
        alone, unless SQS would not deliver it again.
        """
        delivery, delay_s = unstarted
        run = self._executor.begin(delivery)
        if self._recorder is not None:
            await self._recorder.recall(run)
        if not run.known and delivery.comes_again(self._means.clock.now()):
            return
        verdict = run.unstarted(delay_s) if run.foregone is None else await run.verdict()
        if await self.settle(run, verdict):
            self.delete(delivery)

    async def settle_running(self, run: Run) -> None:
        """Settle a job whose handler goes on. It has failed: its end is explained by that, and not
        taken for a crash, and it comes again no more often than it has attempts."""
        if (verdict := run.given_up()) is None:
            return
        self.given_up.add(run)
        _log.warning("a handler goes on though it was cancelled: %s", job_id_of(run))
        is_retry = isinstance(verdict.action, RetryAfter)
        if not (is_retry and run.delivery.comes_again(self._means.clock.now())):
            if await self.settle(run, verdict):
                self.delete(run.delivery)
            return
        # Shown before its visibility timeout ends, it would run twice at the same time.
        verdict = replace(verdict, action=RetryAfter(delay_s=run.delivery.queue.visibility_s))
        if self._recorder is not None:
            await self._recorder.explain(run, verdict)
        self._settler.tell(verdict)

    async def release(self, behind: Sequence[Delivery]) -> None:
        """Give back what stands behind one that stays.

        At once: SQS shows none of a group while one before it is hidden.
        """
        await self._settler.give_back([(delivery, 0) for delivery in behind])

    def delete(self, delivery: Delivery, *, at_once: bool = False) -> None:
        """Delete a message that has ended, with others or at once."""
        self.done.add(delivery.message.message_id)
        self._deletes.put(delivery, at_once=at_once)

    async def drain(self) -> None:
        """Wait for the deletes that have begun."""
        await self._deletes.drain()

    async def close(self) -> None:
        """Delete what still waits for that."""
        await self._deletes.close()


def job_id_of(run: Run) -> str:
    """For the log; empty where the message is no job."""
    return run.job.attempt.job_id if run.job is not None else ""
