"""Synchronous sending of the messages of one call, request after request."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from headgate.jobs.core.batching import TRIES, EntryRejected, Lanes, held_back_by, pause_s
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.errors import TransportError
from headgate.jobs.messages.outgoing import lane_of

_BROKEN = 3
"""Requests in a row that fail as a whole before the rest is given up, as in an outage."""


def send_one(
    message: OutgoingMessage,
    send: Callable[[Sequence[OutgoingMessage]], list[EntryFailure]],
    *,
    sleep: Callable[[float], None],
    rng: random.Random,
) -> TransportError | None:
    """Send a message by itself, as `Sending` would, which keeps books of many; return its error."""
    tries = 0
    while True:
        try:
            failures = send([message])
        except TransportError as error:
            return error
        if not failures:
            return None
        tries += 1
        if failures[0].sender_fault or tries == TRIES:
            return EntryRejected(failures[0])
        sleep(pause_s(tries, rng))


class Sending:
    """The messages of one call on their way to one queue.

    If a request fails as a whole, after the transport's own retries, only its own messages fail,
    and sending goes on, unless the error is permanent, or it is the third such request in a row.
    Entries that were refused through no fault of their own are sent again behind new messages.

    Args:
        messages: messages for one queue.
        send: sends one request's messages; returns the entries that failed.
        sleep: pauses before failed entries are sent again.
        rng: spreads the pauses.
        goes_on: False gives up the rest with the first request that fails as a whole.
    """

    def __init__(
        self,
        messages: Sequence[OutgoingMessage],
        send: Callable[[Sequence[OutgoingMessage]], list[EntryFailure]],
        *,
        sleep: Callable[[float], None],
        rng: random.Random,
        goes_on: bool,
    ) -> None:
        self._messages = messages
        self._send = send
        self._sleep = sleep
        self._rng = rng
        self._most_broken = _BROKEN if goes_on else 1
        self._results: list[TransportError | None] = [None] * len(messages)
        self._tries = [0] * len(messages)
        self._lanes: Lanes[int] = Lanes(lambda index: lane_of(messages[index]))
        self._broken = 0
        """Requests in a row that failed as a whole."""
        self._fruitless = 0
        """Requests in a row none of whose messages was taken."""

    def run(self) -> list[TransportError | None]:
        """Send all messages; return each one's error, or None if it was taken."""
        for index in range(len(self._messages)):
            self._lanes.add(index)
        while batch := self._lanes.take(lambda index: self._messages[index].size):
            self._pause_before(batch)
            try:
                failures = self._send([self._messages[index] for index in batch])
            except TransportError as error:
                self._fail(batch, error)
            else:
                self._read(batch, failures)
        return self._results

    def _pause_before(self, batch: Sequence[int]) -> None:
        """Pause if the batch has no new messages, or if recent requests were fruitless."""
        failed = max(self._fruitless, min(self._tries[index] for index in batch))
        if failed:
            self._sleep(pause_s(failed, self._rng, answered=not self._broken))

    def _fail(self, batch: Sequence[int], error: TransportError) -> None:
        self._broken += 1
        self._fruitless += 1
        for index in batch:
            self._give_up(index, error)
        if not error.transient or self._broken == self._most_broken:
            for index in self._lanes:
                self._results[index] = error
            self._lanes = Lanes[int](lambda _index: None)

    def _read(self, batch: Sequence[int], failures: Sequence[EntryFailure]) -> None:
        self._broken = 0
        self._fruitless = self._fruitless + 1 if len(failures) == len(batch) else 0
        failed = {batch[failure.index]: failure for failure in failures}
        for index in batch:
            self._tries[index] += 1
            if (failure := failed.get(index)) is None:
                self._lanes.passed(index)
            elif failure.sender_fault or self._tries[index] == TRIES:
                self._give_up(index, EntryRejected(failure))
            else:
                self._lanes.again(index)

    def _give_up(self, index: int, error: TransportError) -> None:
        self._results[index] = error
        for behind in self._lanes.stopped(index):
            self._results[behind] = held_back_by(error)
