"""Forming batches: jobs whose handlers take several at once wait for others to join them.

A job waits aside, where it takes no slot and keeps nothing else from starting, until its batch is
full or the first of it has waited for as long as its type says. From then on each waits for a slot
and for its limits as any job does. When one of them starts, those that may start with it do so, in
the same slot.

A worker that stops gives them back with all others that wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.options.batch import Batch
from headgate.jobs.definitions.policies import types_from
from headgate.jobs.execution.calling.batch_call import company_of
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.held import Hold


@dataclass(slots=True)
class _Forming:
    """The waiting jobs that may run in one call."""

    key: Hashable
    batch: Batch
    ripe: dict[Hold, None] = field(default_factory=dict)
    """Those that wait for a slot, in the order in which they came; so for the next."""
    young: dict[Hold, None] = field(default_factory=dict)
    """Those that wait for others."""
    timer: asyncio.TimerHandle | None = None
    """Set while one of them waits for others."""


class FormingBatches:
    """The waiting jobs that may start together.

    Args:
        waiting: the waiting messages, which these are among.
        clock: tells the time.
        on_change: called when some of them may start.
    """

    def __init__(self, waiting: Waiting, *, clock: Clock, on_change: Callable[[], None]) -> None:
        self._waiting = waiting
        self._clock = clock
        self._on_change = on_change
        self._by_key: dict[Hashable, _Forming] = {}
        self._of: dict[Hold, _Forming] = {}

    def put(self, hold: Hold) -> bool:
        """Add a message to the waiting ones if it may run together with others.

        Its records and payload have been read.

        Returns:
            False if it runs alone, and has not been added.
        """
        if (key := _key_of(hold)) is None or (batch := _batch_of(hold)) is None:
            return False
        if (forming := self._by_key.get(key)) is None:
            forming = self._by_key[key] = _Forming(key, batch)
        forming.young[hold] = None
        self._of[hold] = forming
        self._waiting.put(hold, behind=True)
        self._look(forming, hold)
        return True

    def read(self, hold: Hold) -> None:
        """Note that a waiting message's records and payload have been read."""
        self._waiting.read(hold)
        if _key_of(hold) is not None and self._waiting.remove(hold):
            self.put(hold)

    def company(self, hold: Hold, joins: Callable[[Hold], bool]) -> list[Hold]:
        """Remove and return the messages that start together with one that starts now.

        Args:
            hold: the one that starts.
            joins: starts another one, if it may; returns False otherwise.
        """
        if (forming := self._of.get(hold)) is None:
            return []
        self.discard(hold)
        joined: list[Hold] = []
        for other in [*forming.ripe, *forming.young]:
            if len(joined) + 1 == forming.batch.size:
                break
            if joins(other):
                self._waiting.remove(other)
                self.discard(other)
                joined.append(other)
        return joined

    def discard(self, hold: Hold) -> None:
        """Forget a message that has started, or is given back."""
        if (forming := self._of.pop(hold, None)) is None:
            return
        (forming.young if hold in forming.young else forming.ripe).pop(hold)
        if not forming.young:
            self._stop_timer(forming)
            if not forming.ripe:
                del self._by_key[forming.key]

    def _look(self, forming: _Forming, hold: Hold) -> None:
        """Let jobs wait for others no longer if there are enough, or else for a while."""
        waited_s = self._clock.monotonic() - hold.since
        left_s = forming.batch.wait.total_seconds() - waited_s
        if left_s <= 0 or len(forming.young) >= forming.batch.size:
            self._ripen(forming)
        elif forming.timer is None:
            loop = asyncio.get_running_loop()
            forming.timer = loop.call_later(left_s, self._late, forming)

    def _late(self, forming: _Forming) -> None:
        self._ripen(forming)
        self._on_change()

    def _ripen(self, forming: _Forming) -> None:
        self._stop_timer(forming)
        now = self._clock.monotonic()
        for hold in forming.young:
            hold.since = now
            self._waiting.lead(hold)
        forming.ripe |= forming.young
        forming.young.clear()

    def _stop_timer(self, forming: _Forming) -> None:
        if forming.timer is not None:
            forming.timer.cancel()
            forming.timer = None


def _batch_of(hold: Hold) -> Batch | None:
    return None if (job := hold.run.job) is None else job.handler.batch


def _key_of(hold: Hold) -> Hashable | None:
    """Return what those that may run together with a message have in common; None: it runs alone.

    A job whose handler won't be called runs alone, too.
    """
    if (job := hold.run.job) is None or job.handler.batch is None or hold.run.foregone is not None:
        return None
    return company_of(job, hold.delivery.queue)


def jobs_a_slot(app: App, queue: QueueSpec) -> int:
    """Return the number of a queue's messages that surely fit into one slot.

    More than one only if all types that are declared for the queue run in batches.
    """
    declared = [
        job.batch
        for job in types_from(app, queue.group)
        if job.queue != queue.group or job.priority is queue.priority
    ]
    return min((1 if batch is None else batch.size for batch in declared), default=1)
