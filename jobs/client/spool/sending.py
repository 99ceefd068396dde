"""Sending of the jobs in a spool, by several requests at once; written once for both clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.flights import Flights, SendingMeans
from headgate.jobs.client.spool.notes import Notes
from headgate.jobs.client.spool.policy import Answer, Sent, SpoolClaim, SpooledJob
from headgate.jobs.client.spool.window import PARALLEL, ClaimWindow, Reply, Widths, unexpected
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.errors import SpoolError, TransportError
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.spool")

Send = Callable[[str, Sequence[OutgoingMessage]], Awaitable[list[EntryFailure]]]
"""`jobs.core.ports.transport.AsyncSender.send`."""


class SpoolSending:
    """Sends the waiting jobs, and settles them in the file.

    While the file can't be written, as on a full disk, this remembers the jobs that SQS has taken,
    and sends no others.

    Args:
        file: the file of the waiting jobs.
        send: sends a request to SQS; in the means of `THREADS` called from several threads, and
            never suspends.
        sent: records the jobs that SQS has taken.
        clock: tells the time.
        events: receives an event for the end of each job.
        means: makes requests, and waits for the disk.
        noted: called with the queue and the answer once the file is settled.
        go_on: called before each request; False stops sending.
        parallel: maximum number of requests in doubt.
    """

    def __init__(
        self,
        file: SpoolFile,
        send: Send,
        sent: Sent,
        clock: Clock,
        events: Events,
        means: SendingMeans,
        *,
        noted: Callable[[str, Answer], None] = lambda _queue, _answer: None,
        go_on: Callable[[], bool] = lambda: True,
        parallel: int = PARALLEL,
    ) -> None:
        self._file = file
        self._send = send
        self._clock = clock
        self._means = means
        self._notes = Notes(file, sent, clock, events, noted)
        self._go_on = go_on
        self._parallel = parallel
        self._widths = Widths()

    async def drain(self) -> bool:
        """Send the waiting jobs. A queue that fails is left alone, while others go on.

        Returns:
            True if nothing failed.

        Raises:
            SpoolError: the file can't be used.
        """
        if (untold := self._notes.untold) is not None:
            await self._settle(untold, Answer(), done=True)
        failed: set[str] = set()
        while self._go_on() and (claim := await self._claim(failed)) is not None:
            if await self._send_claim(claim) is not None:
                failed.add(claim.queue)
        return not failed

    async def _claim(self, skip: set[str]) -> SpoolClaim | None:
        claim: SpoolClaim | None = await self._means.on_disk(
            self._file.claim, skip=skip, most=self._widths.of
        )
        return claim

    async def _send_claim(self, claim: SpoolClaim) -> TransportError | None:
        """Send a claim's jobs as far as possible; return the error of the rest, if any."""
        window = ClaimWindow(claim, parallel=self._parallel)
        error: TransportError | None = None
        try:
            async with self._means.flights(
                partial(self._ask, claim.queue), self._parallel
            ) as flights:
                while self._begin(claim, window, flights):
                    for batch, reply in await flights.replies():
                        window.answered(batch, reply)
                    with suppress(SpoolError):  # remembered, and tried again at the end
                        error = await self._settle(claim, window.news(), done=False) or error
        except BaseException:
            # In place, since the caller closes the file next: this releases the queue.
            self._file.settle(claim, self._notes.gathered(claim, window.end()))
            raise
        error = await self._settle(claim, window.end(), done=True) or error
        self._widths.passed(claim.queue, window, error)
        return error

    def _begin(self, claim: SpoolClaim, window: ClaimWindow, flights: Flights) -> bool:
        """Start the requests that may be made now; return True if any is under way."""
        while (
            self._notes.untold is None
            and self._go_on()
            and self._clock.monotonic() < claim.good_until_s
            and (batch := window.next_batch())
        ):
            flights.start(batch)
        return flights.busy > 0

    async def _settle(
        self, claim: SpoolClaim, answer: Answer, *, done: bool
    ) -> TransportError | None:
        answer = self._notes.gathered(claim, answer)
        await self._means.on_disk(self._file.settle, claim, answer, done=done)
        return self._notes.told(claim, answer)

    async def _ask(self, queue: str, batch: Sequence[SpooledJob]) -> Reply:
        try:
            return await self._send(queue, [job.message for job in batch])
        except TransportError as error:
            return error
        except Exception as error:  # noqa: BLE001 - from a user's transport; logged
            _log.exception("unexpected error while sending from the spool")
            return unexpected(queue, error)
