"""Looking at a queue's messages and giving them back, without deleting or keeping any.

Messages stay hidden until the look is over, so that none comes twice. Then they are given back; if
that fails, or the process is killed, they show again by themselves after ``hold_s``.

This has two limits. SQS hands out no more of a FIFO queue's group while some of it is held, so only
the ten oldest messages of each group at most are seen. And a standard queue with more than
``limit`` messages hands them out in an order of its own.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports import ReceivedMessage, Receiver, VisibilityChange
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.errors import TransportError

_WAIT_S = 1  # a long poll asks all of SQS's servers; a short one may miss messages

_log = logging.getLogger("headgate.peeking")


def peek(
    queues: Receiver,
    queue: str,
    visit: Callable[[ReceivedMessage], None],
    *,
    limit: int,
    hold_s: int,
    until_s: float,
    clock: Clock,
) -> int:
    """Call ``visit`` with each message of a queue; return their number.

    Args:
        queues: the queue service.
        queue: the queue's physical name.
        visit: called with each message; an exception from it ends the look and propagates.
        limit: the maximum number of messages.
        hold_s: seconds for which to hide them; longer than the look takes.
        until_s: the time at which to end the look, on ``clock``'s monotonic time.

    Raises:
        TransportError: the queue could not be asked.
    """
    held: list[str] = []
    try:
        while len(held) < limit and clock.monotonic() < until_s:
            room = min(MAX_BATCH, limit - len(held))
            found = queues.receive(queue, limit=room, wait_s=_WAIT_S, visibility_s=hold_s)
            held += [message.receipt for message in found]
            if not found:
                break
            for message in found:
                visit(message)
    finally:
        _give_back(queues, queue, held, hold_s)
    return len(held)


def _give_back(queues: Receiver, queue: str, held: Sequence[str], hold_s: int) -> None:
    kept = 0
    for start in range(0, len(held), MAX_BATCH):
        receipts = held[start : start + MAX_BATCH]
        changes = [VisibilityChange(receipt=receipt, timeout_s=0) for receipt in receipts]
        try:
            kept += len(queues.change_visibility(queue, changes))
        except TransportError:
            kept += len(receipts)
    if kept:
        _log.warning("%d messages of %s show again by themselves in %d s", kept, queue, hold_s)
