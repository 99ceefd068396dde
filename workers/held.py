"""What this worker holds: every message received and not yet settled."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.run import Run

_MARGIN_S = 2
"""What is left between a visibility timeout and SQS's 12 hours, for the request's own time."""


@dataclass(slots=True, eq=False)
class Hold:
    """One delivery while this worker is answerable for it."""

    run: Run
    """Its delivery, read; it is called once it is started."""
    extended_at: float
    """When its visibility was last set, on the clock's monotonic time."""
    failed_at: float = -math.inf
    """When an extension was last tried in vain."""
    since: float = 0.0
    """When it began to wait: when it was received, or became the first of its FIFO group."""
    ready: bool = True
    """What happened to its job before is known, so that it may start."""
    limit: str = ""
    """The limit that held it back when that was last looked at."""
    ticket: tuple[Any, ...] | None = None
    """The limits' part, given back when it has ended; None: it has taken nothing."""
    returning: bool = False
    """It is being given back, without having been started."""
    aside: bool = False
    """It bounds what is received of its own queue alone; see `Holdings.set_aside`."""
    lost: bool = False
    """SQS no longer honours its receipt; another worker may have the message."""
    shared: bool = False
    """It was not extended in time, so another worker may have it too. What runs goes on and may
    still be deleted, but its visibility is no longer ours to change."""
    closing: bool = False
    """Its visibility is being decided for good: the heartbeat must not touch it any more."""
    deleting: bool = False
    """A delete is under way: that SQS doesn't know the receipt any more is then no loss."""
    beat: asyncio.Task[None] | None = None
    """The latest extension; a verdict on visibility waits for its end."""

    @property
    def delivery(self) -> Delivery:
        return self.run.delivery

    @property
    def receipt(self) -> str:
        return self.delivery.message.receipt

    def lapsed(self, now: float) -> bool:
        """Whether its visibility timeout has ended, for all that this worker knows."""
        return now - self.extended_at > self.delivery.queue.visibility_s

    def possible_s(self, wanted_s: int, now: float) -> int:
        """A visibility timeout within what SQS leaves: 12 h since the receive, else it errs.

        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
        """
        left_s = MAX_VISIBILITY.total_seconds() - (now - self.delivery.received_at)
        return max(0, min(wanted_s, int(left_s) - _MARGIN_S))


class Holdings:
    """All holds, in the order of their receipt."""

    def __init__(self) -> None:
        self._holds: dict[str, Hold] = {}
        self._aside: Counter[str] = Counter()
        self._aside_total = 0

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        return iter(tuple(self._holds.values()))

    def __contains__(self, hold: Hold) -> bool:
        return hold.receipt in self._holds

    @property
    def engaged(self) -> int:
        """How many are held and not set aside."""
        return len(self._holds) - self._aside_total

    def take(self, run: Run) -> Hold:
        """Begin to hold a delivery."""
        received_at = run.delivery.received_at
        hold = Hold(run, received_at, since=received_at)
        if (receipt := hold.receipt) in self._holds:
            self.drop(hold)
        self._holds[receipt] = hold
        return hold

    def set_aside(self, hold: Hold) -> None:
        """Reckon with a hold for its own queue alone.

        It needs no slot any more, and waits for SQS: it goes back unstarted, or what became of it
        could not be carried out yet.
        """
        if self._holds.get(hold.receipt) is hold and not hold.aside:
            hold.aside = True
            self._aside[hold.delivery.queue.name] += 1
            self._aside_total += 1

    def aside(self, queue: str) -> int:
        """How many of that queue are set aside."""
        return self._aside.get(queue, 0)

    def drop(self, hold: Hold) -> None:
        """Stop holding it: it has been settled, or SQS will deliver it again."""
        held = self._holds.pop(hold.receipt, None)
        if held is not None and held.aside:
            self._aside[held.delivery.queue.name] -= 1
            self._aside_total -= 1
