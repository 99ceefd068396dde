"""Delivery of SQS's answers to the spool's file, and then to their subscribers."""

from __future__ import annotations

from collections.abc import Callable

from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.policy import Answer, Sent, SpoolClaim
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.errors import TransportError


class Notes:
    """Remembers the answers that could not be written to the file, as on a full disk.

    Between `gathered` and `told` the file is settled, which waits for the disk.

    Args:
        file: counts the jobs that still wait.
        sent: records the jobs that SQS has taken.
        clock: tells the time.
        events: receives an event for the end of each job.
        noted: called with the queue and the answer once the file is settled.
    """

    def __init__(
        self,
        file: SpoolFile,
        sent: Sent,
        clock: Clock,
        events: Events,
        noted: Callable[[str, Answer], None],
    ) -> None:
        self._file = file
        self._sent = sent
        self._clock = clock
        self._events = events
        self._noted = noted
        self._untold: tuple[SpoolClaim, Answer] | None = None

    @property
    def untold(self) -> SpoolClaim | None:
        """The claim whose answer has yet to be written to the file, if any."""
        return None if self._untold is None else self._untold[0]

    def gathered(self, claim: SpoolClaim, answer: Answer) -> Answer:
        """Add earlier unwritten answers to this one, and remember the sum until it is `told`."""
        if self._untold is not None:
            answer = self._untold[1] + answer
        self._untold = claim, answer
        return answer

    def told(self, claim: SpoolClaim, answer: Answer) -> TransportError | None:
        """Notify all subscribers, now that the file is settled; return the answer's error."""
        self._untold = None
        self._noted(claim.queue, answer)
        waiting = self._file.totals()[0] if answer.error else 0
        for event in answer.events(claim, waiting, self._clock.now()):
            self._events.emit(event)
        self._sent(answer.sent)
        return answer.error
