"""The demand for messages of each queue, from slots, shares, limits and receives under way."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from functools import partial

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.topology import MAX_BATCH, Priority, QueueSpec
from headgate.workers.dispatch.line import Line
from headgate.workers.dispatch.shares import Shares
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.held import Holdings
from headgate.workers.receiving.pace import Pace

_TURNOVER_S = 1.0
"""The window over which the rate of finished jobs is averaged."""

_LEAST_LATENCY_S = 0.001

_IMMINENT_LATENCIES, _LEAST_IMMINENT_S = 3, 0.005
"""Bounds on the time for which slots are kept free for the messages of a receive: a number of usual
latencies, and at least this many seconds."""

_LATENCIES = 5
_LEAST_ON_ITS_WAY_S = 0.1
"""Bounds on the time after which a receive is taken to wait at an empty queue: a number of usual
latencies, and at least this many seconds."""


class Demand:
    """The number of messages that could start soon.

    For each queue these are the free slots, plus those that will come free during a receive, minus
    the messages that wait already or are expected from other receives; or the part of them that the
    queue is owed by its guaranteed share, whatever waits elsewhere. Never more than its limits let
    start. Messages that can't start, whatever slots are free, are not counted.

    Args:
        concurrency: the total number of slots.
        reserved: the number of slots that only critical jobs may take.
        waiting: the messages that have been received and not started.
        holdings: all messages that this worker holds.
        shares: determines which queues are owed a start.
        clock: tells the time.
        acceptable: returns how many more messages of a queue could start, given enough slots.
        on_change: called when there may be more room than before.
    """

    def __init__(
        self,
        concurrency: int,
        reserved: int,
        waiting: Waiting,
        holdings: Holdings,
        shares: Shares,
        clock: Clock,
        *,
        acceptable: Callable[[Line], float],
        on_change: Callable[[], None],
    ) -> None:
        self._shares = shares
        self._acceptable = acceptable
        self._waiting = waiting
        self._holdings = holdings
        self._clock = clock
        self._on_change = on_change
        self._concurrency = concurrency
        self._most = 2 * concurrency + MAX_BATCH
        """Maximum number of messages held, except those set aside. Messages being settled count as
        well: if SQS accepts no deletes, receiving must not go on for ever."""
        self._reserved = reserved
        self._rate = 0.0
        self._rate_at = clock.monotonic()
        self.busy = 0
        """Number of slots in use."""
        self._critical = 0
        """Number of slots in use by critical jobs."""
        self._coming = [0 for _ in Priority]
        """By rank, the number of messages expected from receives under way."""
        self._imminent = [0 for _ in Priority]
        """By rank, those of them that are worth keeping slots free for: they will arrive at once,
        from a queue that has just returned a full batch."""
        self._coming_of: Counter[str] = Counter()
        """By queue, the number of messages expected from receives under way."""
        self._paces: dict[str, Pace] = {}
        self.latency_s = 0.01
        """Seconds that a receive takes if it need not wait for messages, smoothed."""
        self.answered = False
        """True once SQS has answered a receive, so that there are credentials and a region."""

    def started(self, queue: QueueSpec) -> None:
        """Note that a job of a queue has taken a slot."""
        self.busy += 1
        self._critical += queue.priority is Priority.CRITICAL
        self._shares.started(queue.name)

    def finished(self, queue: QueueSpec) -> None:
        """Note that a job of a queue has freed its slot."""
        self.busy -= 1
        self._critical -= queue.priority is Priority.CRITICAL
        self._shares.finished(queue.name)
        self._rate = self._rate_now() + 1 / _TURNOVER_S

    def changed(self) -> None:
        """Note that there may be more room than before."""
        self._on_change()

    def brought(self, count: int, queue: QueueSpec) -> None:
        """Note that a receive has returned ``count`` messages."""
        if (pace := self._paces.get(queue.name)) is None:
            pace = self._paces[queue.name] = Pace(queue.priority)
        pace.brought(count)

    def in_vain(self, count: int, queue: QueueSpec) -> None:
        """Note that ``count`` of them can't start for a while, and exceed what is worth holding."""
        if (pace := self._paces.get(queue.name)) is None:
            return
        if pause_s := pace.in_vain(count, self._clock.monotonic()):
            asyncio.get_running_loop().call_later(pause_s, self._on_change)

    def is_in_vain(self, queue: QueueSpec) -> bool:
        """Return True if the last receive from a queue was entirely in vain."""
        pace = self._paces.get(queue.name)
        return pace is not None and pace.is_in_vain

    def took(self, seconds: float) -> None:
        """Note that a receive returned a full batch in that time.

        Some receives wait at an empty queue first, which is no latency: so times above the usual
        one get a low weight, and times below it a high one.
        """
        sample_s = min(seconds, 2 * self.latency_s)
        weight = 0.05 if sample_s > self.latency_s else 0.3
        self.latency_s = max(
            _LEAST_LATENCY_S, self.latency_s + weight * (sample_s - self.latency_s)
        )

    def expect(self, count: int, queue: QueueSpec, *, surely: bool) -> Expectation:
        """Count the messages expected from a receive; ``surely`` if its queue has a backlog.

        A receive that takes much longer than usual waits at an empty queue, and must not keep
        others from receiving: its messages are no longer expected then, and its queue's share goes
        to others.
        """
        patience_s = max(_LEAST_ON_ITS_WAY_S, _LATENCIES * self.latency_s)
        imminent_s = max(_LEAST_IMMINENT_S, _IMMINENT_LATENCIES * self.latency_s)
        return Expectation(
            partial(self._expect, queue),
            count,
            patience_s,
            partial(self._expect_at_once, queue),
            imminent_s if surely else 0.0,
            on_free=self._on_change,
            on_late=partial(self._late, queue),
        )

    def free(self, priority: Priority) -> int:
        """Return the number of slots free for a priority; some are only for critical jobs."""
        free = self._concurrency - self.busy
        if priority is Priority.CRITICAL:
            return free
        return min(free, self._concurrency - self._reserved - (self.busy - self._critical))

    def has_slot(self, queue: QueueSpec) -> bool:
        """Return True if a job of a queue would find a free slot."""
        return self.free(queue.priority) > 0

    def has_turn(self, queue: QueueSpec) -> bool:
        """Return True if it would even after the jobs that higher priorities are about to receive.

        Otherwise buffered messages of lower priorities would take each slot that comes free before
        a receive can return.
        """
        return self.free(queue.priority) > sum(self._imminent[: queue.priority.rank])

    @property
    def is_open(self) -> bool:
        """True while more messages may be held at all."""
        return self._bound >= 1

    def has_room(self, priority: Priority) -> bool:
        """Return True if messages of a priority could start soon, by their priority alone."""
        return self._by_priority(priority, self._soon(priority, self._meanwhile_s)) >= 1

    def is_owed(self, queue: QueueSpec) -> bool:
        """Return True if a message of a queue could start soon by the queue's share."""
        return self._shares.turns(queue.name, self._soon(queue.priority, self._meanwhile_s)) >= 1

    def room(self, queue: QueueSpec) -> float:
        """Return the number of further messages of a queue that could start soon."""
        return self._startable(queue, within_s=self._meanwhile_s)

    def limit(self, queue: QueueSpec, *, has_more: bool) -> int:
        """Return the number to ask SQS for: messages that could start within about 1 s, 1 to 10.

        With few free slots and long jobs a full batch would only be hidden here and then given
        back. So would one from each of many queues, all of which are polled while idle: unless its
        last batch was full, a queue is asked for its part of the messages that may be held.

        Args:
            queue: the queue to receive from.
            has_more: True if its last batch was full.
        """
        most = MAX_BATCH if has_more else min(MAX_BATCH, self._most // self._waiting.queues)
        return max(1, min(most, math.ceil(self._startable(queue, within_s=_TURNOVER_S))))

    def _startable(self, queue: QueueSpec, *, within_s: float) -> float:
        name, coming = queue.name, self._coming_of[queue.name]
        pace = self._paces.get(name)
        if pace and pace.is_in_vain and pace.is_pausing(self._clock.monotonic()):
            return 0
        bound = min(self._bound, self._most - self._holdings.aside(name))
        acceptable = self._acceptable(self._waiting.line(name)) - coming
        soon = self._soon(queue.priority, within_s)
        by_priority = self._by_priority(queue.priority, soon)
        by_share = self._shares.turns(name, soon) - self._waiting.startable(name) - coming
        return min(bound, acceptable, max(by_priority, by_share))

    @property
    def _meanwhile_s(self) -> float:
        """The time in which slots come free for the messages of a receive that begins now."""
        return 2 * self.latency_s

    @property
    def _bound(self) -> int:
        """The number of messages that may still be held, of all queues."""
        return self._most - (self._holdings.engaged - self._waiting.aside)

    def _soon(self, priority: Priority, within_s: float) -> float:
        """Return the number of slots that a priority could take within that time."""
        return self.free(priority) + self._rate_now() * within_s

    def _by_priority(self, priority: Priority, soon: float) -> float:
        """Return the number of those slots left to new messages of a priority.

        Messages expected of lower priorities would start later, so they take no room here.
        """
        rank = priority.rank
        return soon - self._waiting.up_to(rank) - sum(self._coming[: rank + 1])

    def may_have_work(self, queue: QueueSpec) -> None:
        """Note that a receive has returned, so that the queue is no longer known to be empty."""
        self._shares.may_have_work(queue.name)

    def _expect(self, queue: QueueSpec, change: int) -> None:
        self._coming[queue.priority.rank] += change
        self._coming_of[queue.name] += change

    def _expect_at_once(self, queue: QueueSpec, change: int) -> None:
        self._imminent[queue.priority.rank] += change

    def _late(self, queue: QueueSpec) -> None:
        self._shares.is_dry(queue.name)
        self._on_change()

    def _rate_now(self) -> float:
        """Return the number of finished jobs per second, decayed to now."""
        now = self._clock.monotonic()
        self._rate *= math.exp((self._rate_at - now) / _TURNOVER_S)
        self._rate_at = now
        return self._rate


class Expectation:
    """The messages expected from one receive, for as long as they can still be on their way.

    Args:
        expect: called with each change of the number of expected messages.
        count: the number of messages.
        patience_s: how long they are expected.
        expect_at_once: called with each change of the number of slots kept free for them.
        imminent_s: how long slots are kept free; 0 for not at all.
        on_free: called when slots are no longer kept free.
        on_late: called when the messages are no longer expected.
    """

    def __init__(
        self,
        expect: Callable[[int], None],
        count: int,
        patience_s: float,
        expect_at_once: Callable[[int], None],
        imminent_s: float,
        *,
        on_free: Callable[[], None],
        on_late: Callable[[], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._expect = expect
        self._count = count
        self._expect_at_once = expect_at_once
        self._imminent = count if imminent_s else 0
        self._on_free = on_free
        self._on_late = on_late
        expect(count)
        self._timer = loop.call_later(patience_s, self._give_up)
        if self._imminent:
            expect_at_once(count)
            self._first_timer = loop.call_later(imminent_s, self._free_slots)

    def end(self) -> None:
        """Expect nothing more: the receive has returned, or never began."""
        self._timer.cancel()
        self._hold_no_slots()
        self._expect(-self._count)
        self._count = 0

    def _free_slots(self) -> None:
        self._hold_no_slots()
        self._on_free()

    def _hold_no_slots(self) -> None:
        if self._imminent:
            self._first_timer.cancel()
            held, self._imminent = self._imminent, 0
            self._expect_at_once(-held)

    def _give_up(self) -> None:
        self.end()
        self._on_late()
