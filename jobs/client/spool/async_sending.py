"""`jobs.client.spool.sending` for an event loop, with disk access in threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.notes import Notes
from headgate.jobs.client.spool.policy import Answer, Sent, SpoolClaim, SpooledJob
from headgate.jobs.client.spool.window import ClaimWindow, Reply, Widths, unexpected
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports import EntryFailure, OutgoingMessage
from headgate.jobs.errors import SpoolError, TransportError

_log = logging.getLogger("headgate.spool")

Send = Callable[[str, Sequence[OutgoingMessage]], Awaitable[list[EntryFailure]]]
"""`jobs.core.ports.AsyncTransport.send`."""

_Flights = dict[asyncio.Task[Reply], list[SpooledJob]]


class AsyncSending:
    """Sends the waiting jobs; see `jobs.client.spool.sending.SpoolSending` for its arguments."""

    def __init__(
        self,
        file: SpoolFile,
        send: Send,
        sent: Sent,
        clock: Clock,
        events: Events,
        *,
        noted: Callable[[str, Answer], None] = lambda _queue, _answer: None,
    ) -> None:
        self._file = file
        self._send = send
        self._clock = clock
        self._notes = Notes(file, sent, clock, events, noted)
        self._widths = Widths()

    async def drain(self) -> bool:
        """Send the waiting jobs, as `jobs.client.spool.sending.SpoolSending.drain` does."""
        if (untold := self._notes.untold) is not None:
            await self._settle(untold, Answer(), done=True)
        failed: set[str] = set()
        while claim := await asyncio.to_thread(self._file.claim, skip=failed, most=self._widths.of):
            if await self._send_claim(claim) is not None:
                failed.add(claim.queue)
        return not failed

    async def _send_claim(self, claim: SpoolClaim) -> TransportError | None:
        window = ClaimWindow(claim)
        flights: _Flights = {}
        error: TransportError | None = None
        try:
            while self._begin(claim, window, flights):
                done, _ = await asyncio.wait(flights, return_when=asyncio.FIRST_COMPLETED)
                for flight in done:
                    window.answered(flights.pop(flight), flight.result())
                with suppress(SpoolError):  # remembered, and tried again at the end
                    error = await self._settle(claim, window.news(), done=False) or error
        except BaseException:
            for flight in flights:
                flight.cancel()
            # Not in a thread, since the caller closes the file next: this releases the queue.
            self._file.settle(claim, self._notes.gathered(claim, window.end()))
            raise
        error = await self._settle(claim, window.end(), done=True) or error
        self._widths.passed(claim.queue, window, error)
        return error

    def _begin(self, claim: SpoolClaim, window: ClaimWindow, flights: _Flights) -> bool:
        """Start the requests that may be made now; return True if any is under way."""
        while (
            self._notes.untold is None
            and self._clock.monotonic() < claim.good_until_s
            and (batch := window.next_batch())
        ):
            asking = asyncio.create_task(self._ask(claim.queue, batch), name="headgate-spool-send")
            flights[asking] = batch
        return bool(flights)

    async def _settle(
        self, claim: SpoolClaim, answer: Answer, *, done: bool
    ) -> TransportError | None:
        answer = self._notes.gathered(claim, answer)
        await asyncio.to_thread(self._file.settle, claim, answer, done=done)
        return self._notes.told(claim, answer)

    async def _ask(self, queue: str, batch: Sequence[SpooledJob]) -> Reply:
        try:
            return await self._send(queue, [job.message for job in batch])
        except TransportError as error:
            return error
        except Exception as error:  # noqa: BLE001 - from a user's transport; logged
            _log.exception("sending from the spool raised what no transport should")
            return unexpected(queue, error)
