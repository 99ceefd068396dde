"""Sending saved letters back to the dead-letter queues that they lay in."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence

from headgate.jobs.core.batching import TRIES, EntryRejected, in_batches, pause_s
from headgate.jobs.core.ports.transport import AsyncSender, OutgoingMessage
from headgate.jobs.dead_letters.copies import SavedLetter, read_json
from headgate.jobs.errors import ConfigurationError, MessageUnreadable

ROUND = 100
"""Letters that are read before they are sent: these are in memory together."""


def read_lines(lines: Iterable[str], queues: Iterable[str]) -> Iterable[SavedLetter]:
    """Yield the letters of an export's lines.

    Raises:
        ConfigurationError: a line is not a letter, or its queue is not one of the app's dead-letter
            ``queues``; the error gives its number.
    """
    known = set(queues)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            saved = read_json(line)
        except MessageUnreadable as error:
            raise ConfigurationError(f"line {number}: {error}") from None
        if saved.queue not in known:
            raise ConfigurationError(
                f"line {number}: {saved.queue!r} is not one of this app's dead-letter queues: "
                "import with the app, and the stage, that it was exported with"
            )
        yield saved


class LetterSender:
    """Sends saved letters, in batches by queue.

    Args:
        transport: the queue service.
        sleep: pauses before entries that failed are sent again.
        rng: spreads the pauses.
    """

    def __init__(
        self,
        transport: AsyncSender,
        *,
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
    ) -> None:
        self._transport = transport
        self._sleep = sleep
        self._rng = rng

    async def send(self, letters: Sequence[SavedLetter]) -> None:
        """Send letters to their queues, in order.

        Raises:
            TransportError: SQS did not take one of them; those before it were sent.
        """
        by_queue: dict[str, list[OutgoingMessage]] = {}
        for letter in letters:
            by_queue.setdefault(letter.queue, []).append(message_of(letter))
        for queue, messages in by_queue.items():
            for batch in in_batches(messages, lambda message: message.size):
                await self._send_batch(queue, batch)

    async def _send_batch(self, queue: str, batch: Sequence[OutgoingMessage]) -> None:
        for tries in range(1, TRIES + 1):
            failed = await self._transport.send(queue, batch)
            if not failed:
                return
            if tries == TRIES or any(each.sender_fault for each in failed):
                raise EntryRejected(next((each for each in failed if each.sender_fault), failed[0]))
            batch = [batch[each.index] for each in failed]
            await self._sleep(pause_s(tries, self._rng))


def message_of(letter: SavedLetter) -> OutgoingMessage:
    """Return the message of a saved letter for the queue that it lay in.

    A FIFO queue drops the same letter if it is sent again within five minutes.
    """
    is_fifo = letter.queue.endswith(".fifo")
    return OutgoingMessage(
        body=letter.content.body,
        attributes=letter.content.attributes,
        group=letter.content.group or (letter.message_id if is_fifo else None),
        deduplication_id=letter.message_id if is_fifo else None,
    )
