"""The task that sends from the spool of a `headgate.AsyncClient`.

Disk access happens in threads, so that it never blocks the loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.flights import TASKS
from headgate.jobs.client.spool.inflow import LONGEST_S, Inflow
from headgate.jobs.client.spool.policy import CLOSING_S, Answer, Rhythm, Sent, Spool
from headgate.jobs.client.spool.sending import Send, SpoolSending
from headgate.jobs.client.spool.spooler import Spooler
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.spool")


def task_spooler(spool: Spool, *, send: Send, sent: Sent, clock: Clock, events: Events) -> Spooler:
    """Return the spooler of a `headgate.AsyncClient`; see `jobs.client.spool.spooler`."""
    return Spooler(
        spool,
        lambda file: AsyncDrainer(file, send, sent, clock, events),
        asyncio.Lock(),
        TASKS,
        clock,
        events,
    )


class AsyncDrainer:
    """A task that sends the jobs in the file; a `Drains`."""

    def __init__(
        self, file: SpoolFile, send: Send, sent: Sent, clock: Clock, events: Events
    ) -> None:
        self.file = file
        self.put = _Puts(file).put
        self._clock = clock
        self._inflow = Inflow()
        self._sending = SpoolSending(file, send, sent, clock, events, TASKS, noted=self._noted)
        self._moves = asyncio.Event()
        self._changed = asyncio.Event()
        self._rhythm = Rhythm(random.Random())  # noqa: S311 - spreads load, guards no secret
        self._ending = False

    def start(self) -> None:
        """Start the task, which begins with the jobs in the file."""
        self._task = asyncio.create_task(self._run(), name="headgate-spool")

    async def stop(self) -> None:
        """Make a last pass, cancel it after `CLOSING_S`, and close the file."""
        self._ending = True
        self._changed.set()
        try:
            async with asyncio.timeout(CLOSING_S):
                await self._task
        except TimeoutError:
            _log.warning("the spool was not drained in time; the remaining jobs stay in its file")
        finally:
            await asyncio.to_thread(self.file.close)

    async def admit(self, queue: str, jobs: int) -> None:
        """Delay a submission, for at most `LONGEST_S`, while earlier ones are sent."""
        if not self._inflow.admits(queue):
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_S):
                    while not self._inflow.admits(queue):
                        await self._moves.wait()
        self._inflow.came(queue, jobs)

    def kept(self) -> None:
        """Note that a job has been put into the file."""
        self._rhythm.kept(self._clock.monotonic())
        self._changed.set()

    def answered(self) -> None:
        """Note that SQS can be reached."""
        self._rhythm.answered(self._clock.monotonic())
        self._changed.set()

    async def _run(self) -> None:
        while await self._wait():
            await self._pass()
        await self._pass()

    async def _wait(self) -> bool:
        """Wait until the next pass is due; return False if it is the last."""
        while not self._ending:
            if (left_s := self._rhythm.due_s - self._clock.monotonic()) <= 0:
                self._rhythm.begins()
                return True
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
        return False

    async def _pass(self) -> None:
        clean, elsewhere = False, False
        try:
            clean = await self._sending.drain()
            elsewhere = self.file.sent_by_others()
        except Exception:  # noqa: BLE001 - a fault of ours or of the disk; logged, see below
            # The task's boundary. The fault may pass, and the jobs are still in the file.
            _log.exception("draining the spool failed; trying again later")
        self._inflow.ended()
        self._move()
        self._rhythm.passed(self._clock.monotonic(), clean=clean, elsewhere=elsewhere)

    def _noted(self, queue: str, answer: Answer) -> None:
        self._inflow.noted(queue, answer)
        self._move()

    def _move(self) -> None:
        """Wake the submissions that are delayed."""
        moved, self._moves = self._moves, asyncio.Event()
        moved.set()


class _Puts:
    """Lets simultaneous submissions share a thread, and a commit."""

    def __init__(self, file: SpoolFile) -> None:
        self._file = file
        self._waiting: list[tuple[Sequence[Submission], asyncio.Future[int]]] = []
        self._task: asyncio.Task[None] | None = None

    async def put(self, submissions: Sequence[Submission]) -> int:
        """Keep submissions, as `SpoolFile.put` does."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((submissions, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="headgate-spool-put")
        return await done

    async def _run(self) -> None:
        while self._waiting:
            calls, self._waiting = self._waiting, []
            try:
                await self._put(calls)
            finally:
                for _, done in calls:  # pending only if this was cancelled: end their waiting
                    done.cancel()

    async def _put(self, calls: Sequence[tuple[Sequence[Submission], asyncio.Future[int]]]) -> None:
        outcomes: Sequence[int | Exception]
        try:
            outcomes = await asyncio.to_thread(self._file.put_each, [each for each, _ in calls])
        except Exception as error:  # noqa: BLE001 - raised in the submitters
            outcomes = [error] * len(calls)
        for (_, done), outcome in zip(calls, outcomes, strict=True):
            if done.done():
                continue  # the submitter was cancelled; the job is kept all the same
            if isinstance(outcome, Exception):
                done.set_exception(outcome)
            else:
                done.set_result(outcome)
