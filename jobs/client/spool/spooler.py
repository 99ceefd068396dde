"""The spool of a `headgate.Client`, and the thread that sends from it."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence

from headgate.jobs.client.fallback import Result, lost, replaced
from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.inflow import LONGEST_S, Inflow
from headgate.jobs.client.spool.policy import CLOSING_S, Answer, Rhythm, Sent, Spool, spooled
from headgate.jobs.client.spool.sending import Send, SpoolSending
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.errors import SpoolError
from headgate.jobs.submission.prepare import Submission

_log = logging.getLogger("headgate.spool")


class Spooler:
    """A `jobs.client.fallback.Fallback` that keeps jobs in a file until SQS takes them.

    Args:
        spool: the file's path and bounds.
        send: sends a request to SQS.
        sent: records the jobs that SQS has taken from the file.
        clock: tells the time.
        events: receives an event for each job kept or sent; from the spool's own thread, too.
    """

    def __init__(
        self, spool: Spool, *, send: Send, sent: Sent, clock: Clock, events: Events
    ) -> None:
        self._spool = spool
        self._send = send
        self._sent = sent
        self._clock = clock
        self._events = events
        self._opening = threading.Lock()
        self._drainer: Drainer | None = None
        self._cause: BaseException | None = None
        """The latest error for which this process spooled jobs, if any."""

    def open(self) -> None:
        """Open the file, and start to send the jobs left by earlier processes. Idempotent.

        Raises:
            SpoolError: the file can't be used.
        """
        self._opened()

    def takes(self, submissions: Sequence[Submission]) -> bool:
        """Keep submissions of one queue if earlier ones of it wait; they go behind those.

        Raises:
            SpoolError: the file could not keep them, and they were not sent.
        """
        drainer = self._opened()
        if not drainer.file.waits(submissions[0].queue.name):
            return False
        try:
            self._keep(drainer, submissions, "others of its queue wait before it")
        except SpoolError as error:
            raise error from self._cause
        return True

    def instead(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result]:
        """Keep the jobs that SQS could not be asked to take."""
        drainer = self._opened()
        waiting, cause = lost(submissions, results)
        if not waiting:
            drainer.answered()
            return results
        outcome: Result = None
        try:
            self._keep(drainer, waiting, str(cause))
        except SpoolError as error:
            outcome = error
            outcome.__cause__ = cause
        self._cause = cause
        return replaced(results, outcome)

    def close(self) -> None:
        """Try once more, for `CLOSING_S`, to send the waiting jobs; close the file. Idempotent."""
        with self._opening:
            drainer, self._drainer = self._drainer, None
        if drainer is not None:
            drainer.stop()

    def _opened(self) -> Drainer:
        if (drainer := self._drainer) is not None:
            return drainer
        with self._opening:
            if self._drainer is None:
                file = SpoolFile(self._spool, self._clock)
                self._drainer = Drainer(file, self._send, self._sent, self._clock, self._events)
                self._drainer.start()
            return self._drainer

    def _keep(self, drainer: Drainer, submissions: Sequence[Submission], reason: str) -> None:
        drainer.admit(submissions[0].queue.name, len(submissions))
        waiting, at = drainer.file.put(submissions), self._clock.now()
        for submission in submissions:
            self._events.emit(spooled(submission, reason, waiting, at))
        drainer.kept()


class Drainer:
    """A thread that sends the jobs in the file, and closes the file at its end.

    It is a daemon thread, like its helpers: a request that hangs doesn't keep the process from
    ending.
    """

    def __init__(
        self, file: SpoolFile, send: Send, sent: Sent, clock: Clock, events: Events
    ) -> None:
        self.file = file
        self._clock = clock
        self._inflow = Inflow()
        self._sending = SpoolSending(
            file, send, sent, clock, events, noted=self._noted, go_on=self._may_go_on
        )
        self._changed = threading.Condition()
        self._rhythm = Rhythm(random.Random())  # noqa: S311 - spreads load, guards no secret
        self._end_s: float | None = None
        """End of the last pass, on the monotonic clock; None until `stop`."""
        self._thread = threading.Thread(target=self._run, name="headgate-spool", daemon=True)

    def start(self) -> None:
        """Start the thread, which begins with the jobs in the file."""
        self._thread.start()

    def stop(self) -> None:
        """Make a last pass, and return when it is over, or after `CLOSING_S`."""
        with self._changed:
            self._end_s = self._clock.monotonic() + CLOSING_S
            self._changed.notify_all()
        self._thread.join(CLOSING_S)

    def admit(self, queue: str, jobs: int) -> None:
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
            clean = self._sending.drain()
            elsewhere = self.file.sent_by_others()
        except Exception:  # noqa: BLE001 - a fault of ours or of the disk; logged, see below
            # The thread's boundary. The fault may pass, and the jobs are still in the file.
            _log.exception("the spool could not be drained; it will be tried again")
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
