"""Answers of SQS's on their way into the spool's file, and to those who hear of them."""

from __future__ import annotations

from collections.abc import Callable

from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.policy import Answer, Claim, Sent
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.errors import TransportError


class Notes:
    """Remembers what the file could not be told, for a full disk say, until it can.

    Between `gathered` and `told` the file is settled; `jobs.client.spool.sending` does that in
    place, and `jobs.client.spool.async_sending` in a thread.

    Args:
        file: counts what still waits.
        sent: writes down what SQS has taken.
        clock: tells the time.
        events: hears of what became of each job.
        noted: told of each note in the file, with its queue.
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
        self._untold: tuple[Claim, Answer] | None = None

    @property
    def untold(self) -> Claim | None:
        """The claim of which the file has yet to be told."""
        return None if self._untold is None else self._untold[0]

    def gathered(self, claim: Claim, answer: Answer) -> Answer:
        """The answer with what the file could not be told before; remembered until it is `told`."""
        if self._untold is not None:
            answer = self._untold[1] + answer
        self._untold = claim, answer
        return answer

    def told(self, claim: Claim, answer: Answer) -> TransportError | None:
        """The file has been told: all others are, too. Returns what failed."""
        self._untold = None
        self._noted(claim.queue, answer)
        waiting = self._file.totals()[0] if answer.error else 0
        for event in answer.events(claim, waiting, self._clock.now()):
            self._events.emit(event)
        self._sent(answer.sent)
        return answer.error
