"""The thread that sends from the spool of a `headgate.Client`."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.flights import THREADS
from headgate.jobs.client.spool.inflow import LONGEST_S, Inflow
from headgate.jobs.client.spool.policy import CLOSING_S, Answer, Rhythm, Sent, Spool
from headgate.jobs.client.spool.sending import Send, SpoolSending
from headgate.jobs.client.spool.spooler import Spooler
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.core.immediate import ImmediateLock, driven
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.spool")


def thread_spooler(
    spool: Spool, *, send: Send, sent: Sent, clock: Clock, events: Events
) -> Spooler:
    """Return the spooler of a `headgate.Client`, which never suspends.

    Args:
        spool: the file's path and bounds.
        send: sends a request to SQS; never suspends.
        sent: records the jobs that SQS has taken from the file.
        clock: tells the time.
        events: receives an event for each job kept or sent; from the spool's own thread, too.
    """
    return Spooler(
        spool,
        lambda file: Drainer(file, send, sent, clock, events),
        ImmediateLock(),
        THREADS,
        clock,
        events,
    )


class Drainer:
    """A thread that sends the jobs in the file, and closes the file at its end: a `Drains`.

    It is a daemon thread, like its helpers: a request that hangs doesn't keep the process from
    ending.
    """

    def __init__(
        self, file: SpoolFile, send: Send, sent: Sent, clock: Clock, events: Events
    ) -> None:
        self.file = file
        self._clock = clock
        self._inflow = Inflow()
        sending = SpoolSending(
            file, send, sent, clock, events, THREADS, noted=self._noted, go_on=self._may_go_on
        )
        self._drain = driven(sending.drain)
        self._changed = threading.Condition()
        self._rhythm = Rhythm(random.Random())  # noqa: S311 - spreads load, guards no secret
        self._end_s: float | None = None
        """End of the last pass, on the monotonic clock; None until `stop`."""
        self._thread = threading.Thread(target=self._run, name="headgate-spool", daemon=True)

    def start(self) -> None:
        """Start the thread, which begins with the jobs in the file."""
        self._thread.start()

    async def stop(self) -> None:
        """Make a last pass, and return when it is over, or after `CLOSING_S`."""
        with self._changed:
            self._end_s = self._clock.monotonic() + CLOSING_S
            self._changed.notify_all()
        self._thread.join(CLOSING_S)

    async def put(self, submissions: Sequence[Submission]) -> int:
        """Keep submissions, as `SpoolFile.put` does."""
        return self.file.put(submissions)

    async def admit(self, queue: str, jobs: int) -> None:
        """Delay a submission, for at most `LONGEST_S`, while earlier ones are sent."""
        with self._changed:
            self._changed.wait_for(lambda: self._inflow.admits(queue), LONGEST_S)
            self._inflow.came(queue, jobs)

    def kept(self) -> None:
        """Note that a job has been put into the file."""
        with self._changed:
            self._rhythm.kept(self._clock.monotonic())
            self._changed.notify_all()

    def answered(self) -> None:
        """Note that SQS can be reached."""
        with self._changed:
            self._rhythm.answered(self._clock.monotonic())
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while self._wait():
                self._pass()
            self._pass()
        finally:
            self.file.close()

    def _wait(self) -> bool:
        """Wait until the next pass is due; return False if it is the last."""
        with self._changed:
            while self._end_s is None:
                if (left_s := self._rhythm.due_s - self._clock.monotonic()) <= 0:
                    self._rhythm.begins()
                    return True
                self._changed.wait(left_s)
            return False

    def _pass(self) -> None:
        clean, elsewhere = False, False
        try:
            clean = self._drain()
            elsewhere = self.file.sent_by_others()
        except Exception:  # noqa: BLE001 - a fault of ours or of the disk; logged, see below
            # The thread's boundary. The fault may pass, and the jobs are still in the file.
            _log.exception("draining the spool failed; trying again later")
        with self._changed:
            self._inflow.ended()
            self._rhythm.passed(self._clock.monotonic(), clean=clean, elsewhere=elsewhere)
            self._changed.notify_all()

    def _noted(self, queue: str, answer: Answer) -> None:
        with self._changed:
            self._inflow.noted(queue, answer)
            self._changed.notify_all()

    def _may_go_on(self) -> bool:
        return self._end_s is None or self._clock.monotonic() < self._end_s
