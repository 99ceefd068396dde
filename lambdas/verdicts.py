"""The verdicts on one invocation's messages, carried out until Lambda has its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from headgate.jobs.core.ports.scheduler import AsyncScheduler
from headgate.jobs.core.ports.transport import AsyncTransport
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Failed, Interrupted
from headgate.jobs.execution.recording.recorder import Recorder
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.delayed_retry import Asked
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.values.own_log import OwnLog
from headgate.lambdas.deleting import Deletes
from headgate.lambdas.settling import Surplus, settler_of

_log = OwnLog("headgate.consume")


class Verdicts:
    """Settles messages, and keeps track of those that Lambda may delete.

    Args:
        executor: the host of the runs.
        transport: connects to SQS.
        settled_at: deadline of settling, on the loop's clock.
        eager: returns True when nothing else runs, so that batching would only delay requests.
        scheduler: holds jobs that have to wait longer than SQS can, if there is one.
        asked: tells of cancellations; None: there are none.
        recorder: tells attempts from deliveries; None counts by deliveries.
    """

    def __init__(
        self,
        executor: Executor,
        transport: AsyncTransport,
        *,
        settled_at: float,
        eager: Callable[[], bool],
        scheduler: AsyncScheduler | None,
        asked: Asked | None,
        recorder: Recorder | None,
    ) -> None:
        self._executor = executor
        self._means = executor.means
        self._recorder = recorder
        self._settler = settler_of(
            self._means,
            transport,
            ends_at=settled_at,
            eager=eager,
            scheduler=scheduler,
            asked=asked,
        )
        self._surplus = Surplus(self._means, transport, ends_at=settled_at)
        self._deletes = Deletes(transport, clock=self._means.clock, events=self._means.events)
        self.done: set[str] = set()
        """Ids of the messages that Lambda may delete."""
        self.answered = False
        """True once Lambda has its answer, so that nothing may change any more."""
        self.abandoned: set[Run] = set()
        """Runs of synchronous handlers, whose threads go on."""
        self.given_up: set[Run] = set()
        """Runs that are settled although their handlers ignore the cancellation and go on."""

    async def settle(self, run: Run, verdict: Verdict) -> bool:
        """Carry out a verdict; return True if the message may be deleted."""
        if self.answered:
            return False  # Lambda has been told that it stays, so that is what it does
        if run in self.abandoned and isinstance(verdict.outcome, Interrupted | Failed):
            verdict = _left(verdict, run)
        if self._recorder is not None:
            await self._recorder.explain(run, verdict)
        gone = await self._settler.settle(run, verdict) == "gone"
        if gone and self._recorder is not None:
            self._recorder.parked(run, verdict)
        return gone

    async def give_back(self, unstarted: Sequence[tuple[Delivery, int]]) -> None:
        """Release unstarted messages, each with its delay; jobs whose messages are too old go on in
        another message."""
        now = self._means.clock.now()
        back = [each for each in unstarted if each[0].may_go_back(now)]
        ending = [each for each in unstarted if not each[0].may_go_back(now)]
        await asyncio.gather(self._surplus.give_back(back), *map(self._renew, ending))

    async def _renew(self, unstarted: tuple[Delivery, int]) -> None:
        """Settle an unstarted job whose message can't go back: it goes on in another message.

        The new message carries the number of attempts made. If that can't be read, the old message
        is left alone, unless SQS would not deliver it again.
        """
        delivery, delay_s = unstarted
        run = Run(self._executor, delivery)
        if self._recorder is not None:
            await self._recorder.recall(run)
        if not run.known and delivery.comes_again(self._means.clock.now()):
            return
        verdict = run.unstarted(delay_s) if run.foregone is None else await run.verdict()
        if await self.settle(run, verdict):
            self.delete(delivery)

    async def settle_running(self, run: Run) -> None:
        """Settle a job whose handler goes on after its cancellation, as a failed attempt.

        So its end is recorded, and not taken for a crash, and the job is retried at most as often
        as it has attempts.
        """
        if (verdict := run.given_up()) is None:
            return
        self.given_up.add(run)
        _log.warning("a handler goes on though it was cancelled: %s", job_id_of(run))
        if run.delivery.comes_again(self._means.clock.now()):
            verdict = _left(verdict, run)
        if await self.settle(run, verdict):
            self.delete(run.delivery)

    async def release(self, behind: Sequence[Delivery]) -> None:
        """Release the messages behind one that stays, without a delay.

        SQS shows no message of a FIFO group while an earlier one is hidden.
        """
        await self._surplus.give_back([(delivery, 0) for delivery in behind])

    def delete(self, delivery: Delivery, *, at_once: bool = False) -> None:
        """Delete the message of an ended job, together with others or at once; a bundle once all
        of its jobs are settled."""
        message_id = delivery.message.message_id
        if (part := delivery.part) is not None:
            if not part.bundle.is_settled:
                return
            message_id = part.bundle.message_id
        self.done.add(message_id)
        self._deletes.put(delivery, at_once=at_once)

    async def drain(self) -> None:
        """Delete the messages that wait for it, and wait for SQS."""
        await self._deletes.drain()

    async def close(self) -> None:
        """Leave the messages that wait for deletion to Lambda, and wait for begun requests."""
        await self._deletes.close()


def _left(verdict: Verdict, run: Run) -> Verdict:
    """Return the verdict on a job that goes on: shown before its visibility timeout ends, it would
    run twice at the same time."""
    return replace(verdict, room=replace(verdict.room, left_s=run.delivery.queue.visibility_s))


def job_id_of(run: Run) -> str:
    """Return the job's id, for the log; empty if the message is not a job."""
    return run.job.attempt.job_id if run.job is not None else ""
