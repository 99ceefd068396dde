"""What this worker holds: every message received and not yet settled."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jobs.delivery import Delivery
from jobs.execution import Run
from jobs.topology import MAX_VISIBILITY

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
    ready: bool = True
    """What happened to its job before is known, so that it may start."""
    ticket: tuple[Any, ...] = ()
    """What the limits want back when it has ended."""
    returning: bool = False
    """It is being given back, without having been started."""
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

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        return iter(tuple(self._holds.values()))

    def __contains__(self, hold: Hold) -> bool:
        return hold.receipt in self._holds

    def take(self, run: Run) -> Hold:
        """Begin to hold a delivery."""
        hold = Hold(run, run.delivery.received_at)
        self._holds[hold.receipt] = hold
        return hold

    def drop(self, hold: Hold) -> None:
        """Stop holding it: it has been settled, or SQS will deliver it again."""
        self._holds.pop(hold.receipt, None)
