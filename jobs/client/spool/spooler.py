"""The spool as the fallback of a client, written once for both clients.

What sends from it is a thread in a `headgate.Client` (`jobs.client.spool.drainer`), and a task in a
`headgate.AsyncClient` (`jobs.client.spool.async_drainer`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from headgate.jobs.client.fallback import Result, lost, replaced
from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.flights import SendingMeans
from headgate.jobs.client.spool.policy import Spool, spooled
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.errors import SpoolError
from headgate.jobs.submission.prepare import Submission

_BLOCKED = (
    "SQS refused one before it in its group: both are tried again when a process opens the file"
)


class Drains(Protocol):
    """Sends the jobs in a file in the background; `Drainer` never suspends."""

    file: SpoolFile

    def start(self) -> None:
        """Start with the jobs in the file."""
        ...

    async def stop(self) -> None:
        """Make a last pass for at most `CLOSING_S`, and close the file."""
        ...

    async def put(self, submissions: Sequence[Submission]) -> int:
        """Keep submissions, as `SpoolFile.put` does."""
        ...

    async def admit(self, queue: str, jobs: int) -> None:
        """Delay a submission, for at most `LONGEST_S`, while earlier ones are sent."""
        ...

    def kept(self) -> None:
        """Note that a job has been put into the file."""
        ...

    def answered(self) -> None:
        """Note that SQS can be reached."""
        ...


class Spooler:
    """A `jobs.client.fallback.Fallback` that keeps jobs in a file until SQS takes them.

    Args:
        spool: the file's path and bounds.
        drains: makes the drainer of the file.
        lock: held while the file is opened.
        means: waits for the disk.
        clock: tells the time.
        events: receives an event for each job kept.
    """

    def __init__(
        self,
        spool: Spool,
        drains: Callable[[SpoolFile], Drains],
        lock: AbstractAsyncContextManager[object],
        means: SendingMeans,
        clock: Clock,
        events: Events,
    ) -> None:
        self._spool = spool
        self._drains = drains
        self._opening = lock
        self._means = means
        self._clock = clock
        self._events = events
        self._drainer: Drains | None = None
        self._cause: BaseException | None = None
        """The latest error for which this process spooled jobs, if any."""

    stores = True

    async def open(self) -> None:
        """Open the file, and start to send the jobs left by earlier processes. Idempotent.

        Raises:
            SpoolError: the file can't be used.
        """
        await self._opened()

    async def takes(self, submissions: Sequence[Submission]) -> bool:
        """Keep submissions of one queue if earlier ones of it wait; they go behind those.

        Raises:
            SpoolError: the file could not keep them, and they were not sent.
        """
        drainer = await self._opened()
        # In this thread: it takes microseconds, and never waits for a lock.
        if not drainer.file.waits(submissions[0].queue.name):
            return False
        try:
            await self._keep(drainer, submissions, "others of its queue wait before it")
        except SpoolError as error:
            raise error from self._cause
        return True

    async def instead(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result]:
        """Keep the jobs that SQS could not be asked to take."""
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
        """Try once more, for `CLOSING_S`, to send the waiting jobs; close the file. Idempotent."""
        async with self._opening:
            drainer, self._drainer = self._drainer, None
        if drainer is not None:
            await drainer.stop()

    async def _opened(self) -> Drains:
        if (drainer := self._drainer) is not None:
            return drainer
        async with self._opening:
            if self._drainer is None:
                file = await self._means.on_disk(SpoolFile, self._spool, self._clock)
                self._drainer = self._started(file)
            return self._drainer

    def _started(self, file: SpoolFile) -> Drains:
        """Return a file's drainer at work; jobs kept without it would not be sent."""
        drainer = self._drains(file)
        try:
            drainer.start()
        except RuntimeError as error:  # the process may have no more threads
            file.close()
            raise SpoolError(self._spool.name, f"can't be sent from: {error}") from error
        return drainer

    async def _keep(self, drainer: Drains, submissions: Sequence[Submission], reason: str) -> None:
        await drainer.admit(submissions[0].queue.name, len(submissions))
        queue = submissions[0].queue
        blocked = drainer.file.blocked(queue.name) if queue.fifo else ()
        waiting, at = await drainer.put(submissions), self._clock.now()
        for submission in submissions:
            why = _BLOCKED if submission.message.group in blocked else reason
            self._events.emit(spooled(submission, why, waiting, at))
        drainer.kept()
