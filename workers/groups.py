"""The order within FIFO groups, as far as it is kept by the worker and not by SQS.

SQS hands out no message of a group while it regards an earlier one as in flight, but one receive
may bring several of a group: those run one at a time, each when the one before it has left the
queue.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

from workers.holding import Hold

_Group = tuple[str, str | None]


class Groups:
    """What this worker holds of each group, in the order in which SQS gave it."""

    def __init__(self) -> None:
        self._lines: dict[_Group, list[Hold]] = {}

    def __len__(self) -> int:
        """Groups of which something is held."""
        return len(self._lines)

    def take(self, hold: Hold) -> None:
        """A message has come. What comes from a standard queue has no order to keep."""
        if hold.delivery.queue.fifo:
            self._lines.setdefault(_group(hold), []).append(hold)

    def is_behind(self, hold: Hold) -> bool:
        """Whether another one of its group has to leave the queue before this one may start."""
        if not hold.delivery.queue.fifo:
            return False
        line = self._lines.get(_group(hold))
        return line is None or line[0] is not hold  # None: it is on its way back

    def left(self, hold: Hold, *, gone: bool) -> list[Hold]:
        """A message is no longer held; returns those that have to go back unstarted, in order.

        Args:
            hold: which.
            gone: it has left its queue, done or parked, so that the next may start. Otherwise it
                will be delivered again, and all that came after it only after it.
        """
        line = self._lines.get(_group(hold), []) if hold.delivery.queue.fifo else []
        if hold not in line:  # of a standard queue, or sent back with one before it
            return []
        at = line.index(hold)
        later = [] if gone else line[at + 1 :]
        del line[at : at + 1 if gone else None]
        if not line:
            del self._lines[_group(hold)]
        return later


def _group(hold: Hold) -> _Group:
    return hold.delivery.queue.name, hold.delivery.message.group
