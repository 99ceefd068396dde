"""The holds of this worker: every message received and not yet settled."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.open_bundle import BundlePart


@dataclass(slots=True, eq=False)
class Hold:
    """One delivery while this worker is responsible for it."""

    run: Run
    """The parsed delivery and its execution."""
    extended_at: float
    """Time at which its visibility was last set, on the monotonic clock."""
    asked_at: float = -math.inf
    """Time at which SQS was last asked to extend it, on the monotonic clock."""
    number: int = 0
    """Its number among all messages received here, in the order in which SQS sent them."""
    since: float = 0.0
    """Time from which on it waits: when it was received, or became first of its FIFO group."""
    ready: bool = True
    """True once its job's past is known, so that it may start."""
    limit: str = ""
    """The limit that held it back when it was last checked; empty if none did."""
    ticket: tuple[Any, ...] | None = None
    """Tokens taken from limits, given back when it has ended; None if it has taken none."""
    returning: bool = False
    """True once it is being given back without having been started."""
    aside: bool = False
    """True if it limits only the receives from its own queue; see `Holdings.set_aside`."""
    lost: bool = False
    """True if SQS no longer accepts its receipt; another worker may have the message."""
    shared: bool = False
    """True if it was not extended in time, so that another worker may have it too. A running job
    continues and may still be deleted, but its visibility must not be changed here any more."""
    outlived: bool = False
    """True once SQS has deleted it at the end of its queue's retention: no worker will have it any
    more, so its job goes on here, and what follows from its outcome needs another message."""
    closing: bool = False
    """True once its final visibility is being set: the heartbeat must not extend it any more."""
    deleting: bool = False
    """True while a delete is under way: an unknown receipt is then no loss."""
    beats: tuple[asyncio.Task[None], ...] = ()
    """Its latest extensions; a verdict that changes visibility waits for their end."""
    left: bool = False
    """True once it is no longer held, and the others of its FIFO group know."""
    delivery: Delivery = field(init=False)
    receipt: str = field(init=False)
    """The receipt of its message, which the jobs of a bundle share."""
    key: str = field(init=False)
    """Identifies it among all holds."""

    def __post_init__(self) -> None:
        self.delivery = self.run.delivery
        message = self.delivery.message
        self.receipt = self.key = message.receipt
        if self.delivery.part is not None:
            self.key = f"{message.receipt} {message.message_id}"

    def is_older_than(self, other: Hold) -> bool:
        """Return True if it was received earlier than another."""
        return self.delivery.received_at < other.delivery.received_at

    def lapsed(self, now: float) -> bool:
        """Return True if its visibility timeout has ended, as far as this worker knows."""
        if self.outlived:
            return False  # it won't be visible to anybody
        return now - self.extended_at > self.delivery.queue.visibility_s


class Holdings:
    """All holds, in the order of their receipt: one for each message, or each job of a bundle."""

    def __init__(self) -> None:
        self._holds: dict[str, Hold] = {}
        self._bundles: defaultdict[str, dict[str, Hold]] = defaultdict(dict)
        """By receipt and key, the holds of the jobs of bundles."""
        self._numbers = count()
        self._aside: Counter[str] = Counter()
        self._aside_total = 0

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        return iter(tuple(self._holds.values()))

    def __contains__(self, hold: Hold) -> bool:
        return hold.key in self._holds

    @property
    def engaged(self) -> int:
        """The number of messages held and not set aside."""
        return len(self._holds) - self._aside_total

    def messages(self) -> Iterator[Hold]:
        """Yield one hold of each message."""
        for hold in tuple(self._holds.values()):
            if hold.delivery.part is None:
                yield hold
        for holds in tuple(self._bundles.values()):
            yield next(iter(holds.values()))

    def together(self, hold: Hold) -> Collection[Hold]:
        """Return the holds of a message: of a bundle, those of its jobs that are still held."""
        if hold.delivery.part is None:
            return (hold,)
        return tuple(self._bundles.get(hold.receipt, {}).values())

    def take(self, run: Run) -> Hold:
        """Start to hold a delivery."""
        received_at = run.delivery.received_at
        hold = Hold(run, received_at, number=next(self._numbers), since=received_at)
        if (key := hold.key) in self._holds:
            self.drop(hold)
        self._holds[key] = hold
        if run.delivery.part is not None:
            self._bundles[hold.receipt][key] = hold
        return hold

    def set_aside(self, hold: Hold) -> None:
        """Count a hold only towards its own queue's bound from now on.

        It needs no slot any more, and may wait: it goes back unstarted, its job goes on or is
        parked, or its verdict could not be carried out yet.
        """
        if self._holds.get(hold.key) is hold and not hold.aside:
            hold.aside = True
            self._aside[hold.delivery.queue.name] += 1
            self._aside_total += 1

    def aside(self, queue: str) -> int:
        """Return the number of messages of a queue that are set aside."""
        return self._aside.get(queue, 0)

    def drop(self, hold: Hold) -> None:
        """Stop holding a message: it has been settled, or SQS will deliver it again."""
        held = self._holds.pop(hold.key, None)
        if held is not None and (part := held.delivery.part) is not None:
            self._drop_part(held, part)
        if held is not None and held.aside:
            self._aside[held.delivery.queue.name] -= 1
            self._aside_total -= 1

    def _drop_part(self, hold: Hold, part: BundlePart) -> None:
        part.end()  # the others wait for it no more, whatever has become of it
        holds = self._bundles[hold.receipt]
        del holds[hold.key]
        if not holds:
            del self._bundles[hold.receipt]
