"""The spool of a `jobs.AsyncClient`: `jobs.spooler` for an event loop.

The disk is waited for in threads, so that it never holds up the loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from jobs.clock import Clock
from jobs.errors import SpoolError, TransportError
from jobs.events import Events
from jobs.fallback import Result, lost, replaced
from jobs.ports import EntryFailure, OutgoingMessage
from jobs.spool import CLOSING_S, Answer, Claim, Rhythm, Sent, Spool, read_answer, spooled
from jobs.spool_file import SpoolFile
from jobs.submission import Submission

_log = logging.getLogger("headgate.spool")

Send = Callable[[str, Sequence[OutgoingMessage]], Awaitable[list[EntryFailure]]]
"""`jobs.ports.Transport.send`."""


class AsyncSpooler:
    """A `jobs.fallback.AsyncFallback` that keeps jobs in a file; see `jobs.spooler.Spooler`."""

    def __init__(
        self, spool: Spool, *, send: Send, sent: Sent, clock: Clock, events: Events
    ) -> None:
        self._spool = spool
        self._send = send
        self._sent = sent
        self._clock = clock
        self._events = events
        self._opening = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._drainer: AsyncDrainer | None = None
        self._cause: BaseException | None = None
        """Why jobs wait, as far as this process has heard."""

    async def open(self) -> None:
        """Open the file, and start to send what an earlier process has left in it. Idempotent."""
        await self._opened()

    async def takes(self, submissions: Sequence[Submission]) -> bool:
        """Keep submissions of one queue if others of it wait, since they go behind those."""
        drainer = await self._opened()
        if not drainer.file.waits(submissions[0].queue.name):  # microseconds, and never a lock
            return False
        try:
            await self._keep(drainer, submissions, "others of its queue wait before it")
        except SpoolError as error:
            raise error from self._cause
        return True

    async def instead(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result]:
        """Keep what SQS could not be asked to take."""
        drainer = await self._opened()
        waiting, cause = lost(submissions, results)
        if not waiting:
            drainer.answered()
            return results
        outcome: Result = None
        try:
            await self._keep(drainer, waiting, str(cause))
        except SpoolError as error:
            outcome = error
            outcome.__cause__ = cause
        self._cause = cause
        return replaced(results, outcome)

    async def close(self) -> None:
        """Try once more to send what waits, for a few seconds, and close the file. Idempotent."""
        drainer, self._drainer = self._drainer, None
        if drainer is not None:
            await drainer.stop()

    async def _opened(self) -> AsyncDrainer:
        if (drainer := self._drainer) is not None:
            return drainer
        async with self._opening:
            if self._drainer is None:
                file = await asyncio.to_thread(SpoolFile, self._spool)
                self._drainer = AsyncDrainer(
                    file, self._send, self._sent, self._clock, self._events
                )
                self._drainer.start()
            return self._drainer

    async def _keep(
        self, drainer: AsyncDrainer, submissions: Sequence[Submission], reason: str
    ) -> None:
        async with self._writing:  # they would wait for one another in threads that others need
            await asyncio.to_thread(drainer.file.put, submissions)
        waiting, at = drainer.file.totals()[0], self._clock.now()
        for submission in submissions:
            self._events.emit(spooled(submission, reason, waiting, at))
        drainer.kept()


class AsyncDrainer:
    """A task that sends what is in the file; see `jobs.spooler.Drainer`."""

    def __init__(
        self, file: SpoolFile, send: Send, sent: Sent, clock: Clock, events: Events
    ) -> None:
        self.file = file
        self._send = send
        self._sent = sent
        self._clock = clock
        self._events = events
        self._changed = asyncio.Event()
        self._rhythm = Rhythm(random.Random())  # noqa: S311 - spreads load, guards no secret
        self._ending = False

    def start(self) -> None:
        """Begin with what is there."""
        self._task = asyncio.create_task(self._run(), name="headgate-spool")

    async def stop(self) -> None:
        """Make a last pass, cut it off when the bound has passed, and close the file."""
        self._ending = True
        self._changed.set()
        try:
            async with asyncio.timeout(CLOSING_S):
                await self._task
        except TimeoutError:
            _log.warning("the spool could not be drained in time; what it has stays in it")
        finally:
            await asyncio.to_thread(self.file.close)

    def kept(self) -> None:
        """A job has come into the file."""
        self._rhythm.kept(self._clock.monotonic())
        self._changed.set()

    def answered(self) -> None:
        """SQS can be reached."""
        self._rhythm.answered(self._clock.monotonic())
        self._changed.set()

    async def _run(self) -> None:
        while await self._wait():
            await self._pass()
        await self._pass()

    async def _wait(self) -> bool:
        """Until the next pass; false if it is the last."""
        while not self._ending:
            if (left_s := self._rhythm.due_s - self._clock.monotonic()) <= 0:
                return True
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
        return False

    async def _pass(self) -> None:
        clean, leased_s = False, math.inf
        try:
            clean = await drain(self.file, self._send, self._sent, self._clock, self._events)
            leased_s = self.file.leased_s(self._clock.now())
        except Exception:  # noqa: BLE001 - a fault of ours or of the disk; logged, see below
            # The task's boundary. What it was may pass, and the jobs are still in the file.
            _log.exception("the spool could not be drained; it will be tried again")
        self._rhythm.passed(self._clock.monotonic(), clean=clean, leased_s=leased_s)


async def drain(file: SpoolFile, send: Send, sent: Sent, clock: Clock, events: Events) -> bool:
    """Send what waits, batch after batch. A queue that fails is left alone, and others go on.

    Returns:
        Whether nothing failed.
    """
    failed: set[str] = set()
    while (claim := await asyncio.to_thread(file.claim, clock.now(), skip=failed)) is not None:
        answer = Answer()
        try:
            answer = read_answer(claim, await _ask(send, claim))
            await asyncio.to_thread(file.settle, claim, answer)
        except BaseException:
            # In place, since whoever ends this closes the file next: others may have the queue.
            file.settle(claim, answer)
            raise
        for event in answer.events(claim, file.totals()[0], clock.now()):
            events.emit(event)
        sent(answer.sent)
        if answer.error is not None:
            failed.add(claim.queue)
    return not failed


async def _ask(send: Send, claim: Claim) -> list[EntryFailure] | TransportError:
    try:
        return await send(claim.queue, claim.messages)
    except TransportError as error:
        return error
