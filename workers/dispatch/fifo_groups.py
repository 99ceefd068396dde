"""The order within FIFO groups, as far as the worker and not SQS keeps it.

SQS delivers no message of a group while it considers an earlier one in flight, but one receive may
return several of a group: these run one at a time, each once the one before it has left the queue.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html

Pure: it knows no clock and no event loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.workers.held import Hold

_Group = tuple[str, str | None]


@light_dataclass(frozen=True, slots=True)
class Departure:
    """The consequences for a FIFO group when one of its messages is no longer held."""

    heir: Hold | None = None
    """The message that is now the first of the group."""
    returning: Sequence[Hold] = ()
    """The messages that have to go back unstarted, in order."""


_NO_GROUP = Departure()


class Groups:
    """The messages that this worker holds of each group, in the order in which SQS sent them."""

    def __init__(self) -> None:
        self._lines: dict[_Group, list[Hold]] = {}

    def __len__(self) -> int:
        """Return the number of groups of which messages are held."""
        return len(self._lines)

    def take(self, hold: Hold) -> bool:
        """Add a message; return True if it is the first of its group, or from a standard queue."""
        if not hold.delivery.queue.fifo:
            return True
        line = self._lines.setdefault(_group(hold), [])
        line.append(hold)
        return len(line) == 1

    def left(self, hold: Hold, *, gone: bool) -> Departure:
        """Remove a message that is no longer held.

        Args:
            hold: the message.
            gone: True if it has left its queue, done or parked, so that the next may start.
                Otherwise it will be delivered again, and all later ones of its group after it.
        """
        line = self._lines.get(_group(hold), []) if hold.delivery.queue.fifo else []
        if hold not in line:  # from a standard queue, or returned along with an earlier one
            return _NO_GROUP
        at = line.index(hold)
        returning = [] if gone else line[at + 1 :]
        del line[at : at + 1 if gone else None]
        if not line:
            del self._lines[_group(hold)]
        return Departure(heir=line[0] if line and at == 0 else None, returning=returning)


def _group(hold: Hold) -> _Group:
    return hold.delivery.queue.name, hold.delivery.message.group
