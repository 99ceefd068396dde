"""How much to receive: a number for each queue, from slots, shares, limits and what is coming."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from functools import partial

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.topology import MAX_BATCH, Priority, QueueSpec
from headgate.workers.dispatch.shares import Shares
from headgate.workers.dispatch.waiting import Line, Waiting
from headgate.workers.held import Holdings
from headgate.workers.receiving.pace import Pace

_TURNOVER_S = 1.0
"""The window over which the rate of finished jobs is averaged."""

_LEAST_LATENCY_S = 0.001

_IMMINENT_LATENCIES, _LEAST_IMMINENT_S = 3, 0.005
"""For so many usual receives' time, and this at least, slots are held for what a receive brings."""

_LATENCIES = 5
_LEAST_ON_ITS_WAY_S = 0.1
"""A receive that takes longer than so many usual ones, and than this, waits at an empty queue."""


class Demand:
    """How many messages could start soon.

    Free slots, plus those that will come free while a receive is under way, minus what waits
    already and what other receives are about to bring; or what the queue is owed of them by its
    guaranteed share, whatever waits elsewhere. Never more than its limits let start. What can't
    start, whatever slots are free, takes no part in it.

    Args:
        concurrency: slots in all.
        reserved: of them, those that only critical jobs may take.
        waiting: what has been received and not started.
        holdings: all that this worker is answerable for.
        shares: which queues are owed a start.
        acceptable: how many more messages of a queue could start if there were slots enough.
        clock: tells the time.
        on_change: called when there may be room that there was not before.
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
        """Messages held at most, but for those set aside. What is settling counts as well: if SQS
        takes no deletes we must not receive for ever."""
        self._reserved = reserved
        self._rate = 0.0
        self._rate_at = clock.monotonic()
        self.busy = 0
        """Slots in use."""
        self._critical = 0
        """Of them, those of critical jobs."""
        self._coming = [0 for _ in Priority]
        """By rank, the messages that receives under way will probably bring."""
        self._imminent = [0 for _ in Priority]
        """Of them, by rank, those that are worth leaving a slot free for: they will be here at
        once, from a queue that has just given a full batch."""
        self._coming_of: Counter[str] = Counter()
        """The same by queue."""
        self._paces: dict[str, Pace] = {}
        self.latency_s = 0.01
        """How long a receive takes that need not wait, smoothed."""
        self.answered = False
        """SQS has answered a receive, so there are credentials and a region."""

    def started(self, queue: QueueSpec) -> None:
        """A job of that queue has taken a slot."""
        self.busy += 1
        self._critical += queue.priority is Priority.CRITICAL
        self._shares.started(queue.name)

    def finished(self, queue: QueueSpec) -> None:
        """Its slot has come free."""
        self.busy -= 1
        self._critical -= queue.priority is Priority.CRITICAL
        self._shares.finished(queue.name)
        self._rate = self._rate_now() + 1 / _TURNOVER_S

    def changed(self) -> None:
        """There may be room that there was not before."""
        self._on_change()

    def brought(self, count: int, queue: QueueSpec) -> None:
        """A receive has returned with so many messages."""
        if (pace := self._paces.get(queue.name)) is None:
            pace = self._paces[queue.name] = Pace(queue.priority)
        pace.brought(count)

    def in_vain(self, count: int, queue: QueueSpec) -> None:
        """So many of them may not start for a while, and are more than enough of their kind."""
        if (pace := self._paces.get(queue.name)) is None:
            return
        if pause_s := pace.in_vain(count, self._clock.monotonic()):
            asyncio.get_running_loop().call_later(pause_s, self._on_change)

    def is_in_vain(self, queue: QueueSpec) -> bool:
        """Whether all that was received last of that queue was in vain."""
        pace = self._paces.get(queue.name)
        return pace is not None and pace.is_in_vain

    def took(self, seconds: float) -> None:
        """A receive brought a full batch in that time.

        Some of them have waited at an empty queue first, which is no latency: so what takes longer
        than usual counts for little, and what takes less for much.
        """
        sample_s = min(seconds, 2 * self.latency_s)
        weight = 0.05 if sample_s > self.latency_s else 0.3
        self.latency_s = max(
            _LEAST_LATENCY_S, self.latency_s + weight * (sample_s - self.latency_s)
        )

    def expect(self, count: int, queue: QueueSpec, *, surely: bool) -> Expectation:
        """Reckon with what a receive will probably bring; ``surely``: its queue has a backlog.

        One that takes much longer than usual waits at an empty queue, and must not keep others
        from receiving: then no more is expected of it, and its queue's share goes to others.
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
        """Slots that a job of it could take now; some are for critical jobs alone."""
        free = self._concurrency - self.busy
        if priority is Priority.CRITICAL:
            return free
        return min(free, self._concurrency - self._reserved - (self.busy - self._critical))

    def has_slot(self, queue: QueueSpec) -> bool:
        """Whether a job of that queue would find a free slot."""
        return self.free(queue.priority) > 0

    def has_turn(self, queue: QueueSpec) -> bool:
        """Whether it would even if what higher priorities are about to bring came first.

        Else what happens to be buffered of lower priorities would take each slot that comes free
        before a receive can return.
        """
        return self.free(queue.priority) > sum(self._imminent[: queue.priority.rank])

    @property
    def is_open(self) -> bool:
        """True if more may be held at all."""
        return self._bound >= 1

    def has_room(self, priority: Priority) -> bool:
        """True if messages of that priority could start soon, by their priority alone."""
        return self._by_priority(priority, self._soon(priority, self._meanwhile_s)) >= 1

    def is_owed(self, queue: QueueSpec) -> bool:
        """True if one of that queue could, by its share."""
        return self._shares.turns(queue.name, self._soon(queue.priority, self._meanwhile_s)) >= 1

    def room(self, queue: QueueSpec) -> float:
        """How many messages of that queue could start soon."""
        return self._startable(queue, within_s=self._meanwhile_s)

    def limit(self, queue: QueueSpec, *, has_more: bool) -> int:
        """How many to ask SQS for: what could start within about a second, 1 to 10.

        With few free slots and long jobs a full batch would only be hidden here, and given back. So
        would one from each of many queues, all of which are asked while they are idle: unless
        its last batch was full, a queue is asked for its part of what may be held.

        Args:
            queue: which.
            has_more: its last batch was full.
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
        """Time in which slots come free for what a receive that begins now will bring."""
        return 2 * self.latency_s

    @property
    def _bound(self) -> int:
        """The number that may still be held, of all queues."""
        return self._most - (self._holdings.engaged - self._waiting.aside)

    def _soon(self, priority: Priority, within_s: float) -> float:
        """Slots that a job of it could take within that time."""
        return self.free(priority) + self._rate_now() * within_s

    def _by_priority(self, priority: Priority, soon: float) -> float:
        """The number of those slots left to new messages of a priority.

        What a lower one is about to bring would start later, so it takes no room here.
        """
        rank = priority.rank
        return soon - self._waiting.up_to(rank) - sum(self._coming[: rank + 1])

    def may_have_work(self, queue: QueueSpec) -> None:
        """A receive has returned: that the queue is empty is no longer known."""
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
        """Finished jobs a second, decayed to now."""
        now = self._clock.monotonic()
        self._rate *= math.exp((self._rate_at - now) / _TURNOVER_S)
        self._rate_at = now
        return self._rate


class Expectation:
    """What one receive will probably bring, for as long as it can still be on its way.

    Args:
        expect: is told the change of what is expected.
        count: how many messages.
        patience_s: how long they are expected.
        expect_at_once: is told the change of what slots are left free for.
        imminent_s: how long; 0 for not at all.
        on_free: called when slots are no longer left free.
        on_late: called when they are no longer expected.
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
        """The receive has returned, or never began."""
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
