"""The order within FIFO groups, as far as it is kept by the worker and not by SQS.

SQS hands out no message of a group while it regards an earlier one as in flight, but one receive
may bring several of a group: those run one at a time, each when the one before it has left the
queue.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.workers.held import Hold

_Group = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Departure:
    """What follows for its group from a message that is no longer held."""

    heir: Hold | None = None
    """The message that is now the first."""
    returning: Sequence[Hold] = ()
    """Those that have to go back unstarted, in order."""


_NO_GROUP = Departure()


class Groups:
    """What this worker holds of each group, in the order in which SQS gave it."""

    def __init__(self) -> None:
        self._lines: dict[_Group, list[Hold]] = {}

    def __len__(self) -> int:
        """Groups of which something is held."""
        return len(self._lines)

    def take(self, hold: Hold) -> bool:
        """Add a message; returns whether it is the first of its group, or from a standard queue."""
        if not hold.delivery.queue.fifo:
            return True
        line = self._lines.setdefault(_group(hold), [])
        line.append(hold)
        return len(line) == 1

    def left(self, hold: Hold, *, gone: bool) -> Departure:
        """Remove a message that is no longer held.

        Args:
            hold: which.
            gone: it has left its queue, done or parked, so that the next may start. Otherwise it
                will be delivered again, and all that came after it only after it.
        """
        line = self._lines.get(_group(hold), []) if hold.delivery.queue.fifo else []
        if hold not in line:  # of a standard queue, or sent back with one before it
            return _NO_GROUP
        at = line.index(hold)
        returning = [] if gone else line[at + 1 :]
        del line[at : at + 1 if gone else None]
        if not line:
            del self._lines[_group(hold)]
        return Departure(heir=line[0] if line and at == 0 else None, returning=returning)


def _group(hold: Hold) -> _Group:
    return hold.delivery.queue.name, hold.delivery.message.group
