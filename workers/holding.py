"""What this worker holds: every message received and not yet settled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.execution import Delivery, Run


@dataclass(slots=True, eq=False)
class Hold:
    """One delivery while this worker is answerable for it."""

    delivery: Delivery
    extended_at: float
    """When its visibility was last set, on the clock's monotonic time."""
    run: Run | None = None
    """Once it has been started."""
    lost: bool = False
    """SQS no longer honours its receipt; another worker may have the message."""
    closing: bool = False
    """Its visibility is being decided for good: the heartbeat must not touch it any more."""
    beat: asyncio.Future[None] | None = None
    """The extension that is under way; a verdict on visibility waits for it."""

    @property
    def receipt(self) -> str:
        return self.delivery.message.receipt


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

    def take(self, delivery: Delivery) -> Hold:
        """Begin to hold a delivery."""
        hold = Hold(delivery, delivery.received_at)
        self._holds[hold.receipt] = hold
        return hold

    def drop(self, hold: Hold) -> None:
        """Stop holding it: it has been settled, or SQS will deliver it again."""
        self._holds.pop(hold.receipt, None)
