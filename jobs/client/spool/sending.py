"""Synchronous sending of the jobs in a spool, by several requests at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.notes import Notes
from headgate.jobs.client.spool.policy import Answer, Sent, SpoolClaim, SpooledJob
from headgate.jobs.client.spool.window import PARALLEL, ClaimWindow, Reply, Widths, unexpected
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports import EntryFailure, OutgoingMessage
from headgate.jobs.errors import SpoolError, TransportError

_log = logging.getLogger("headgate.spool")

Send = Callable[[str, Sequence[OutgoingMessage]], list[EntryFailure]]
"""`jobs.core.ports.Sender.send`."""


class SpoolSending:
    """Sends the waiting jobs, and settles them in the file.

    While the file can't be written, as on a full disk, this remembers the jobs that SQS has taken,
    and sends no others.

    Args:
        file: the file of the waiting jobs.
        send: sends a request to SQS; called from several threads.
        sent: records the jobs that SQS has taken.
        clock: tells the time.
        events: receives an event for the end of each job.
        noted: called with the queue and the answer once the file is settled.
        go_on: called before each request; False stops sending.
        parallel: maximum number of requests in doubt; with 1 they are made in the calling thread.
    """

    def __init__(
        self,
        file: SpoolFile,
        send: Send,
        sent: Sent,
        clock: Clock,
        events: Events,
        *,
        noted: Callable[[str, Answer], None] = lambda _queue, _answer: None,
        go_on: Callable[[], bool] = lambda: True,
        parallel: int = PARALLEL,
    ) -> None:
        self._file = file
        self._send = send
        self._clock = clock
        self._notes = Notes(file, sent, clock, events, noted)
        self._go_on = go_on
        self._parallel = parallel
        self._widths = Widths()

    def drain(self) -> bool:
        """Send the waiting jobs. A queue that fails is left alone, while others go on.

        Returns:
            True if nothing failed.

        Raises:
            SpoolError: the file can't be used.
        """
        if (untold := self._notes.untold) is not None:
            self._settle(untold, Answer(), done=True)
        failed: set[str] = set()
        while self._go_on() and (claim := self._file.claim(skip=failed, most=self._widths.of)):
            if self._send_claim(claim) is not None:
                failed.add(claim.queue)
        return not failed

    def _send_claim(self, claim: SpoolClaim) -> TransportError | None:
        """Send a claim's jobs as far as possible; return the error of the rest, if any."""
        window = ClaimWindow(claim, parallel=self._parallel)
        error: TransportError | None = None
        try:
            with _Lines(partial(self._ask, claim.queue), self._parallel) as lines:
                while self._begin(claim, window, lines):
                    for batch, reply in lines.replies():
                        window.answered(batch, reply)
                    with suppress(SpoolError):  # remembered, and tried again at the end
                        error = self._settle(claim, window.news(), done=False) or error
        finally:
            # Whatever happened, release the queue.
            error = self._settle(claim, window.end(), done=True) or error
        self._widths.passed(claim.queue, window, error)
        return error

    def _begin(self, claim: SpoolClaim, window: ClaimWindow, lines: _Lines) -> bool:
        """Start the requests that may be made now; return True if any is under way."""
        while (
            self._notes.untold is None
            and self._go_on()
            and self._clock.monotonic() < claim.good_until_s
            and (batch := window.next_batch())
        ):
            lines.ask(batch)
        return lines.busy > 0

    def _settle(self, claim: SpoolClaim, answer: Answer, *, done: bool) -> TransportError | None:
        answer = self._notes.gathered(claim, answer)
        self._file.settle(claim, answer, done=done)
        return self._notes.told(claim, answer)

    def _ask(self, queue: str, batch: Sequence[SpooledJob]) -> Reply:
        try:
            return self._send(queue, [job.message for job in batch])
        except TransportError as error:
            return error
        except Exception as error:  # noqa: BLE001 - from a user's transport; logged
            _log.exception("sending from the spool raised what no transport should")
            return unexpected(queue, error)


class _Lines:
    """Threads that make requests, started as needed; they end with the ``with`` block.

    Args:
        ask: makes a request.
        most: maximum number of threads; with 1, requests are made in the calling thread.
    """

    def __init__(self, ask: Callable[[Sequence[SpooledJob]], Reply], most: int) -> None:
        self._ask = ask
        self._most = most
        self._batches: SimpleQueue[list[SpooledJob] | None] = SimpleQueue()
        self._replies: SimpleQueue[tuple[list[SpooledJob], Reply]] = SimpleQueue()
        self._threads = 0
        self.busy = 0
        """Number of requests whose replies have not been taken yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for _ in range(self._threads):
            self._batches.put(None)

    def ask(self, batch: list[SpooledJob]) -> None:
        """Start a request; `replies` yields its reply later."""
        self.busy += 1
        if self._most == 1:
            self._replies.put((batch, self._ask(batch)))
            return
        if self._threads < self.busy:
            self._threads += 1
            name = f"headgate-spool-{self._threads}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
        self._batches.put(batch)

    def replies(self) -> Iterator[tuple[list[SpooledJob], Reply]]:
        """Wait for a reply; yield it, and all others that have arrived by then."""
        while True:
            self.busy -= 1
            yield self._replies.get()
            if self._replies.empty():
                return

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            reply: Reply = TransportError("the request ended without an answer")
            try:
                reply = self._ask(batch)
            finally:
                self._replies.put((batch, reply))
