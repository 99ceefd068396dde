"""``headgate queues drain``: wait until a queue is empty."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headgate.jobs.client.overview.queues import QueueStatus
from headgate.jobs.core.topology import Priority
from headgate.jobs.errors import TransportError
from headgate.ops.views.output import in_line, show, show_error
from headgate.ops.views.overview.queue_watch import QueueSource

EXIT_NOT_DRAINED = 1
"""The queue was not empty in time, or is not there."""

SETTLED_S = 60.0
"""Seconds for which a queue has to look empty: SQS's counts may be that late.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html"""


class QueueDrain:
    """The wait for an empty queue.

    Args:
        source: tells what the queues hold.
        queue: the queue group.
        priority: one of its priorities; None: all of them.
        every_s: seconds between two looks.
        timeout_s: seconds after which to give up; None: never.
        clock: tells seconds that pass evenly.
        sleep: waits for that many seconds.
    """

    def __init__(
        self,
        source: QueueSource,
        queue: str,
        priority: Priority | None,
        *,
        every_s: float,
        timeout_s: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._source = source
        self._queue = queue
        self._priority = priority
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep
        self._said = ""

    def wait(self) -> int:
        """Show each change until the queue is empty; returns the exit code."""
        started_s = self._clock()
        empty_since_s: float | None = None
        while True:
            found = self._look()
            held, now_s = _held(found), self._clock()
            if found and all(each.waiting is None for each in found):
                show_error(
                    f"{self._queue} does not exist here, so nothing is known of its jobs: look at "
                    "AWS_REGION, HEADGATE_STAGE and the account"
                )
                return EXIT_NOT_DRAINED
            if held != 0:
                empty_since_s = None
            elif empty_since_s is None:
                empty_since_s = now_s
            elif now_s - empty_since_s >= SETTLED_S:
                show(f"{self._queue} is empty")
                return 0
            if self._timeout_s is not None and now_s - started_s >= self._timeout_s:
                show_error(f"{self._queue} was not empty within {self._timeout_s:g} s")
                return EXIT_NOT_DRAINED
            self._sleep(self._every_s)

    def _look(self) -> Sequence[QueueStatus]:
        """Return the SQS queues with what they hold; none if SQS doesn't tell now."""
        try:
            found = [each for each in self._source.list().queues if self._is_meant(each)]
        except TransportError as error:
            show_error(str(error))
            return ()
        said = in_line(", ".join(_counts(each) for each in found))
        if said != self._said:
            show(said, at_once=True)
            self._said = said
        return found

    def _is_meant(self, each: QueueStatus) -> bool:
        return each.queue == self._queue and self._priority in (None, each.priority)


def _held(found: Sequence[QueueStatus]) -> int | None:
    """Return the number of messages; None: it is not known."""
    if not found:
        return None
    # One that doesn't exist beside others is new in the app, and holds nothing.
    return sum((each.waiting or 0) + (each.in_flight or 0) + (each.delayed or 0) for each in found)


def _counts(each: QueueStatus) -> str:
    if not each.exists:
        return f"{each.queue} {each.priority}: missing"
    counts = f"{each.waiting:,} waiting, {each.in_flight:,} in flight, {each.delayed:,} delayed"
    return f"{each.queue} {each.priority}: {counts}"
